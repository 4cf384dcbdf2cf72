//go:build unix && !linux

package supervise

import (
	"os/exec"
	"syscall"
)

// apart puts the child into a group of its own, so that Ctrl-C at the terminal
// reaches the supervisor alone, which ends all in order.
func apart(command *exec.Cmd) { command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

func start(command *exec.Cmd, ended chan<- error) error {
	if err := command.Start(); err != nil {
		return err
	}
	go func() { ended <- command.Wait() }()
	return nil
}

func terminate(command *exec.Cmd) error { return command.Process.Signal(syscall.SIGTERM) }

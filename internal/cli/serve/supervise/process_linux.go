package supervise

import (
	"os/exec"
	"runtime"
	"syscall"
)

// apart puts the child into a group of its own, so that Ctrl-C at the terminal
// reaches the supervisor alone, which ends all in order; and has the kernel end it
// when the supervisor is killed.
func apart(command *exec.Cmd) {
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
}

// start starts the child on a thread that lives as long as the child: to the kernel
// the parent that dies is a thread.
func start(command *exec.Cmd, ended chan<- error) error {
	started := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := command.Start()
		started <- err
		if err == nil {
			ended <- command.Wait()
		}
	}()
	return <-started
}

func terminate(command *exec.Cmd) error { return command.Process.Signal(syscall.SIGTERM) }

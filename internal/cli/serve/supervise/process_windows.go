package supervise

import (
	"errors"
	"os/exec"
)

func apart(*exec.Cmd) {}

func start(command *exec.Cmd, ended chan<- error) error {
	if err := command.Start(); err != nil {
		return err
	}
	go func() { ended <- command.Wait() }()
	return nil
}

// terminate cannot ask there: the child is killed.
func terminate(*exec.Cmd) error { return errors.ErrUnsupported }

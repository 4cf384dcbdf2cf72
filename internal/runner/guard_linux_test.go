package runner_test

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/dlockctl/dlockctl/internal/runner"
)

// guardVariable makes this test program a guard, which reads its orders from stdin.
const guardVariable = "DLOCKCTL_TEST_GUARD"

// A guard whose wrapper is gone kills the command, and what has left the command's group
// and carries the marks of its grant. What belongs to another grant it leaves alone: of
// the same session, or of none, as where a backend has no sessions.
//
// Mutation: let any one of the marks do in marked, or mark by the session alone.
func TestGuardKillsNoStranger(t *testing.T) { //nolint:paralleltest // a job beside it would take its processes for its own command's
	if os.Getenv(guardVariable) != "" {
		runner.Guard(os.Stdin, runner.NewClock())
		return
	}
	grant := func(key, token string) []string {
		return []string{"DLOCK_KEY=" + key, "DLOCK_TOKEN=" + token, "DLOCK_SESSION=", "DLOCK_EXPIRES=2026-01-02T03:04:05.000000Z"}
	}
	mine := grant("a key\nin two lines of "+t.Name(), "1")
	main := sleeper(t, mine)
	daemon := sleeper(t, mine)
	strangers := map[string]*exec.Cmd{"another key": sleeper(t, grant("another of "+t.Name(), "1")), "another token": sleeper(t, grant("a key\nin two lines of "+t.Name(), "2"))}

	guard := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestGuardKillsNoStranger$")
	guard.Env = append(os.Environ(), guardVariable+"=1")
	guard.Stdin = strings.NewReader(runner.Orders(mine, main.Process.Pid)) // and then the wrapper is gone
	if out, err := guard.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for name, cmd := range map[string]*exec.Cmd{"the command": main, "its daemon": daemon} {
		if sig := endedBy(t, cmd); sig != syscall.SIGKILL {
			t.Errorf("%s ended by %s", name, sig)
		}
	}
	for name, cmd := range strangers {
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		if sig := endedBy(t, cmd); sig != syscall.SIGTERM {
			t.Errorf("a command of %s ended by %s", name, sig)
		}
	}
}

// sleeper is a process in a group of its own.
func sleeper(t *testing.T, env []string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "sleep", "1000")
	cmd.Env, cmd.SysProcAttr = env, &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() }) // it has ended otherwise
	return cmd
}

func endedBy(t *testing.T, cmd *exec.Cmd) syscall.Signal {
	t.Helper()
	err := cmd.Wait()
	exit, ended := errors.AsType[*exec.ExitError](err)
	if !ended {
		t.Fatalf("%v: %v, want it ended by a signal", cmd, err)
	}
	return exit.Sys().(syscall.WaitStatus).Signal()
}

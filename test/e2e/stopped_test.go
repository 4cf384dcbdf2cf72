package e2e_test

import (
	"bufio"
	"cmp"
	"context"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Whatever stops the demo or a drill, no server and no folder of it is left, and a signal
// has its own exit code, wherever in the story it comes.
//
// Mutation: take context.WithoutCancel out of stage's remove, or followers out of
// devenv's destroy.
func TestStoppedDemo(t *testing.T) {
	t.Parallel()
	binary := build(t)
	for name, c := range map[string]struct {
		// verb is the demo where nothing is said. stream and line are where the demo is when it is stopped.
		verb, stream, line string
		stop               func(t *testing.T, cmd *exec.Cmd, stream io.Closer)
		exit               int // 0: any but success
	}{
		"interrupted while it starts":        {"", "stderr", "creating the database", sends(syscall.SIGINT), 130},
		"terminated in the story":            {"", "stdout", "tries at the same time", sends(syscall.SIGTERM), 143},
		"hung up in the story":               {"", "stdout", "tries at the same time", sends(syscall.SIGHUP), 0},
		"nobody reads on":                    {"", "stdout", "Two databases", closes, 0},
		"interrupted while a standby starts": {"drill failover", "stderr", "lockdb-standby: starting", sends(syscall.SIGINT), 130},
		"terminated while it is promoted":    {"drill failover", "stderr", "the primary dies", sends(syscall.SIGTERM), 143},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			folder := stateFolder(t)
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
			defer cancel()
			cmd := exec.CommandContext(ctx, binary, strings.Fields(cmp.Or(c.verb, "demo"))...)
			cmd.Env = []string{"HOME=" + t.TempDir(), "TMPDIR=" + folder, "DLOCKCTL_PG_BIN=" + testBinaries(), "PATH=" + os.Getenv("PATH")}
			var stream io.ReadCloser
			var err error
			if c.stream == "stdout" {
				stream, err = cmd.StdoutPipe()
			} else {
				stream, err = cmd.StderrPipe()
			}
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			lines := bufio.NewScanner(stream)
			for lines.Scan() && !strings.Contains(lines.Text(), c.line) {
			}
			if !strings.Contains(lines.Text(), c.line) {
				t.Fatalf("%s ended without %q: %v", c.stream, c.line, cmd.Wait())
			}
			c.stop(t, cmd, stream)
			for lines.Scan() { // a full pipe would stop it
			}
			err = cmd.Wait()
			if err == nil || c.exit != 0 && exitCode(t, err) != c.exit {
				t.Errorf("it ended with %v, want exit %d", err, c.exit)
			}
			left, err := os.ReadDir(folder)
			if err != nil {
				t.Fatal(err)
			}
			for _, entry := range left {
				t.Errorf("%s is left", entry.Name())
			}
		})
	}
}

func sends(signal syscall.Signal) func(*testing.T, *exec.Cmd, io.Closer) {
	return func(t *testing.T, cmd *exec.Cmd, _ io.Closer) {
		t.Helper()
		if err := cmd.Process.Signal(signal); err != nil {
			t.Fatal(err)
		}
	}
}

func closes(t *testing.T, _ *exec.Cmd, stream io.Closer) {
	t.Helper()
	if err := stream.Close(); err != nil {
		t.Fatal(err)
	}
}

//go:build linux

package drill_test

import (
	"bufio"
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dlockctl/dlockctl/internal/devenv"
	"github.com/dlockctl/dlockctl/internal/devenv/filelock"
)

// home is a folder that the servers' user may pass through, with the program in it.
// Whatever is left running below it is stopped.
func home(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "dlockctl-leftover-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		left, err := filepath.Glob(filepath.Join(dir, "dlockctl-drill-*"))
		for _, folder := range left {
			env, openErr := devenv.Open(devenv.Options{StateDir: folder})
			if openErr == nil {
				openErr = env.Destroy(context.WithoutCancel(t.Context()))
			}
			err = errors.Join(err, openErr)
		}
		if err := errors.Join(err, os.RemoveAll(dir)); err != nil {
			t.Error(err)
		}
	})
	self, err := os.Executable()
	if err := errors.Join(err, os.Chmod(dir, 0o711), os.Symlink(self, filepath.Join(dir, program))); err != nil {
		t.Fatal(err)
	}
	return dir
}

func drill(t *testing.T, dir string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), filepath.Join(dir, program), append([]string{"drill", "restore"}, args...)...)
	cmd.Env = []string{"HOME=" + dir, "TMPDIR=" + dir, "PATH=" + os.Getenv("PATH"), "GORACE=atexit_sleep_ms=0"}
	return cmd
}

// A drill that is killed leaves its servers and its folder. The next one, whatever becomes
// of it, stops and removes them; it leaves alone what another one is using, and what was
// kept on purpose.
//
// Mutation: drop clearLeftovers from stage.Run, the lock from use, or either look of leftover.
func TestKilledDrillIsClearedByTheNext(t *testing.T) {
	t.Parallel()
	dir := home(t)
	killed := drill(t, dir, "--pg-bin", os.Getenv("DLOCKCTL_TEST_PG16"))
	said, err := killed.StderrPipe()
	if err == nil {
		err = killed.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(said)
	for lines.Scan() && !strings.Contains(lines.Text(), "applied") {
		t.Log(lines.Text())
	}
	_ = killed.Process.Kill()
	_ = killed.Wait()
	left, err := filepath.Glob(filepath.Join(dir, "dlockctl-drill-*"))
	if err != nil || len(left) != 1 {
		t.Fatalf("the killed drill has left %q, %v", left, err)
	}
	env, err := devenv.Open(devenv.Options{StateDir: left[0]})
	if err != nil {
		t.Fatal(err)
	}
	status, err := env.Status(t.Context())
	if err != nil || len(status.Instances) != 2 {
		t.Fatalf("%+v, %v", status, err)
	}
	if living := livingIn(t, left[0]); len(living) < len(status.Instances) || status.Instances[0].State != devenv.Running {
		t.Errorf("processes of the killed one: %q; this test no longer shows what is cleared", living)
	}

	inUse, kept := filepath.Join(dir, "dlockctl-drill-used"), filepath.Join(dir, "dlockctl-demo-kept")
	if err := errors.Join(os.Mkdir(inUse, 0o700), os.Mkdir(kept, 0o700)); err != nil {
		t.Fatal(err)
	}
	lock, _, err := filelock.Try(filepath.Join(inUse, "in-use"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := lock.Release(); err != nil {
			t.Error(err)
		}
	}()
	next := drill(t, dir, "--pg-bin", t.TempDir()) // there is no PostgreSQL: it ends here
	out, err := next.CombinedOutput()
	if next.ProcessState.ExitCode() != 2 || !strings.Contains(string(out), "removing what one that was killed has left: "+left[0]) || strings.Contains(string(out), "stays") {
		t.Errorf("the next drill: %v\n%s", err, out)
	}
	if _, err := os.Lstat(left[0]); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the folder of the killed one: %v", err)
	}
	if living := livingIn(t, left[0]); len(living) > 0 {
		t.Errorf("servers of the killed one still run: %q", living)
	}
	for _, folder := range []string{inUse, kept} {
		if _, err := os.Lstat(folder); err != nil {
			t.Errorf("%s is gone: %v", folder, err)
		}
	}
}

// livingIn lists the processes whose current folder lies below dir.
func livingIn(t *testing.T, dir string) (living []string) {
	t.Helper()
	links, err := filepath.Glob("/proc/[0-9]*/cwd")
	if err != nil {
		t.Fatal(err)
	}
	for _, link := range links {
		if target, err := os.Readlink(link); err == nil && strings.HasPrefix(target, dir) {
			living = append(living, link)
		}
	}
	return living
}

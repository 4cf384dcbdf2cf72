package devenv_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/dlockctl/dlockctl/internal/devenv"
	"github.com/dlockctl/dlockctl/internal/devenv/cluster"
)

// A disk that fills up while initdb writes. Where the tests may mount, the disk is real and small; elsewhere initdb
// says what it says then.
//
// Mutation: drop "No space left on device" from cluster.explain.
func TestDiskFull(t *testing.T) {
	t.Parallel()
	state, pgBin := smallDisk(t), bin(t, 16)
	if state == "" {
		state, pgBin = folder(t), fakePostgreSQL(t, folder(t), "16.1")
		program(t, filepath.Join(pgBin, "initdb"), `echo 'initdb: error: could not write to file "x": No space left on device' >&2; exit 1`)
	}
	env, _ := open(t, devenv.Options{StateDir: state, PGBin: pgBin})
	_, err := env.Up(t.Context())
	if !errors.Is(err, cluster.ErrDiskFull) || !strings.Contains(err.Error(), "free some space") {
		t.Errorf("up on a full disk = %v, want ErrDiskFull and what to do", err)
	}
	if left := must(filepath.Glob(filepath.Join(env.Dir(), "*db*"))); len(left) > 0 {
		t.Errorf("up left %v", left)
	}
}

// smallDisk mounts a file system of 8 MB; empty when that is not allowed.
func smallDisk(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(folder(t), "disk")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := mountTmpfs(dir, "size=8m,mode=0755"); err != nil {
		return ""
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// Mutation: drop the permission case from unwritable.
func TestStateFolderNotWritable(t *testing.T) {
	t.Parallel()
	closed := folder(t)
	if err := os.Chmod(closed, 0o555); err != nil {
		t.Fatal(err)
	}
	as := ""
	if asRoot() {
		as = "nobody" // root may write anywhere
	}
	_, stderr, err := runChild(t, as, childPlan{Verb: "up", Opts: map[string]string{"state_dir": filepath.Join(closed, "state"), "pg_bin": bin(t, 15)}})
	if err == nil || !strings.Contains(stderr, "not writable") || !strings.Contains(stderr, closed) || !strings.Contains(stderr, "DLOCKCTL_STATE_DIR") {
		t.Errorf("up = %v, stderr %q; want the folder named and a way out", err, stderr)
	}
}

// Binaries, or a state folder, that the servers' user cannot reach.
//
// Mutation: drop the permission case from cluster.ReadVersion; from cluster.explain.
func TestFolderClosedToTheServersUser(t *testing.T) {
	t.Parallel()
	if !asRoot() {
		// Then the servers' user is the caller, and a folder closed to oneself is TestStateFolderNotWritable.
		return
	}
	closed := folder(t)
	fakePostgreSQL(t, filepath.Join(closed, "bin"), "16.1")
	if err := os.Chmod(closed, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, opts := range map[string]devenv.Options{
		"binaries":     {StateDir: folder(t), PGBin: filepath.Join(closed, "bin")},
		"state folder": {StateDir: filepath.Join(closed, "state"), PGBin: bin(t, 16)},
	} {
		env, _ := open(t, opts)
		_, err := env.Up(t.Context())
		if !errors.Is(err, os.ErrPermission) || !strings.Contains(err.Error(), closed) || !strings.Contains(err.Error(), "enter") {
			t.Errorf("%s: up = %v, want the folder and what to do", name, err)
		}
	}
}

// Where the state lies: the option, the environment, the user's own folder; root's where the servers' user can enter.
//
// Mutation: turn the order of the two overrides round; take a relative XDG_STATE_HOME.
func TestStateFolder(t *testing.T) {
	t.Parallel()
	option := map[string]string{"state_dir": "/s/option"}
	for _, c := range []struct {
		opts, vars map[string]string
		user, root string
	}{
		{option, map[string]string{"DLOCKCTL_STATE_DIR": "/s/env"}, "/s/option/dev", "/s/option/dev"},
		{nil, map[string]string{"DLOCKCTL_STATE_DIR": "/s/env", "XDG_STATE_HOME": "/s/xdg"}, "/s/env/dev", "/s/env/dev"},
		{nil, map[string]string{"XDG_STATE_HOME": "/s/xdg", "HOME": "/h"}, "/s/xdg/dlockctl/dev", "/var/lib/dlockctl/dev"},
		{nil, map[string]string{"XDG_STATE_HOME": "xdg", "HOME": "/h"}, "/h/.local/state/dlockctl/dev", "/var/lib/dlockctl/dev"},
	} {
		plan := childPlan{Verb: "dir", Opts: c.opts, Vars: c.vars}
		users := map[string]string{"": c.user}
		if asRoot() {
			users = map[string]string{"": c.root, "nobody": c.user}
		}
		for as, want := range users {
			if got, stderr, err := runChild(t, as, plan); err != nil || got != want {
				t.Errorf("state folder of %q with %v, %v = %q (%v %s), want %q", as, c.opts, c.vars, got, err, stderr, want)
			}
		}
	}
}

// Two users of one machine, each with an environment of their own at the same time; neither gets into the other's.
//
// Mutation: write the DSN file with 0644; let checkOwner return nil; `trust` in configure.
func TestTwoUsersDoNotCollide(t *testing.T) {
	t.Parallel()
	mine, _ := open(t, devenv.Options{StateDir: folder(t), PGBin: bin(t, 15)})
	me := up(t, mine)
	as, home := "", folder(t)
	if asRoot() {
		as = "nobody"
		if err := os.Chown(home, int(credential(t, as).Uid), int(credential(t, as).Gid)); err != nil {
			t.Fatal(err)
		}
	}
	theirs := childPlan{Verb: "up", Opts: map[string]string{"pg_bin": bin(t, 15)}, Vars: map[string]string{"HOME": home}}
	stdout, stderr, err := runChild(t, as, theirs)
	if err != nil {
		t.Fatalf("up as another user: %v %s", err, stderr)
	}
	defer func() {
		theirs.Verb = "destroy"
		if _, stderr, err := runChild(t, as, theirs); err != nil {
			t.Errorf("destroy as another user: %v %s", err, stderr)
		}
	}()
	if asRoot() {
		if want := filepath.Join(home, ".local/state/dlockctl/dev/lockdb/data"); !strings.Contains(stdout, want) {
			t.Errorf("the other user's data is not in %s: %s", want, stdout)
		}
		for verb, refusal := range map[string]string{"up": "not writable|belongs to user id", "dsn": "belongs to user id", "destroy": "belongs to user id"} {
			_, stderr, err := runChild(t, as, childPlan{Verb: verb, Opts: map[string]string{"state_dir": filepath.Dir(mine.Dir()), "pg_bin": bin(t, 15)}})
			if err == nil || !containsOne(stderr, refusal) {
				t.Errorf("%s on another user's folder = %v %q, want a refusal", verb, err, stderr)
			}
		}
	}
	if diff := fmt.Sprint(me) != fmt.Sprint(must(mine.Status(t.Context()))); diff {
		t.Error("my servers changed")
	}
}

func containsOne(text, alternatives string) bool {
	for want := range strings.SplitSeq(alternatives, "|") {
		if strings.Contains(text, want) {
			return true
		}
	}
	return false
}

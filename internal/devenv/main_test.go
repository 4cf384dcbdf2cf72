package devenv_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/dlockctl/dlockctl/internal/devenv"
	"github.com/dlockctl/dlockctl/internal/devenv/cluster"
)

// childVariable makes this test binary play dlockctl in a process of its own: to be killed, to be another user.
const childVariable = "DEVENV_TEST_CHILD"

// childPlan is what the child does, in JSON.
type childPlan struct {
	Verb  string            `json:"verb"`   // up, destroy, dsn, dir
	Opts  map[string]string `json:"opts"`   // state_dir, pg_bin, run_as
	DieAt string            `json:"die_at"` // kill -9 oneself when a line of progress holds this
	Vars  map[string]string `json:"vars"`
}

func TestMain(m *testing.M) {
	plan := os.Getenv(childVariable)
	if plan == "" {
		m.Run()
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := playChild(ctx, plan, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func playChild(ctx context.Context, raw string, out io.Writer) error {
	var plan childPlan
	if err := json.Unmarshal([]byte(raw), &plan); err != nil {
		return err
	}
	env, err := devenv.Open(devenv.Options{
		StateDir: plan.Opts["state_dir"], PGBin: plan.Opts["pg_bin"], RunAs: plan.Opts["run_as"],
		Env: func(name string) string { return plan.Vars[name] },
		Progress: func(line string) {
			if plan.DieAt != "" && strings.Contains(line, plan.DieAt) {
				_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			}
		},
	})
	if err != nil {
		return err
	}
	switch plan.Verb {
	case "up":
		status, err := env.Up(ctx)
		if err != nil {
			return err
		}
		return json.NewEncoder(out).Encode(status)
	case "destroy":
		return env.Destroy(ctx)
	case "dir":
		_, err := fmt.Fprint(out, env.Dir())
		return err
	case "dsn":
		_, err := env.LockDSN()
		return err
	}
	return fmt.Errorf("no verb %q", plan.Verb)
}

// runChild runs the plan in a process of its own, as user unless that is empty.
func runChild(t *testing.T, as string, plan childPlan) (stdout, stderr string, err error) {
	t.Helper()
	raw, err := json.Marshal(plan)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), ownBinary(t))
	cmd.Dir, cmd.Env = "/", []string{childVariable + "=" + string(raw), "PATH=" + os.Getenv("PATH")}
	if as != "" {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: credential(t, as)}
	}
	var o, e bytes.Buffer
	cmd.Stdout, cmd.Stderr = &o, &e
	err = cmd.Run()
	return o.String(), e.String(), err
}

// ownBinary is a copy of this test binary where another user can run it.
func ownBinary(t *testing.T) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(folder(t), "dlockctl.test")
	writeProgram(t, path, text)
	return path
}

// writeProgram holds off every fork while the file is open for writing: a child would inherit the descriptor for a
// moment, and nobody can run a file that somebody may write ("text file busy").
func writeProgram(t *testing.T, path string, text []byte) {
	t.Helper()
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, text, 0o755)); err != nil {
		t.Fatal(err)
	}
}

func credential(t *testing.T, name string) *syscall.Credential {
	t.Helper()
	u, err := user.Lookup(name)
	if err != nil {
		t.Fatal(err)
	}
	uid, uidErr := strconv.ParseUint(u.Uid, 10, 32)
	gid, gidErr := strconv.ParseUint(u.Gid, 10, 32)
	if uidErr != nil || gidErr != nil {
		t.Fatal(uidErr, gidErr)
	}
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
}

// folder is a temporary folder that every user may enter (t.TempDir is closed to others) with a short name.
func folder(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "dlockdev-*")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// bin is the folder of the tested PostgreSQL.
func bin(t *testing.T, major int) string {
	t.Helper()
	variable := fmt.Sprintf("DLOCKCTL_TEST_PG%d", major)
	dir := os.Getenv(variable)
	if dir == "" {
		t.Fatalf("%s is not set; run `make test`", variable)
	}
	return dir
}

// lines collects progress.
type lines struct{ text strings.Builder }

func (l *lines) add(line string) { l.text.WriteString(line + "\n") }

// open opens an environment that is destroyed when the test ends.
func open(t *testing.T, opts devenv.Options) (*devenv.Env, *lines) {
	t.Helper()
	told := &lines{}
	if opts.Progress == nil {
		opts.Progress = told.add
	}
	env, err := devenv.Open(opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := env.Destroy(context.WithoutCancel(t.Context())); err != nil {
			t.Errorf("destroy: %v", err)
		}
	})
	return env, told
}

func up(t *testing.T, env *devenv.Env) devenv.Status {
	t.Helper()
	status, err := env.Up(t.Context())
	if err != nil {
		t.Fatalf("up: %v", err)
	}
	for _, i := range status.Instances {
		if i.State != devenv.Running {
			t.Fatalf("after up %s is %s", i.Name, i.State)
		}
	}
	return status
}

func asRoot() bool { return os.Geteuid() == 0 }

// serverUser is who the servers run as.
func serverUser(t *testing.T) uint32 {
	t.Helper()
	account, err := cluster.ResolveAccount("")
	if err != nil {
		t.Fatal(err)
	}
	return account.EffectiveUID()
}

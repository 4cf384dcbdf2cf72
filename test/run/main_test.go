//go:build linux

// Package run_test proves `dlockctl run` with real processes on a real lockdb: the
// program as it is built for its users, and a command that writes down when it
// was running.
package run_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/dlockctl/dlockctl/internal/pgtest"
)

func TestMain(m *testing.M) {
	// What a caller such as nohup had ignored would be ignored by every program that is
	// started here: whoever listens hands the default on.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP)
	defer func() { _ = os.RemoveAll(programs.dir) }()
	pgtest.Main(m)
}

// programs are built once for all tests, as their users build them.
var programs struct {
	sync.Once
	built

	dir string
	err error
}

func build() (err error) {
	if programs.dir, err = os.MkdirTemp("", "dlockctl-run-"); err != nil {
		return err
	}
	programs.built = built{dlockctl: filepath.Join(programs.dir, "dlockctl"), child: filepath.Join(programs.dir, "child")}
	for path, pkg := range map[string]string{programs.dlockctl: "github.com/dlockctl/dlockctl/cmd/dlockctl", programs.child: "./testdata/child"} {
		if out, err := exec.Command("go", "build", "-o", path, pkg).CombinedOutput(); err != nil { //nolint:noctx // it outlives the test that asks first
			return fmt.Errorf("build %s: %w\n%s", pkg, err, out)
		}
	}
	return nil
}

type built struct{ dlockctl, child string }

// world is a lockdb, and the programs.
type world struct {
	built

	dbs pgtest.Databases
	env []string
}

func newWorld(t *testing.T) *world {
	t.Helper()
	programs.Do(func() { programs.err = build() })
	if programs.err != nil {
		t.Fatal(programs.err)
	}
	w := &world{built: programs.built, dbs: pgtest.Migrated(t, 16)}
	w.env = w.environment(w.dbs.Lock, "t_operator", t.TempDir())
	return w
}

func (w *world) environment(lock pgtest.DB, login, home string) []string {
	return []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + home, "DLOCKCTL_LOCK_DSN=" + lock.DSN(login), "DLOCKCTL_PAY_DSN=" + w.dbs.Pay.DSN(login),
		"DLOCKCTL_OPERATOR=erin@ops", "DLOCKCTL_SEED=true", "TERM=dumb",
	}
}

// buffer is what a process has written so far.
type buffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// wrapper is one `dlockctl run`.
type wrapper struct {
	t           *testing.T
	cmd         *exec.Cmd
	out, errOut *buffer
	done        chan struct{}
	exit        int
}

// start runs dlockctl; what is left of it at the end of the test is killed.
func (w *world) start(t *testing.T, args ...string) *wrapper {
	t.Helper()
	r := &wrapper{t: t, out: &buffer{}, errOut: &buffer{}, done: make(chan struct{})}
	r.cmd = exec.CommandContext(context.WithoutCancel(t.Context()), w.dlockctl, args...)
	r.cmd.Env, r.cmd.Stdout, r.cmd.Stderr = w.env, r.out, r.errOut
	r.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(r.done)
		r.exit = -1
		err := r.cmd.Wait()
		exit, isExit := errors.AsType[*exec.ExitError](err)
		switch {
		case err == nil:
			r.exit = 0
		case isExit:
			r.exit = exit.ExitCode()
		}
	}()
	t.Cleanup(func() {
		_ = r.cmd.Process.Kill()
		<-r.done
	})
	return r
}

// run runs dlockctl to its end, and wants this exit code.
func (w *world) run(t *testing.T, exit int, args ...string) *wrapper {
	t.Helper()
	r := w.start(t, args...)
	r.ends(exit)
	return r
}

func (r *wrapper) pid() int { return r.cmd.Process.Pid }

func (r *wrapper) signal(sig syscall.Signal) {
	r.t.Helper()
	if err := r.cmd.Process.Signal(sig); err != nil {
		r.t.Fatal(err)
	}
}

func (r *wrapper) ends(exit int) {
	r.t.Helper()
	select {
	case <-r.done:
	case <-time.After(time.Minute):
		r.t.Fatalf("it does not end; stderr: %s", r.errOut)
	}
	if r.exit != exit {
		r.t.Errorf("exit %d, want %d; stderr: %s", r.exit, exit, r.errOut)
	}
}

func (r *wrapper) says(want string) {
	r.t.Helper()
	if !strings.Contains(r.errOut.String(), want) {
		r.t.Errorf("stderr %q does not say %q", r.errOut, want)
	}
}

// hears waits until stdout holds a text.
func (r *wrapper) hears(want string) {
	r.t.Helper()
	eventually(r.t, "stdout says "+want, func() bool {
		r.lives()
		return strings.Contains(r.out.String(), want)
	})
}

// lives wants the wrapper not to have ended.
func (r *wrapper) lives() {
	r.t.Helper()
	select {
	case <-r.done:
		r.t.Fatalf("it has ended with exit %d; stderr: %s", r.exit, r.errOut)
	default:
	}
}

func eventually(t *testing.T, what string, ask func() bool) {
	t.Helper()
	pgtest.Eventually(t, what, func(context.Context) (bool, error) { return ask(), nil })
}

// line is one line of a child's record.
type line struct {
	pid  int
	wall time.Time
}

// record reads what children have written.
func record(t *testing.T, path string) []line {
	t.Helper()
	file, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	var lines []line
	for reader := bufio.NewReader(file); ; {
		text, err := reader.ReadString('\n')
		if errors.Is(err, io.EOF) {
			return lines // the last may be half written
		}
		var l line
		var wall, boot int64
		if _, err := fmt.Sscanf(text, "%d %d %d", &l.pid, &wall, &boot); err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		l.wall = time.Unix(0, wall)
		lines = append(lines, l)
	}
}

// writes waits until a child has begun to write, and returns its process.
func (r *wrapper) writes(path string) int {
	r.t.Helper()
	var pid int
	eventually(r.t, "the command writes", func() bool {
		r.lives()
		lines := record(r.t, path)
		if len(lines) > 0 {
			pid = lines[0].pid
		}
		return len(lines) > 0
	})
	return pid
}

// gone tells that a process has ended.
func gone(pid int) bool {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	return err != nil || strings.Contains(string(text), ") Z ")
}

// guardOf finds the guard of a wrapper.
func guardOf(t *testing.T, wrapper int) int {
	t.Helper()
	var found int
	eventually(t, "there is a guard", func() bool {
		dirs, _ := filepath.Glob("/proc/[0-9]*")
		for _, dir := range dirs {
			cmdline, _ := os.ReadFile(filepath.Join(dir, "cmdline"))
			stat, _ := os.ReadFile(filepath.Join(dir, "stat"))
			if strings.HasSuffix(string(cmdline), "\x00run\x00--guard\x00") && strings.Contains(string(stat), fmt.Sprintf(" S %d ", wrapper)) {
				found, _ = strconv.Atoi(filepath.Base(dir))
			}
		}
		return found != 0
	})
	return found
}

// renews waits until a lease ends later than it did.
func (w *world) renews(t *testing.T, key string) {
	t.Helper()
	conn := w.dbs.Lock.Conn(t, "super")
	ends := func(ctx context.Context) (at time.Time, err error) {
		err = conn.QueryRow(ctx, "SELECT expires_at FROM lock_entry WHERE lock_key = $1", key).Scan(&at)
		return at, err
	}
	before, err := ends(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	pgtest.Eventually(t, "lock "+key+" is renewed", func(ctx context.Context) (bool, error) {
		now, err := ends(ctx)
		return now.After(before), err
	})
}

// rows counts what is left in lockdb.
func (w *world) rows(t *testing.T, table string) int {
	t.Helper()
	var n int
	if err := w.dbs.Lock.Conn(t, "super").QueryRow(t.Context(), "SELECT count(*) FROM "+table).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// leaves wants nothing to be left in lockdb.
func (w *world) leavesNothing(t *testing.T) {
	t.Helper()
	if locks, sessions := w.rows(t, "lock_entry"), w.rows(t, "lock_session"); locks+sessions != 0 {
		t.Errorf("%d locks and %d sessions are left", locks, sessions)
	}
}

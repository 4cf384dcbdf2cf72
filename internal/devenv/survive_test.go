package devenv_test

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dlockctl/dlockctl/internal/devenv"
	"github.com/dlockctl/dlockctl/internal/devenv/cluster"
)

// kill -9 of dlockctl at every step of up: the next up completes what is there.
//
// Mutation: run initdb in the instance's folder itself instead of a half-made one.
func TestUpSurvivesKillOfDlockctl(t *testing.T) {
	t.Parallel()
	dir := folder(t)
	env, _ := open(t, devenv.Options{StateDir: dir, PGBin: bin(t, 16)})
	killAt := func(step string) {
		t.Helper()
		_, stderr, err := runChild(t, "", childPlan{
			Verb: "up", DieAt: step, Opts: map[string]string{"state_dir": dir, "pg_bin": bin(t, 16)},
		})
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
			t.Logf("up was not killed at %q, that step being done already: %v %s", step, err, stderr)
		}
	}
	// Killed between the start and what follows: the server is seen before anything is repaired.
	killAt("lockdb: creating the database")
	if lock := must(env.Status(t.Context())).Instances[0]; lock.State != devenv.Running || lock.Port == 0 {
		t.Errorf("lockdb is %s on port %d after the kill", lock.State, lock.Port)
	}
	if err := env.Destroy(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, step := range []string{"lockdb: making", "paydb: making", "lockdb: starting"} {
		killAt(step)
	}
	first := up(t, env)
	checkSeparate(t, first.Instances[0], first.Instances[1])
	checkServer(t, must(env.LockDSN()), "lockdb", 16)
	checkServer(t, must(env.PayDSN()), "paydb", 16)
	if left := must(filepath.Glob(filepath.Join(env.Dir(), "*part*"))); len(left) > 0 {
		t.Errorf("half-made instances are left: %v", left)
	}

	// Killed after the servers run: they live on and are found again.
	_, stderr, err := runChild(t, "", childPlan{Verb: "up", Opts: map[string]string{"state_dir": dir, "pg_bin": bin(t, 16)}})
	if err != nil {
		t.Fatalf("up by another process: %v %s", err, stderr)
	}
	if again := must(env.Status(t.Context())); !cmp.Equal(first, again) {
		t.Errorf("another process found other servers:\n%s", cmp.Diff(first, again))
	}
}

// A pg_ctl that a killed command left behind starts the server first: that one is taken, where it listens.
//
// Mutation: return startErr in postgres.run; leave the record's port as it was.
func TestRivalStart(t *testing.T) {
	t.Parallel()
	var env *devenv.Env
	var rival, later cluster.Cluster
	opts := devenv.Options{StateDir: folder(t), PGBin: bin(t, 15)}
	opts.Progress = func(line string) {
		if rival.Dir == "" || !strings.HasPrefix(line, "lockdb: starting") {
			return
		}
		if err := rival.StartDaemon(t.Context()); err != nil {
			t.Error(err)
		}
		rival, later = cluster.Cluster{}, rival
	}
	env, _ = open(t, opts)
	before := up(t, env).Instances[0]
	if err := env.Down(t.Context()); err != nil {
		t.Fatal(err)
	}
	account, err := cluster.ResolveAccount("")
	if err != nil {
		t.Fatal(err)
	}
	rival = cluster.Cluster{Bin: before.PGBin, Dir: filepath.Dir(before.DataDir), Account: account}
	after := up(t, env).Instances[0]
	server, running, err := later.Running(t.Context())
	if err != nil || !running {
		t.Fatalf("the rival's server runs = %t, %v", running, err)
	}
	if after.PID != server.PID || after.Port != server.Port {
		t.Errorf("up found pid %d on port %d, the rival started pid %d on port %d", after.PID, after.Port, server.PID, server.Port)
	}

	// A server moved to another port behind our back is found there, and the DSN follows.
	if err := env.Down(t.Context()); err != nil {
		t.Fatal(err)
	}
	elsewhere := must(cluster.FreePort(t.Context()))
	conf := filepath.Join(later.Dir, "postgresql.conf")
	text := strings.ReplaceAll(string(must(os.ReadFile(conf))), fmt.Sprintf("port = '%d'", before.Port), fmt.Sprintf("port = '%d'", elsewhere))
	if err := os.WriteFile(conf, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := later.StartDaemon(t.Context()); err != nil {
		t.Fatal(err)
	}
	if moved := up(t, env).Instances[0]; moved.Port != elsewhere {
		t.Errorf("up found port %d, the server is on %d", moved.Port, elsewhere)
	}
	if got := query[int](t, must(env.LockDSN()), "SELECT current_setting('port')::int"); got != elsewhere {
		t.Errorf("the DSN leads to port %d, want %d", got, elsewhere)
	}
}

// The pid file of a crashed server names a process that is somebody else's by now. It is neither taken for the server
// nor hurt, and the server starts. PostgreSQL alone would refuse, taking it for a second server.
//
// Mutation: return at once from cluster.ClearStale; believe Alive in cluster.Running.
func TestStalePidFileOfAnotherProcess(t *testing.T) {
	t.Parallel()
	for _, major := range []int{16, 15} {
		t.Run(fmt.Sprint(major), func(t *testing.T) {
			t.Parallel()
			env, _ := open(t, devenv.Options{StateDir: folder(t), PGBin: bin(t, major)})
			lock := up(t, env).Instances[0]
			execute(t, must(env.LockDSN()), "SET ROLE dlock_owner", "CREATE TABLE kept (n INT)", "INSERT INTO kept VALUES (7)")
			crash(t, lock)
			stranger := bystander(t)
			renamePid(t, lock, stranger.Process.Pid)

			got := must(env.Status(t.Context())).Instances[0]
			if got.State != devenv.Stopped || got.PID != 0 {
				t.Errorf("the other process is taken for the server: %s with pid %d", got.State, got.PID)
			}
			if err := env.Down(t.Context()); err != nil {
				t.Errorf("down: %v", err)
			}
			up(t, env)
			if got := query[int](t, must(env.LockDSN()), "SELECT n FROM kept"); got != 7 {
				t.Errorf("after the crash the table holds %d, want 7", got)
			}
			if err := stranger.Process.Signal(syscall.Signal(0)); err != nil {
				t.Errorf("the other process was ended: %v", err)
			}
		})
	}
}

// crash kills the whole server as a power cut would, and waits until no process of it is left.
func crash(t *testing.T, i devenv.InstanceStatus) {
	t.Helper()
	if err := syscall.Kill(i.PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the end of the crashed server", func() bool { return len(livingIn(t, i.DataDir)) == 0 })
}

// livingIn lists the processes whose current folder is dir.
func livingIn(t *testing.T, dir string) []string {
	t.Helper()
	var pids []string
	for _, cwd := range must(filepath.Glob("/proc/[0-9]*/cwd")) {
		if target, err := os.Readlink(cwd); err == nil && target == dir {
			pids = append(pids, cwd)
		}
	}
	return pids
}

func eventually(t *testing.T, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !done(); {
		if time.Now().After(deadline) {
			t.Fatalf("waited 30 s for %s", what)
		}
		select {
		case <-t.Context().Done():
			t.Fatal(t.Context().Err())
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// bystander is a process of the servers' user that has nothing to do with them.
func bystander(t *testing.T) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "sleep", "600")
	cmd.Dir = "/"
	if asRoot() {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: serverUser(t), Gid: serverUser(t)}}
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return cmd
}

// renamePid writes another number into the pid files the crash left.
func renamePid(t *testing.T, i devenv.InstanceStatus, pid int) {
	t.Helper()
	for _, name := range []string{filepath.Join(i.DataDir, "postmaster.pid"), filepath.Join(i.SocketDir, fmt.Sprintf(".s.PGSQL.%d.lock", i.Port))} {
		_, rest, ok := strings.Cut(string(must(os.ReadFile(name))), "\n")
		if !ok {
			t.Fatalf("%s has one line", name)
		}
		if err := os.WriteFile(name, []byte(fmt.Sprintf("%d\n%s", pid, rest)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// Mutation: skip the PortFree test in choosePort; do not save the record in start.
func TestTakenPortIsExchanged(t *testing.T) {
	t.Parallel()
	env, told := open(t, devenv.Options{StateDir: folder(t), PGBin: bin(t, 15)})
	before := up(t, env)
	if err := env.Down(t.Context()); err != nil {
		t.Fatal(err)
	}
	var listen net.ListenConfig
	squatter, err := listen.Listen(t.Context(), "tcp4", fmt.Sprintf("127.0.0.1:%d", before.Instances[0].Port))
	if err != nil {
		t.Fatal(err)
	}
	defer squatter.Close()
	after := up(t, env)
	if after.Instances[0].Port == before.Instances[0].Port {
		t.Errorf("lockdb kept the taken port %d", after.Instances[0].Port)
	}
	if after.Instances[1].Port != before.Instances[1].Port {
		t.Errorf("paydb changed its free port %d to %d", before.Instances[1].Port, after.Instances[1].Port)
	}
	if got := query[int](t, must(env.LockDSN()), "SELECT current_setting('port')::int"); got != after.Instances[0].Port {
		t.Errorf("the DSN leads to port %d, want %d", got, after.Instances[0].Port)
	}
	if !strings.Contains(told.text.String(), "is taken") {
		t.Errorf("nothing was said of the taken port:\n%s", told.text.String())
	}
}

// A state folder whose name is too long for a unix socket.
//
// Mutation: let chooseSocketDir always take the instance's folder.
func TestLongStateFolder(t *testing.T) {
	t.Parallel()
	env, _ := open(t, devenv.Options{StateDir: filepath.Join(folder(t), strings.Repeat("long ' name ", 10)), PGBin: bin(t, 16)})
	lock := up(t, env).Instances[0]
	if path := filepath.Join(lock.SocketDir, fmt.Sprintf(".s.PGSQL.%d", lock.Port)); len(path) > 103 || stat(t, path).Mode().Type() != os.ModeSocket {
		t.Errorf("socket %s", path)
	}
	if err := env.Destroy(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(lock.SocketDir); !os.IsNotExist(err) {
		t.Errorf("destroy left %s: %v", lock.SocketDir, err)
	}
}

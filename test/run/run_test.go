//go:build linux

package run_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/lockstore/postgres"
	"github.com/dlockctl/dlockctl/internal/pgtest"
)

// The command's exit code is the wrapper's, whatever it is, and a signal is 128+n.
//
// Mutation: exit 1 for everything in ChildExit, or leave the signal out of
// ChildEnd.Exit.
func TestExitCode(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, code := range []int{0, 1, 2, 10, 126, 127, 200, 204, 255} {
		w.run(t, code, "run", "k"+strconv.Itoa(code), "--", "sh", "-c", "exit "+strconv.Itoa(code))
	}
	for _, sig := range []syscall.Signal{syscall.SIGKILL, syscall.SIGTERM, syscall.SIGSEGV} {
		w.run(t, 128+int(sig), "run", "s"+strconv.Itoa(int(sig)), "--", "sh", "-c", "kill -"+strconv.Itoa(int(sig))+" $$")
	}
	w.leavesNothing(t)
}

// A revoke stops the command within one heartbeat, and what it did not want to end
// is killed before the lease would have. The status file names the operator.
//
// Clauses: K-2.10, K-3.1
// Mutation: take ErrLockLost out of beaten.lost, or KILL out of look.
func TestRevoked(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	dir := t.TempDir()
	log, status := filepath.Join(dir, "log"), filepath.Join(dir, "status.json")
	r := w.start(t, "run", "k", "--ttl", "18s", "--grace", "500ms", "--status-file", status, "--", w.child, "write", log, "stubborn")
	pid := r.writes(log)
	w.run(t, 0, "revoke", "k", "--reason", "deploy", "--any-token", "--yes")
	revoked := time.Now()
	r.ends(203)
	r.says(`was revoked by "erin@ops": deploy`)
	if !gone(pid) {
		t.Error("the command still runs")
	}
	lines := record(t, log)
	// The lease would have ended 12 s after the revoke at the earliest.
	if last := lines[len(lines)-1].wall; last.Sub(revoked) > 10*time.Second {
		t.Errorf("the last line is %s after the revoke: a heartbeat is 6s, the grace 500ms", last.Sub(revoked))
	}
	var said struct {
		Outcome    string
		ExitCode   int `json:"exit_code"`
		Token      int64
		Command    struct{ Killed bool }
		Revocation struct{ Operator, Reason string }
	}
	text, err := os.ReadFile(status)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &said); err != nil {
		t.Fatal(err)
	}
	if said.Outcome != "revoked" || said.ExitCode != 203 || said.Token == 0 || !said.Command.Killed || said.Revocation.Operator != "erin@ops" || said.Revocation.Reason != "deploy" {
		t.Errorf("the status file says %s", text)
	}
	w.leavesNothing(t)
}

// A session that was ended takes the lock with it.
//
// Clauses: K-2.4
// Mutation: take ErrSessionLost out of beaten.lost.
func TestSessionEnded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := w.start(t, "run", "k", "--ttl", "10s", "--", "sh", "-c", "echo $DLOCK_SESSION; exec sleep 1000")
	r.hears("-")
	w.run(t, 0, "session", "end", strings.TrimSpace(r.out.String()), "--yes")
	r.ends(202)
	r.says("its session has ended")
	w.leavesNothing(t)
}

// A database that goes away stops the command while the lock is still held.
//
// Clauses: K-2.10
// Mutation: leave notRenewed out of look.
func TestBackendStopped(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	single := pgtest.Crashable(t, 16)
	lock := single.EmptyDB(t)
	w.env = w.environment(lock, "t_owner", t.TempDir())
	w.run(t, 0, "migrate", "up", "--target", "lockdb")
	w.env = w.environment(lock, "t_lockapp", t.TempDir())
	log := filepath.Join(t.TempDir(), "log")
	r := w.start(t, "run", "k", "--ttl", "6s", "--", w.child, "write", log, "stubborn")
	pid := r.writes(log)
	var expires time.Time
	conn := lock.Conn(t, "super")
	if err := conn.QueryRow(t.Context(), "SELECT expires_at FROM lock_entry").Scan(&expires); err != nil {
		t.Fatal(err)
	}
	single.Crash(t)
	r.ends(204)
	r.says("was not renewed for")
	if !gone(pid) {
		t.Error("the command still runs")
	}
	single.Start(t)
	if err := lock.Conn(t, "super").QueryRow(t.Context(), "SELECT expires_at FROM lock_entry").Scan(&expires); err != nil {
		t.Fatal(err)
	}
	lines := record(t, log)
	if last := lines[len(lines)-1].wall; !last.Before(expires) {
		t.Errorf("the last line is %s after the lease's end", last.Sub(expires))
	}
}

// Whoever waits leaves at once when a signal says so, and nothing is left of it.
//
// Clauses: K-2.8
// Mutation: drop all signals in inbox.during.
func TestSignalWhileWaiting(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.run(t, 0, "acquire", "k", "--ttl", "10m")
	sessions := w.rows(t, "lock_session")
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT} {
		r := w.start(t, "run", "k", "--wait", "10m", "--", "echo", "ran")
		eventually(t, "it waits", func() bool { return strings.Contains(r.errOut.String(), "waiting for lock") })
		r.signal(syscall.SIGUSR1) // was meant for the command, and does not end the wait
		r.signal(sig)
		r.ends(128 + int(sig))
		if r.out.String() != "" {
			t.Errorf("%s: it ran: %s", sig, r.out)
		}
	}
	if n := w.rows(t, "lock_session"); n != sessions {
		t.Errorf("%d sessions are left, were %d", n, sessions)
	}
}

// The command's group gets the wrapper's signals, and they alone end nothing.
//
// Mutation: take a signal out of listened.
func TestForwards(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const script = `for s in INT TERM HUP QUIT USR1 USR2 WINCH; do trap "echo got $s" $s; done; trap 'exit 9' TERM
		echo ready; while :; do sleep 0.02; done`
	r := w.start(t, "run", "k", "--", "bash", "-c", script)
	r.hears("ready")
	for name, sig := range map[string]syscall.Signal{
		"INT": syscall.SIGINT, "HUP": syscall.SIGHUP, "QUIT": syscall.SIGQUIT, "USR1": syscall.SIGUSR1, "USR2": syscall.SIGUSR2, "WINCH": syscall.SIGWINCH,
	} {
		r.signal(sig)
		r.hears("got " + name)
	}
	r.signal(syscall.SIGTERM)
	r.ends(9)
	w.leavesNothing(t)
}

// What nohup made the wrapper ignore, the command ignores too.
//
// Mutation: take signal.Ignored out of newInbox or untilSignal.
func TestIgnoredStaysIgnored(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.dlockctl, w.child = "sh", w.dlockctl
	r := w.run(t, 0, "-c", `trap "" HUP; exec "$0" "$@"`, w.child, "run", "k", "--", "grep", "^SigIgn", "/proc/self/status")
	mask, err := strconv.ParseUint(strings.TrimSpace(strings.TrimPrefix(r.out.String(), "SigIgn:")), 16, 64)
	if err != nil || mask&1 == 0 { // SIGHUP is number 1
		t.Errorf("the command ignores %q, %v: not SIGHUP", r.out, err)
	}
}

// The innermost run's token is the command's, and each has its own session.
//
// Mutation: leave without out of environment.
func TestNested(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	show := `echo "$DLOCK_KEY $DLOCK_TOKEN $DLOCK_SESSION $DLOCK_EXPIRES"; tr '\0' '\n' </proc/$$/environ | grep -c ^DLOCK_`
	r := w.run(t, 0, "run", "outer", "--ttl", "2m", "--", "sh", "-c", show+`; "$0" run inner -- sh -c "$1"; `+show, w.dlockctl, show)
	lines := strings.Split(strings.TrimSpace(r.out.String()), "\n")
	if len(lines) != 6 || lines[1] != "4" || lines[3] != "4" || lines[0] != lines[4] {
		t.Fatalf("it prints %q", lines)
	}
	outer, inner := strings.Fields(lines[0]), strings.Fields(lines[2])
	if outer[0] != "outer" || inner[0] != "inner" || inner[2] == outer[2] {
		t.Errorf("outer %q, inner %q", outer, inner)
	}
	first, _ := strconv.Atoi(outer[1])
	if second, err := strconv.Atoi(inner[1]); err != nil || second <= first || first == 0 {
		t.Errorf("tokens %s and %s do not rise", outer[1], inner[1])
	}
	if at, err := time.Parse(time.RFC3339Nano, outer[3]); err != nil || time.Until(at) > 121*time.Second || time.Until(at) < 0 {
		t.Errorf("DLOCK_EXPIRES is %s: %v", outer[3], err)
	}
	w.leavesNothing(t)
}

// contender waits for a lock beside a wrapper, and returns when it was granted by
// the database's clock, which is this machine's. It looks each time that every has
// passed, and when the lease that it sees is over.
func (w *world) contender(t *testing.T, key string, every time.Duration) <-chan time.Time {
	t.Helper()
	store, err := postgres.Open(t.Context(), postgres.Options{Config: w.dbs.Lock.Config(t, "t_lockapp"), Purpose: postgres.Granting})
	if err != nil {
		t.Fatal(err)
	}
	granted := make(chan time.Time, 1)
	go func() {
		defer close(granted)
		defer store.Close()
		session, err := store.CreateSession(t.Context(), "contender", time.Hour)
		if err != nil {
			t.Error(err)
			return
		}
		for t.Context().Err() == nil {
			grant, err := store.Acquire(t.Context(), lockstore.AcquireParams{Key: key, Owner: "contender", Session: session.ID, TTL: time.Hour})
			if err == nil {
				granted <- grant.AcquiredAt.Time
				return
			}
			pause := every
			if held, ok := errors.AsType[*lockstore.HeldError](err); ok {
				pause = max(min(pause, held.Remaining), time.Millisecond)
			}
			select {
			case <-t.Context().Done():
			case <-time.After(pause):
			}
		}
	}()
	return granted
}

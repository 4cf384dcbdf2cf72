//go:build linux

package run_test

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// promptly is how often a contender looks that must be the next one.
const promptly = 5 * time.Millisecond

// kill sends a signal to a process.
func kill(t *testing.T, pid int, sig syscall.Signal) {
	t.Helper()
	if err := syscall.Kill(pid, sig); err != nil {
		t.Fatalf("%s to %d: %v", sig, pid, err)
	}
}

// A wrapper that is stopped past its lease does no harm: its guard kills the
// command before another can have the lock.
//
// Clauses: K-2.10
// Mutation: leave startGuard out of start.
func TestStoppedWrapper(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	log := filepath.Join(t.TempDir(), "log")
	r := w.start(t, "run", "k", "--ttl", "6s", "--", w.child, "write", log, "stubborn")
	pid := r.writes(log)
	guardOf(t, r.pid())
	granted := w.contender(t, "k", promptly)
	r.signal(syscall.SIGSTOP)
	at := <-granted
	if !gone(pid) {
		t.Error("another has the lock, and the command still runs")
	}
	lines := record(t, log)
	if last := lines[len(lines)-1].wall; !last.Before(at) {
		t.Errorf("a line was written %s after the next grant", last.Sub(at))
	}
	r.signal(syscall.SIGCONT)
	r.ends(202)
}

// When the whole machine has slept, guard and all, the command is killed first of
// all on waking up, and the wrapper says that there may have been two.
//
// Clauses: K-2.10
// Mutation: leave tooLate out of look.
func TestSleptWithItsGuard(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	log := filepath.Join(t.TempDir(), "log")
	r := w.start(t, "run", "k", "--ttl", "4s", "--", w.child, "write", log, "stubborn")
	pid := r.writes(log)
	guard := guardOf(t, r.pid())
	granted := w.contender(t, "k", promptly)
	kill(t, guard, syscall.SIGSTOP)
	r.signal(syscall.SIGSTOP)
	at := <-granted
	eventually(t, "the command writes beside the next holder", func() bool {
		lines := record(t, log)
		return lines[len(lines)-1].wall.After(at)
	})
	r.signal(syscall.SIGCONT)
	r.ends(202)
	r.says("there the fence protects (token ")
	r.says("after the lease could have ended")
	if !gone(pid) {
		t.Error("the command still runs")
	}
	kill(t, guard, syscall.SIGCONT)
	eventually(t, "the guard ends", func() bool { return gone(guard) })
}

// With the wrapper dies all that it started: the command, its group, and what has
// left it.
//
// Mutation: leave Pdeathsig and the guard's group out, or marked out of its kill.
func TestKilledWrapper(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	dir := t.TempDir()
	logs := []string{filepath.Join(dir, "main"), filepath.Join(dir, "group"), filepath.Join(dir, "daemon")}
	r := w.start(t, "run", "k", "--", "sh", "-c", `"$0" write "$2" stubborn & "$0" daemon "$0" write "$3" stubborn; exec "$0" write "$1" stubborn`,
		w.child, logs[0], logs[1], logs[2])
	var pids []int
	for _, log := range logs {
		pids = append(pids, r.writes(log))
	}
	guard := guardOf(t, r.pid())
	r.signal(syscall.SIGKILL)
	for i, pid := range pids {
		eventually(t, filepath.Base(logs[i])+" is gone", func() bool { return gone(pid) })
	}
	eventually(t, "the guard is gone", func() bool { return gone(guard) })
}

// A guard that goes away leaves the wrapper to itself, and a wrapper does not hang
// on one that does not read.
//
// Mutation: return an error from order.
func TestWithoutGuard(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	end := filepath.Join(t.TempDir(), "end")
	r := w.start(t, "run", "k", "--ttl", "6s", "--", "sh", "-c", `echo ready; until [ -e "$0" ]; do sleep 0.05; done; exit 3`, end)
	r.hears("ready")
	kill(t, guardOf(t, r.pid()), syscall.SIGKILL)
	for range 2 { // an order follows each
		w.renews(t, "k")
	}
	if err := os.WriteFile(end, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	r.ends(3)
}

// What the command leaves behind, in its group or out of it, is gone before the
// lock is given back, and holding stdout open does not hold the wrapper.
//
// Mutation: leave tree.strays out of all, or kill the process and not its group in
// forward.
func TestLeavesNobodyBehind(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	dir := t.TempDir()
	group, daemon, end := filepath.Join(dir, "group"), filepath.Join(dir, "daemon"), filepath.Join(dir, "end")
	r := w.start(t, "run", "k", "--ttl", "10s", "--grace", "500ms", "--", "sh", "-c",
		`"$0" write "$1" stubborn & "$0" daemon "$0" write "$2" stubborn; until [ -e "$3" ]; do sleep 0.01; done; exit 5`, w.child, group, daemon, end)
	pids := []int{r.writes(group), r.writes(daemon)}
	granted := w.contender(t, "k", promptly)
	if err := os.WriteFile(end, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	r.ends(5)
	r.says("has left 2 processes behind")
	at := <-granted
	for i, log := range []string{group, daemon} {
		if !gone(pids[i]) {
			t.Errorf("%s still runs", filepath.Base(log))
		}
		lines := record(t, log)
		if last := lines[len(lines)-1].wall; !last.Before(at) {
			t.Errorf("%s has written %s after the next grant", filepath.Base(log), last.Sub(at))
		}
	}
}

// A command whose orphans die while it runs collects no zombies.
//
// Mutation: leave grow out of start.
func TestBuriesOrphans(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := w.start(t, "run", "k", "--", "sh", "-c", `for i in 1 2 3 4 5; do "$0" daemon true; done; echo ready; exec sleep 1000`, w.child)
	r.hears("ready")
	eventually(t, "no zombie is left", func() bool {
		stats, _ := filepath.Glob("/proc/[0-9]*/stat")
		for _, stat := range stats {
			text, _ := os.ReadFile(stat)
			if strings.Contains(string(text), ") Z "+strconv.Itoa(r.pid())+" ") {
				return false
			}
		}
		return true
	})
	r.signal(syscall.SIGTERM)
	r.ends(143)
}

// A command that is stopped by hand stays under its lock: the wrapper goes on to
// renew, and continues it when it is asked to.
//
// Mutation: follow every stop in group.suspend, or drop SIGCONT.
func TestStoppedByHand(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	log := filepath.Join(t.TempDir(), "log")
	r := w.start(t, "run", "k", "--ttl", "4s", "--", w.child, "write", log)
	pid := r.writes(log)
	r.signal(syscall.SIGTSTP) // the command stops; without a terminal the wrapper stays awake
	stopped := func() bool {
		text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
		return err == nil && strings.Contains(string(text), ") T ")
	}
	eventually(t, "the command is stopped", stopped)
	begun := time.Now()
	eventually(t, "three leases pass", func() bool { return time.Since(begun) > 12*time.Second })
	if !stopped() {
		t.Errorf("the command is not stopped any more; stderr %s", r.errOut)
	}
	lines := len(record(t, log))
	r.signal(syscall.SIGCONT)
	eventually(t, "the command goes on", func() bool { return len(record(t, log)) > lines })
	r.signal(syscall.SIGTERM)
	r.ends(143)
	w.leavesNothing(t)
}

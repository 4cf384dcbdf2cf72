//go:build unix

package rewind_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/dlockctl/dlockctl/internal/pgtest"
	"github.com/dlockctl/dlockctl/internal/restore"
)

// desk is where a person runs the program, against both databases, with a superuser's
// connection to each.
type desk struct {
	binary    string
	env       []string
	lock, pay *pgx.Conn
}

func newDesk(t *testing.T, w *world, lockdb place) *desk {
	t.Helper()
	home := t.TempDir()
	self, err := os.Executable()
	if err == nil {
		err = os.Symlink(self, filepath.Join(home, program))
	}
	if err != nil {
		t.Fatal(err)
	}
	return &desk{
		binary: filepath.Join(home, program), lock: lockdb.conn(t), pay: w.paydb.conn(t),
		env: []string{
			"HOME=" + home, "PATH=" + os.Getenv("PATH"), "GORACE=atexit_sleep_ms=0", "DLOCKCTL_OPERATOR=erin@ops",
			"DLOCKCTL_LOCK_DSN=" + lockdb("t_operator"), "DLOCKCTL_PAY_DSN=" + w.paydb("t_operator"), "DLOCKCTL_MARK_DIR=" + w.markDir,
		},
	}
}

// forward is the command, not started; said is its stderr.
func (d *desk) forward(t *testing.T) (cmd *exec.Cmd, said *bytes.Buffer) {
	t.Helper()
	said = &bytes.Buffer{}
	cmd = exec.CommandContext(t.Context(), d.binary, "restore", "fast-forward", "--reason", "ticket 812", "--yes")
	cmd.Env, cmd.Stdout, cmd.Stderr = d.env, said, said
	return cmd, said
}

// stuck says what keeps the program waiting at a step. before keeps it at an earlier one
// of lockdb until hold has been done, for what both steps want.
type stuck struct {
	step         restore.Step
	pay          bool
	before, hold string
}

// waits are all steps, and what each by itself waits for.
func waits() []stuck {
	const atMark = `SELECT FROM outside_mark FOR UPDATE`
	return []stuck{
		{step: restore.StepEvidence, pay: true, hold: `LOCK TABLE payout_claim`},
		{step: restore.StepCloseGate, hold: `SELECT FROM lock_gate FOR UPDATE`},
		{step: restore.StepBarrier, hold: `LOCK TABLE lock_entry IN ROW EXCLUSIVE MODE`},
		{step: restore.StepAdvance, hold: `SELECT nextval('fencing_token_seq')`},
		{step: restore.StepJournal, hold: `LOCK TABLE lock_grant IN SHARE UPDATE EXCLUSIVE MODE`},
		{step: restore.StepFloorAccount, pay: true, hold: `SELECT FROM fence_floor WHERE point = 'account' FOR UPDATE`},
		{step: restore.StepBarrierAccount, pay: true, hold: `LOCK TABLE account IN ROW EXCLUSIVE MODE`},
		{step: restore.StepFloorRail, pay: true, hold: `SELECT FROM fence_floor WHERE point = 'rail' FOR UPDATE`},
		{step: restore.StepBarrierRail, pay: true, hold: `LOCK TABLE rail_high_water IN ROW EXCLUSIVE MODE`},
		{step: restore.StepMark, hold: atMark},
		{step: restore.StepVerify, pay: true, before: atMark, hold: `LOCK TABLE payout_claim`},
		{step: restore.StepOpenGate, before: atMark, hold: `SELECT FROM lock_gate FOR UPDATE`},
	}
}

// holds begins a transaction, and returns what ends it.
func holds(t *testing.T, conn *pgx.Conn, sql string) (letGo func()) {
	t.Helper()
	tx, err := conn.Begin(t.Context())
	if err == nil {
		_, err = tx.Exec(t.Context(), sql)
	}
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return func() { undo(t, tx) }
}

// isStuck tells that the program waits for a lock, by another statement than those named.
const isStuck = `SELECT EXISTS (SELECT FROM pg_stat_activity WHERE usename = 't_operator' AND datname = current_database() AND wait_event_type = 'Lock' AND query NOT LIKE $1)`

// interrupted runs the program until it waits at the step, presses Ctrl-C, and returns
// what it said and its exit code. On a busy machine its lock timeout may pass first, and
// then it is run again.
func (d *desk) interrupted(t *testing.T, at stuck, lockdb, paydb place) (said string, exit int) {
	t.Helper()
	for range 5 {
		execute(t, d.lock, `UPDATE outside_mark SET kept = false, kept_since = NULL`)
		said, exit = d.interruptedOnce(t, at, lockdb, paydb)
		if !strings.Contains(said, string(restore.LockTimeout)) {
			break
		}
	}
	return said, exit
}

func (d *desk) interruptedOnce(t *testing.T, at stuck, lockdb, paydb place) (said string, exit int) {
	t.Helper()
	look, conn := d.lock, lockdb.conn(t)
	if at.pay {
		look, conn = d.pay, paydb.conn(t)
	}
	cmd, out := d.forward(t)
	var letGo func()
	if at.before == "" {
		letGo = holds(t, conn, at.hold)
	}
	letOn := func() {}
	if at.before != "" {
		letOn = holds(t, lockdb.conn(t), at.before)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	waits := func(what string, conn *pgx.Conn, earlier string) {
		t.Helper()
		pgtest.Eventually(t, what, func(ctx context.Context) (waits bool, err error) {
			if len(ended) > 0 {
				return true, nil
			}
			err = conn.QueryRow(ctx, isStuck, earlier).Scan(&waits)
			return waits, err
		})
	}
	if at.before != "" {
		waits("it waits before "+string(at.step), d.lock, "")
		letGo = holds(t, conn, at.hold)
		letOn()
	}
	earlier := ""
	if at.before != "" {
		earlier = "%outside_mark%"
	}
	waits("it waits at "+string(at.step), look, earlier)
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil && !errors.Is(err, os.ErrProcessDone) {
		t.Fatal(err)
	}
	err := <-ended
	letGo()
	if failed, ok := errors.AsType[*exec.ExitError](err); ok {
		return out.String(), failed.ExitCode()
	}
	if err != nil {
		t.Fatal(err)
	}
	return out.String(), 0
}

// Ctrl-C at any step says at which, and whether locks are granted, as it is: until the
// gate is closed nothing was changed, and from then on nothing is granted, to anybody,
// until the command has been run again, which completes it.
//
// Clauses: K-7.4, K-1.3
// Mutation: leave CutOffError out of stopped in internal/cli/app, or open the gate in end.
func TestFastForwardIsInterruptedAtEveryStep(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 16)
	w.markDir = t.TempDir()
	lockdb := place(pgtest.Migrated(t, 16).Lock.DSN)
	s := w.serve(t, lockdb)
	d := newDesk(t, w, lockdb)
	if len(waits()) != len(restore.Steps()) {
		t.Fatalf("%d steps are interrupted, of %d", len(waits()), len(restore.Steps()))
	}
	for _, at := range waits() {
		before := s.holds(t, "before", account(3)) // there is something to do
		said, exit := d.interrupted(t, at, lockdb, w.paydb)
		begun := at.step != restore.StepEvidence && at.step != restore.StepCloseGate
		want, code := "error: interrupted", 130
		if begun {
			want, code = "fast-forward was cut off at step "+string(at.step)+", and lockdb grants nothing until it is run again: ", 10
		}
		if exit != code || !strings.Contains(said, want) || !strings.Contains(said, "interrupted") || strings.Contains(said, "grants nothing") != begun {
			t.Errorf("%s: exit %d, want %d and %q; it says\n%s", at.step, exit, code, want, said)
		}
		if refused := w.tries(t, lockdb); refused != begun {
			t.Errorf("%s: grants are refused: %v", at.step, refused)
		}
		again, out := d.forward(t)
		if err := again.Run(); err != nil || !strings.Contains(out.String(), "ADVANCED") {
			t.Errorf("%s: run again: %v\n%s", at.step, err, out)
		}
		if after := s.holds(t, "after", account(3)); after.again || after.token <= before.token+restore.DefaultMargin/2 {
			t.Errorf("%s: token %s after %s, shown before: %v", at.step, after.token, before.token, after.again)
		} else {
			s.releases(t, after)
		}
	}
	if open := value[bool](t, d.lock, `SELECT run_id IS NULL FROM lock_gate`); !open {
		t.Error("the gate is shut at the end")
	}
}

//go:build unix

package rewind_test

import (
	"bufio"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/lockstore/postgres"
	"github.com/dlockctl/dlockctl/internal/pgtest"
	"github.com/dlockctl/dlockctl/internal/restore"
)

// operator is a process that fast-forwards.
type operator struct {
	*exec.Cmd
	in  io.Writer
	out *bufio.Scanner
}

func startOperator(t *testing.T, o order) *operator {
	t.Helper()
	text, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	p := &operator{Cmd: exec.CommandContext(t.Context(), os.Args[0])}
	p.Env = append(os.Environ(), orderVariable+"="+string(text))
	p.Stderr = os.Stderr
	if p.in, err = p.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := p.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.out = bufio.NewScanner(out)
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	return p
}

// says is the operator's next word.
func (p *operator) says(t *testing.T) (w word) {
	t.Helper()
	if !p.out.Scan() {
		t.Fatal("the operator's process ended without a word")
	}
	if err := json.Unmarshal(p.out.Bytes(), &w); err != nil || w.Error != "" {
		t.Fatalf("the operator says %s, %v", p.out.Text(), err)
	}
	return w
}

func (p *operator) goOn(t *testing.T) {
	t.Helper()
	if _, err := io.WriteString(p.in, "go on\n"); err != nil {
		t.Fatal(err)
	}
}

// whole lets it come to its end, and returns every statement it ran.
func (p *operator) whole(t *testing.T) (statements []string, end word) {
	t.Helper()
	for {
		w := p.says(t)
		if w.Statement == "" {
			if err := p.Wait(); err != nil {
				t.Fatal(err)
			}
			return statements, w
		}
		statements = append(statements, w.Statement)
		p.goOn(t)
	}
}

// killedBehind lets it go up to the n-th statement, which the server has answered, and
// kills it as the system does that runs out of memory.
func (p *operator) killedBehind(t *testing.T, n int) (statement string) {
	t.Helper()
	for range n {
		p.says(t)
		p.goOn(t)
	}
	statement = p.says(t).Statement
	if err := p.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	_ = p.Wait()
	return statement
}

// The process that fast-forwards is killed behind each of its statements, with its
// transactions open. From the moment the gate was closed until it is opened again
// nothing is granted, and nothing that was not committed is seen; another run
// completes it, at the same target, and the first token after it lies above every
// token from before.
//
// Clauses: K-7.4, K-7.2, K-7.8, K-1.3
// Mutation: count an own target as evidence in assess.
func TestFastForwardIsKilledBehindEveryStatement(t *testing.T) {
	t.Parallel()
	dbs := pgtest.Migrated(t, 16)
	w := newWorld(t, 16)
	w.markDir = t.TempDir()
	lockdb := place(dbs.Lock.DSN)
	s := w.serve(t, lockdb)
	begun := s.holds(t, "first", others)
	super, pay := lockdb.conn(t), w.paydb.conn(t)
	o := order{LockDSN: dbs.Lock.DSN("t_operator"), PayDSN: w.paydb("t_operator"), MarkDir: w.markDir}

	names, end := startOperator(t, o).whole(t)
	if end.Outcome != restore.Advanced || end.To <= begun.token {
		t.Fatalf("without a fault: %+v", end)
	}
	for _, step := range restore.Steps() {
		told := slices.ContainsFunc(names, func(name string) bool { return strings.HasPrefix(name, string(step)+": ") })
		if changes := step != restore.StepEvidence && step != restore.StepVerify; told != changes {
			t.Errorf("step %s told a statement: %v, and changes something: %v", step, told, changes)
		}
	}
	at := func(name string) int { return slices.Index(names, name) }
	closed, moved, opened := at("close_gate: commit"), at("advance: commit"), at("open_gate: commit")
	if closed < 0 || moved < closed || opened < moved {
		t.Fatalf("the statements: %q", names)
	}
	for n, name := range names {
		before := s.holds(t, "before", account(3))
		if got := startOperator(t, o).killedBehind(t, n); got != name {
			t.Fatalf("killed behind %q, not behind %q", got, name)
		}
		// What it had open ends with its connections; until then nobody sees it.
		for _, conn := range []*pgx.Conn{super, pay} {
			becomes(t, conn, "its transactions have ended", `SELECT NOT EXISTS (SELECT FROM pg_stat_activity WHERE usename = 't_operator' AND datname = current_database())`)
		}
		last := value[lockstore.Token](t, super, `SELECT CASE WHEN is_called THEN last_value ELSE last_value - 1 END FROM fencing_token_seq`)
		if (last > before.token+restore.DefaultMargin/2) != (n >= moved) {
			t.Errorf("killed behind %s: the sequence stands at %s, %s was shown last", name, last, before.token)
		}
		refused := w.tries(t, lockdb)
		if refused != (n >= closed && n < opened) {
			t.Errorf("killed behind %s: grants are refused: %v", name, refused)
		}
		if n < opened {
			w.completed(t, o, super, pay, name, n >= moved, last)
		}
		after := s.holds(t, "after", others)
		if after.again || after.token <= last && n >= moved {
			t.Errorf("killed behind %s: token %s after %s, shown before: %v", name, after.token, last, after.again)
		}
		s.releases(t, after)
		if n >= opened {
			continue
		}
		if _, err := s.locks.Renew(t.Context(), before.lock(), before.token, 3600e9); err == nil {
			t.Errorf("killed behind %s: the lease from before is alive", name)
		}
	}
}

// tries asks for a lock, and tells whether the gate refused.
func (w *world) tries(t *testing.T, lockdb place) (refused bool) {
	t.Helper()
	store, err := w.openLocks(t, lockdb, postgres.Changing)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	s := &service{world: w, locks: store}
	h, err := s.acquire(t.Context(), "somebody", account(4))
	if err == nil {
		s.releases(t, h)
	} else if !isClosed(err) {
		t.Errorf("a grant was answered %v", err)
	}
	return err != nil
}

// completed runs the fast-forward once more, to its end.
func (w *world) completed(t *testing.T, o order, super, pay *pgx.Conn, name string, moved bool, last lockstore.Token) {
	t.Helper()
	_, end := startOperator(t, o).whole(t)
	if end.Outcome != restore.Advanced || end.To <= w.highest || moved && end.To != last {
		t.Errorf("killed behind %s: the next run ends %s at %s; the sequence stood at %s, %s was shown last", name, end.Outcome, end.To, last, w.highest)
	}
	if open := value[bool](t, super, `SELECT run_id IS NULL AND closed_by IS NULL FROM lock_gate`); !open {
		t.Errorf("killed behind %s: the gate is shut", name)
	}
	if floors := value[lockstore.Token](t, pay, `SELECT min(floor_token) FROM fence_floor`); floors != end.To {
		t.Errorf("killed behind %s: the lower floor is %s, the target %s", name, floors, end.To)
	}
}

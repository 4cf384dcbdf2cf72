package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/lockstore/postgres"
	"github.com/dlockctl/dlockctl/internal/pgtest"
)

func (b bundle) rewinder(t *testing.T, login string) *postgres.Rewinder {
	t.Helper()
	r, err := postgres.OpenRewinder(t.Context(), postgres.RewindOptions{
		Options: postgres.Options{Config: b.dbs.Lock.Config(t, login), Purpose: postgres.Changing},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close(context.WithoutCancel(t.Context())) })
	return r
}

func advanceTo(target lockstore.Token) lockstore.AdvanceParams {
	return lockstore.AdvanceParams{
		Operator: "erin", Reason: "restored", Limit: lockstore.MaxToken,
		Decide: func(lockstore.AdvanceView) (lockstore.Decision, error) {
			return lockstore.Decision{Target: target}, nil
		},
	}
}

// Every grant that stands is voided with its session and an audit row, a lapsed one
// and one without its session too; one above 2^53, which no audit row can name, goes
// without. The source moves forward only, and all of it or nothing.
//
// Clauses: K-7.5, K-7.4, K-7.7
// Mutation: drop lockAllEntries' forged, void by session alone, or the comparison with Last from advance.
func TestAdvanceVoids(t *testing.T) {
	t.Parallel()
	eachMajor(t, func(t *testing.T, b bundle) {
		session := b.session(t, "alice")
		for _, key := range []string{"a", "b", "lapsed", "orphan", "forged"} {
			b.acquire(t, key, "alice", session, time.Hour)
		}
		b.exec(t, `SET session_replication_role = replica`)
		b.exec(t, `ALTER TABLE lock_entry DISABLE TRIGGER lock_entry_guard, DROP CONSTRAINT lock_entry_token_max_ck`)
		b.exec(t, `UPDATE lock_entry SET acquired_at = now() - interval '1 h', expires_at = now() - interval '1 s' WHERE lock_key = 'lapsed'`)
		b.exec(t, `UPDATE lock_entry SET session_id = gen_random_uuid() WHERE lock_key = 'orphan'`)
		b.exec(t, `UPDATE lock_entry SET fencing_token = 9223372036854775807 WHERE lock_key = 'forged'`)
		b.exec(t, `ALTER TABLE lock_entry ENABLE ALWAYS TRIGGER lock_entry_guard`)
		b.exec(t, `RESET session_replication_role`)
		r := b.rewinder(t, "t_operator")
		source, err := r.Source(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		last := source.Last

		refused := advanceTo(1000)
		errRefused := errors.New("refused")
		refused.Decide = func(view lockstore.AdvanceView) (lockstore.Decision, error) {
			if view.Source.Last != last || !view.Gate.Open() || len(view.Evidence) != 5 {
				t.Errorf("the view: %+v", view)
			}
			return lockstore.Decision{}, errRefused
		}
		if _, err := r.Advance(t.Context(), refused); !errors.Is(err, errRefused) {
			t.Errorf("refused: %v", err)
		}
		if done, err := r.Advance(t.Context(), advanceTo(last)); err != nil || done.Moved || done.LocksVoided != 0 || done.To != last {
			t.Errorf("where it stands: %+v, %v", done, err)
		}
		if done, err := r.Advance(t.Context(), advanceTo(3)); err != nil || done.Moved || done.To != last {
			t.Errorf("backwards: %+v, %v", done, err)
		}
		done, err := r.Advance(t.Context(), advanceTo(1000))
		if err != nil || !done.Moved || done.From != last || done.To != 1000 || done.SessionsVoided != 1 || done.LocksVoided != 5 || done.RecordID == 0 {
			t.Fatalf("advance: %+v, %v", done, err)
		}
		var left, audited, voided int
		if err := b.super.QueryRow(t.Context(), `SELECT (SELECT count(*) FROM lock_entry) + (SELECT count(*) FROM lock_session),
			(SELECT count(*) FROM lock_revocation WHERE operator = 'erin' AND reason = 'restored'), (SELECT count(*) FROM lock_grant WHERE ended = 'voided')`).Scan(&left, &audited, &voided); err != nil {
			t.Fatal(err)
		}
		if left != 0 || audited != 4 || voided != 4 {
			t.Errorf("%d left, %d audited, %d voided in the journal", left, audited, voided)
		}
		if grant := b.acquire(t, "a", "bob", b.session(t, "bob"), time.Hour); grant.Token <= 1000 || grant.Token > 1002 {
			t.Errorf("the next token is %s", grant.Token)
		}
	})
}

// Two who make the journal's partitions at the same moment make each once.
//
// Clauses: K-11
// Mutation: drop the second look of V13.
func TestPartitionsAreMadeOnce(t *testing.T) {
	t.Parallel()
	eachMajor(t, func(t *testing.T, b bundle) {
		b.exec(t, `SELECT setval('fencing_token_seq', 7000000000)`)
		b.exec(t, `ALTER FUNCTION lock_grant_extend(INTEGER) SET lock_timeout = '20s'`)
		blocker := b.dbs.Lock.Conn(t, "super")
		if _, err := blocker.PgConn().Exec(t.Context(), `BEGIN; LOCK TABLE lock_grant_default IN ACCESS EXCLUSIVE MODE`).ReadAll(); err != nil {
			t.Fatal(err)
		}
		made := make(chan int, 2)
		group, ctx := errgroup.WithContext(t.Context())
		for range 2 {
			conn := b.dbs.Lock.Conn(t, "t_lockapp")
			group.Go(func() error {
				var n int
				err := conn.QueryRow(ctx, `SELECT lock_grant_extend()`).Scan(&n)
				made <- n
				return err
			})
		}
		pgtest.Eventually(t, "both wait", func(ctx context.Context) (both bool, err error) {
			err = b.super.QueryRow(ctx, `SELECT count(*) = 2 FROM pg_locks WHERE relation IN ('lock_grant'::regclass, 'lock_grant_default'::regclass) AND NOT granted`).Scan(&both)
			return both, err
		})
		if _, err := blocker.Exec(t.Context(), "COMMIT"); err != nil {
			t.Fatal(err)
		}
		if err := group.Wait(); err != nil {
			t.Fatal(err)
		}
		if one, other := <-made, <-made; one+other != 3 {
			t.Errorf("made %d and %d of 3", one, other)
		}
	})
}

// A rewinder opens where a grant would be refused, and reads the old primary whether
// or not it still grants; it refuses to be opened for granting.
//
// Clauses: K-7.2, K-7.6
// Mutation: open the rewinder for Granting, or drop Granting from OldPrimary.
func TestRewinderReads(t *testing.T) {
	t.Parallel()
	b, next := setup(t, 16), setup(t, 16)
	grant := b.acquire(t, "a", "alice", b.session(t, "alice"), time.Hour)
	for _, shut := range []bool{false, true} {
		if shut {
			b.exec(t, `UPDATE lock_gate SET timeline_id = 9`)
		}
		gate, err := b.rewinder(t, "t_auditor").Gate(t.Context())
		if err != nil || gate.Open() == shut || gate.Here == shut {
			t.Errorf("the gate: %+v, %v", gate, err)
		}
		old, err := next.rewinder(t, "t_auditor").OldPrimary(t.Context(), b.dbs.Lock.Config(t, "t_auditor"))
		if err != nil || old.Last != grant.Token || old.Granting == shut || old.Identity.SystemIdentifier == 0 || old.At.IsZero() {
			t.Errorf("the old primary: %+v, %v", old, err)
		}
	}
	closed := b.dbs.Lock.Config(t, "t_auditor")
	closed.Port = 1
	if _, err := next.rewinder(t, "t_auditor").OldPrimary(t.Context(), closed); err == nil || isWrong(err, "") {
		t.Errorf("an old primary that is not there: %v", err)
	}
	_, err := postgres.OpenRewinder(t.Context(), postgres.RewindOptions{Options: options(t, b.dbs)})
	if !errors.Is(err, lockstore.ErrInvalid) {
		t.Errorf("a rewinder that grants: %v", err)
	}
}

func isWrong(err error, says string) bool {
	wrong, ok := errors.AsType[*postgres.NotOldPrimaryError](err)
	return ok && strings.Contains(wrong.Problem, says)
}

// The primary of before is one of the same deployment, and another database than this:
// what a wrong address answers is no evidence. A lockdb that was migrated anew is known by
// its paydb, or by the records that came along.
//
// Clauses: K-7.2
// Mutation: drop a case of wasBefore.
func TestOldPrimaryIsOfThisDeployment(t *testing.T) {
	t.Parallel()
	here, there := setup(t, 16), setup(t, 16)
	r := here.rewinder(t, "t_auditor")
	ask := func(db pgtest.DB) error {
		t.Helper()
		_, err := r.OldPrimary(t.Context(), db.Config(t, "t_auditor"))
		return err
	}
	wrong := func(name string, db pgtest.DB, says string) {
		t.Helper()
		if err := ask(db); !isWrong(err, says) {
			t.Errorf("%s: %v", name, err)
		}
	}
	right := func(name string) {
		t.Helper()
		if err := ask(there.dbs.Lock); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	right("a backup of it")
	wrong("itself", here.dbs.Lock, "it is this very lockdb")
	wrong("its paydb", here.dbs.Pay, "no lockdb")
	here.exec(t, `INSERT INTO deployment (environment) VALUES ('prod')`)
	right("not marked")
	there.exec(t, `INSERT INTO deployment (environment) VALUES ('staging')`)
	wrong("staging's", there.dbs.Lock, `marked as "staging"`)
	there.exec(t, `UPDATE deployment SET environment = 'prod'`)
	there.exec(t, `UPDATE outside_mark SET deployment_id = gen_random_uuid()`)
	there.exec(t, `INSERT INTO peer_instance (system_identifier) VALUES (7) ON CONFLICT (one) DO UPDATE SET system_identifier = 7`)
	wrong("another deployment's", there.dbs.Lock, "another deployment's lockdb")
	here.exec(t, `INSERT INTO peer_instance (system_identifier) VALUES (7) ON CONFLICT (one) DO UPDATE SET system_identifier = 7`)
	right("beside the same paydb")
	here.exec(t, `DELETE FROM peer_instance`)
	there.exec(t, `DELETE FROM peer_instance`)
	wrong("beside no paydb", there.dbs.Lock, "another deployment's lockdb")
	here.exec(t, `INSERT INTO operator_log (action, operator, reason) VALUES ('freeze', 'erin', 'came along')`)
	right("with its records")
}

// Behind the advance nothing is drawn until it ends, and what was drawn before
// counts: read and set apart from each other would lose it.
//
// Clauses: K-7.4
// Mutation: drop rewindStopQuery from advance.
func TestAdvanceStopsDraws(t *testing.T) {
	t.Parallel()
	eachMajor(t, func(t *testing.T, b bundle) {
		r := b.rewinder(t, "t_operator")
		drawn := make(chan lockstore.Token, 1)
		var group errgroup.Group
		conn := b.dbs.Lock.Conn(t, "t_lockapp")
		params := advanceTo(500)
		params.Decide = func(view lockstore.AdvanceView) (lockstore.Decision, error) {
			group.Go(func() error {
				var token lockstore.Token
				err := conn.QueryRow(t.Context(), `SELECT nextval('fencing_token_seq')`).Scan(&token)
				drawn <- token
				return err
			})
			b.drawWaits(t)
			return lockstore.Decision{Target: view.Source.Last + 500}, nil
		}
		done, err := r.Advance(t.Context(), params)
		if err != nil {
			t.Fatal(err)
		}
		if err := group.Wait(); err != nil {
			t.Fatal(err)
		}
		if token := <-drawn; token != done.To+1 {
			t.Errorf("token %s was drawn behind an advance to %s", token, done.To)
		}
	})
}

// drawWaits returns once somebody waits for a number.
func (b bundle) drawWaits(t *testing.T) {
	t.Helper()
	pgtest.Eventually(t, "the draw waits", func(ctx context.Context) (waits bool, err error) {
		err = b.super.QueryRow(ctx, `SELECT count(*) = 1 FROM pg_locks WHERE relation = 'fencing_token_seq'::regclass AND NOT granted`).Scan(&waits)
		return waits, err
	})
}

// Who reads the sequence while it is moved is answered, whichever storage it finds.
//
// Clauses: K-7.2
// Mutation: read once in settled.
func TestReadWhileSequenceMoves(t *testing.T) {
	t.Parallel()
	b := setup(t, 16)
	r := b.rewinder(t, "t_operator")
	super := b.dbs.Lock.Conn(t, "super")
	moved := make(chan error, 1)
	ctx, stop := context.WithCancel(t.Context())
	go func() {
		for n := 1; ctx.Err() == nil; n++ {
			if _, err := super.Exec(context.WithoutCancel(ctx), fmt.Sprintf("ALTER SEQUENCE fencing_token_seq RESTART WITH %d", n)); err != nil {
				moved <- err
				return
			}
		}
		moved <- nil
	}()
	for range 400 {
		if _, err := r.Source(t.Context()); err != nil {
			t.Errorf("source: %v", err)
			break
		}
		if _, err := r.Evidence(t.Context(), lockstore.MaxToken); err != nil {
			t.Errorf("evidence: %v", err)
			break
		}
	}
	stop()
	if err := <-moved; err != nil {
		t.Error(err)
	}
}

package postgres_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sync/errgroup"

	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/lockstore/postgres"
)

const account = "00000000-0000-4000-8000-000000000001"

func operatorOptions(t *testing.T, b bundle) postgres.Options {
	t.Helper()
	opts := options(t, b.dbs)
	opts.Config = b.dbs.Lock.Config(t, "t_operator")
	opts.Purpose = postgres.Changing
	return opts
}

func operatorStore(t *testing.T, b bundle) *postgres.Store {
	t.Helper()
	return open(t, operatorOptions(t, b))
}

// A bulk revoke takes exactly what the operator saw, with an audit row each, or
// nothing; without anything that narrows it, it is refused.
//
// Clauses: K-3.4
// Mutation: drop the comparison with Expect.
func TestRevokeMany(t *testing.T) {
	t.Parallel()
	eachMajor(t, func(t *testing.T, b bundle) {
		alice, bob := b.session(t, "alice"), b.session(t, "bob")
		for _, key := range []string{"job/2", "job/1", "other"} {
			b.acquire(t, key, "alice", alice, time.Hour)
		}
		b.acquire(t, "job/3", "bob", bob, time.Hour)
		params := lockstore.RevokeManyParams{Filter: lockstore.Filter{Prefix: "job/", Owner: "alice"}, Operator: "erin", Reason: "drain", Expect: 3}
		_, err := b.store.RevokeMany(t.Context(), params)
		if moved, ok := errors.AsType[*lockstore.CountMovedError](err); !ok || *moved != (lockstore.CountMovedError{Expected: 3, Found: 2}) {
			t.Fatalf("another number: %v", err)
		}
		if rows, err := b.store.Revocations(t.Context(), lockstore.RevocationFilter{}); err != nil || len(rows) != 0 {
			t.Fatalf("a refused bulk revoke left %d audit rows, %v", len(rows), err)
		}
		params.Expect = 2
		outcomes, err := b.store.RevokeMany(t.Context(), params)
		if err != nil || len(outcomes) != 2 || outcomes[0].Key != "job/1" || outcomes[1].Key != "job/2" || outcomes[0].AuditID == 0 || outcomes[0].Session != alice {
			t.Errorf("revoked %+v, %v", outcomes, err)
		}
		entries, err := b.store.List(t.Context(), lockstore.Filter{})
		if err != nil || len(entries) != 2 {
			t.Errorf("left over: %+v, %v", entries, err)
		}
		if _, err := b.store.RevokeMany(t.Context(), lockstore.RevokeManyParams{Operator: "erin", Reason: "all", Expect: 2}); !errors.Is(err, lockstore.ErrInvalid) {
			t.Errorf("without a filter: %v, want ErrInvalid", err)
		}
	})
}

// Ending the session takes its other grants too, an audit row each; without it
// the holder simply acquires again.
//
// Clauses: K-3.5
// Mutation: delete the session without revoking its entries first.
func TestRevokeEndsTheSession(t *testing.T) {
	t.Parallel()
	b := setup(t, 16)
	alice := b.session(t, "alice")
	grant := b.acquire(t, "k", "alice", alice, time.Hour)
	other := b.acquire(t, "other", "alice", alice, time.Hour)
	if _, err := b.revoke(t.Context(), "k", grant.Token); err != nil {
		t.Fatal(err)
	}
	grant = b.acquire(t, "k", "alice", alice, time.Hour) // its session lives

	outcome, err := b.store.Revoke(t.Context(), lockstore.RevokeParams{Key: "k", Token: grant.Token, Operator: "erin", Reason: "stuck", EndSession: true})
	if err != nil || outcome.Outcome != lockstore.Revoked || !outcome.SessionEnded || outcome.Session != alice || len(outcome.AlsoRevoked) != 1 ||
		outcome.AlsoRevoked[0].Token != other.Token || outcome.AlsoRevoked[0].AuditID == 0 {
		t.Errorf("revoked %+v, %v", outcome, err)
	}
	_, err = b.store.Acquire(t.Context(), lockstore.AcquireParams{Key: "k", Owner: "alice", Session: alice, TTL: time.Hour})
	if !errors.Is(err, lockstore.ErrSessionLost) {
		t.Errorf("acquire again: %v, want ErrSessionLost", err)
	}
	if rows, err := b.store.Revocations(t.Context(), lockstore.RevocationFilter{}); err != nil || len(rows) != 3 {
		t.Errorf("%d audit rows, %v, want 3", len(rows), err)
	}

	// A newer grant than the one seen, and nobody's grant: nothing is ended.
	bob := b.session(t, "bob")
	current := b.acquire(t, "k", "bob", bob, time.Hour)
	moved, err := b.store.Revoke(t.Context(), lockstore.RevokeParams{Key: "k", Token: grant.Token, Operator: "erin", Reason: "late", EndSession: true})
	if err != nil || moved.Outcome != lockstore.TokenMoved || moved.SessionEnded || moved.Token != current.Token {
		t.Errorf("a newer grant: %+v, %v", moved, err)
	}
	if session, err := b.store.Session(t.Context(), bob); err != nil || session.Locks != 1 {
		t.Errorf("bob's session: %+v, %v, want it untouched", session, err)
	}
	gone, err := b.store.Revoke(t.Context(), lockstore.RevokeParams{Key: "free", Token: 1, Operator: "erin", Reason: "late", EndSession: true})
	if err != nil || gone.Outcome != lockstore.NotHeld || gone.SessionEnded {
		t.Errorf("a free key: %+v, %v", gone, err)
	}
}

// F is drawn above the revoked grant and below every later one, is recorded
// with what is to be raised, and only when a grant was revoked.
//
// Clauses: K-3.2
// Mutation: log F for TOKEN_MOVED, or draw it for a key whose gate is shut.
func TestRevokeDrawsAFence(t *testing.T) {
	t.Parallel()
	eachMajor(t, func(t *testing.T, b bundle) {
		operator := operatorStore(t, b)
		alice, bob := b.session(t, "alice"), b.session(t, "bob")
		grant := b.acquire(t, "account:"+account, "alice", alice, time.Hour)
		params := lockstore.RevokeParams{Key: "account:" + account, Token: grant.Token, Operator: "erin", Reason: "zombie", FenceAccounts: []string{account}}
		late := params
		late.Token--
		if late.Token > 0 {
			if moved, err := operator.Revoke(t.Context(), late); err != nil || moved.Outcome != lockstore.TokenMoved || moved.Fence != 0 {
				t.Errorf("another token: %+v, %v", moved, err)
			}
		}
		outcome, err := operator.Revoke(t.Context(), params)
		if err != nil || outcome.Outcome != lockstore.Revoked || outcome.Fence <= grant.Token {
			t.Fatalf("revoked %+v, %v", outcome, err)
		}
		next := b.acquire(t, "account:"+account, "bob", bob, time.Hour)
		if next.Token <= outcome.Fence {
			t.Errorf("the next holder's token %s is not above the fence %s", next.Token, outcome.Fence)
		}
		log, err := b.store.OperatorLog(t.Context(), lockstore.OperatorLogFilter{Action: lockstore.ActionFenceAccount})
		if err != nil || len(log) != 1 || log[0].Token != outcome.Fence || log[0].Operator != "erin" || log[0].Reason != "zombie" || log[0].LoginRole != "t_operator" {
			t.Fatalf("the operator log: %+v, %v", log, err)
		}
		var details postgres.FenceDetails
		if err := json.Unmarshal(log[0].Details, &details); err != nil {
			t.Fatal(err)
		}
		want := postgres.FenceDetails{Key: params.Key, PrevToken: grant.Token, AuditID: outcome.AuditID, Accounts: []string{account}}
		if diff := cmp.Diff(want, details); diff != "" {
			t.Errorf("details (-want +got):\n%s", diff)
		}
		// A shut gate draws nothing.
		b.exec(t, `UPDATE lock_gate SET closed_by = 'erin', closed_at = now(), closed_reason = 'drill'`)
		params.Token = next.Token
		if _, err := operator.Revoke(t.Context(), params); !isClosed(err) {
			t.Errorf("with the gate shut: %v, want closed", err)
		}
		// The application may not write the operator log: the whole is refused.
		b.exec(t, `UPDATE lock_gate SET closed_by = NULL, closed_at = NULL, closed_reason = NULL`)
		if _, err := b.store.Revoke(t.Context(), params); err == nil || isUnknown(err) {
			t.Errorf("as the application: %v, want refused", err)
		}
		if entry, err := b.store.Show(t.Context(), params.Key); err != nil || entry.Token != next.Token {
			t.Errorf("bob's grant: %+v, %v, want it untouched", entry, err)
		}
	})
}

// However acquirers and fencing revokes interleave, no grant made after a fence
// was drawn is below it: the next legitimate holder is never fenced out.
//
// Clauses: K-3.2
// Mutation: draw F after the revoke and without the key's advisory lock.
func TestFencesAreBelowLaterGrants(t *testing.T) {
	t.Parallel()
	b := setup(t, 16)
	operator := operatorStore(t, b)
	const key, rounds = "account:" + account, 60
	// As grants and fences are committed, each is noted by a trigger under the
	// row's lock or in the revoke's own transaction, in one order for both.
	b.exec(t, `CREATE TABLE witness (n BIGSERIAL PRIMARY KEY, kind TEXT, token BIGINT)`)
	b.exec(t, `GRANT ALL ON witness, witness_n_seq TO PUBLIC`)
	b.exec(t, `CREATE FUNCTION note_grant() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO witness (kind, token) VALUES ('grant', NEW.fencing_token); RETURN NULL; END $$`)
	b.exec(t, `CREATE FUNCTION note_fence() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO witness (kind, token) VALUES ('fence', NEW.token); RETURN NULL; END $$`)
	b.exec(t, `CREATE TRIGGER z_note AFTER INSERT OR UPDATE OF fencing_token ON lock_entry FOR EACH ROW EXECUTE FUNCTION note_grant()`)
	b.exec(t, `CREATE TRIGGER z_note AFTER INSERT ON operator_log FOR EACH ROW EXECUTE FUNCTION note_fence()`)

	group, ctx := errgroup.WithContext(t.Context())
	var over atomic.Bool
	for i := range 4 {
		owner := fmt.Sprint("holder-", i)
		session := b.session(t, owner)
		group.Go(func() error {
			for !over.Load() {
				_, err := b.store.Acquire(ctx, lockstore.AcquireParams{Key: key, Owner: owner, Session: session, TTL: time.Hour})
				if _, held := errors.AsType[*lockstore.HeldError](err); err != nil && !held {
					return err
				}
			}
			return nil
		})
	}
	group.Go(func() error {
		defer over.Store(true)
		for fences := 0; fences < rounds; {
			entry, err := operator.Show(ctx, key)
			if errors.Is(err, lockstore.ErrNotFound) {
				continue
			}
			if err != nil {
				return err
			}
			outcome, err := operator.Revoke(ctx, lockstore.RevokeParams{Key: key, Token: entry.Token, Operator: "erin", Reason: "zombie", FenceAccounts: []string{account}})
			if err != nil {
				return err
			}
			if outcome.Outcome == lockstore.Revoked {
				fences++
			}
		}
		return nil
	})
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	var fences, fencedOut int
	err := b.super.QueryRow(t.Context(), `SELECT count(*), count(*) FILTER (WHERE EXISTS (SELECT FROM witness g WHERE g.kind = 'grant' AND g.n > f.n AND g.token < f.token))
		FROM witness f WHERE f.kind = 'fence'`).Scan(&fences, &fencedOut)
	if err != nil || fences != rounds || fencedOut != 0 {
		t.Errorf("%d fences, %d of them above a later grant, %v", fences, fencedOut, err)
	}
}

// Audit rows from before the journal and the logins, of a database that adopted
// both later, are no finding.
//
// Clauses: K-3.6
// Mutation: drop login_role from verify_revocations.sql.
func TestVerifyAuditAfterAdoption(t *testing.T) {
	t.Parallel()
	b := setup(t, 16)
	b.acquire(t, "k", "alice", b.session(t, "alice"), time.Hour)
	b.exec(t, `INSERT INTO lock_revocation (lock_key, prev_owner, prev_token, operator, reason, login_role) VALUES ('old', 'bob', 4711, 'erin', 'long ago', NULL)`)
	if report, err := b.store.VerifyAudit(t.Context()); err != nil || len(report.Findings) != 0 {
		t.Errorf("%+v, %v, want it clean", report, err)
	}
}

func isClosed(err error) bool {
	_, ok := errors.AsType[*lockstore.GrantsClosedError](err)
	return ok
}

// Prune takes entries that lapsed long enough ago, and nothing else.
func TestPrune(t *testing.T) {
	t.Parallel()
	b := setup(t, 16)
	alice := b.session(t, "alice")
	b.acquire(t, "live", "alice", alice, time.Hour)
	old := b.acquire(t, "old", "alice", alice, lockstore.MinTTL)
	b.lapse(t, "old")
	if pruned, err := b.store.Prune(t.Context(), time.Hour, 100); err != nil || len(pruned) != 0 {
		t.Errorf("lapsed a moment ago: pruned %+v, %v", pruned, err)
	}
	pruned, err := b.store.Prune(t.Context(), 0, 100)
	if err != nil || len(pruned) != 1 || pruned[0].Key != "old" || pruned[0].Token != old.Token {
		t.Errorf("pruned %+v, %v", pruned, err)
	}
	if record, err := b.store.GrantHistory(t.Context(), old.Token); err != nil || record.Ended != "expired" || record.Owner != "alice" || record.Key != "old" {
		t.Errorf("the journal: %+v, %v", record, err)
	}
	if _, err := b.store.GrantHistory(t.Context(), old.Token+1000); !errors.Is(err, lockstore.ErrNotFound) {
		t.Errorf("an unknown token: %v, want ErrNotFound", err)
	}
	if _, err := b.store.Prune(t.Context(), -time.Hour, 100); !errors.Is(err, lockstore.ErrInvalid) {
		t.Errorf("a negative age: %v, want ErrInvalid", err)
	}
}

// What an owner can do to the audit, disable its guards and change it, is found
// and named; an untouched audit is clean.
//
// Clauses: K-3.3, K-3.6
// Mutation: drop a step of VerifyAudit.
func TestVerifyAudit(t *testing.T) {
	t.Parallel()
	eachMajor(t, func(t *testing.T, b bundle) {
		alice := b.session(t, "alice")
		for range 3 {
			grant := b.acquire(t, "k", "alice", alice, time.Hour)
			if _, err := b.revoke(t.Context(), "k", grant.Token); err != nil {
				t.Fatal(err)
			}
			b.exec(t, `INSERT INTO operator_log (action, operator, reason) VALUES ('test', 'erin', 'why')`)
		}
		verify := func(want ...string) {
			t.Helper()
			report, err := b.store.VerifyAudit(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			got := []string{}
			for _, f := range report.Findings {
				got = append(got, f.ID)
			}
			if diff := cmp.Diff(append([]string{}, want...), got); diff != "" {
				t.Errorf("findings (-want +got):\n%s\n%+v", diff, report)
			}
		}
		verify()
		b.exec(t, `ALTER TABLE lock_revocation DISABLE TRIGGER lock_revocation_append_only`)
		verify("guard_off")
		b.exec(t, `DELETE FROM lock_revocation WHERE id = 2`)
		verify("guard_off", "revocation_missing")
		b.exec(t, `INSERT INTO lock_revocation (lock_key, prev_owner, prev_token, operator, reason) SELECT lock_key, 'forged', fencing_token, 'x', 'y' FROM lock_grant LIMIT 1`)
		verify("guard_off", "revocation_unexplained", "revocation_missing")
		b.exec(t, `ALTER TABLE lock_revocation ENABLE ALWAYS TRIGGER lock_revocation_append_only`)
		b.exec(t, `ALTER TABLE operator_log DISABLE TRIGGER operator_log_append_only`)
		b.exec(t, `UPDATE operator_log SET reason = 'forged' WHERE id = 2`)
		b.exec(t, `ALTER TABLE operator_log ENABLE ALWAYS TRIGGER operator_log_append_only`)
		verify("chain_broken", "revocation_unexplained", "revocation_missing")
		b.exec(t, `ALTER TABLE operator_log DISABLE TRIGGER operator_log_append_only`)
		b.exec(t, `DELETE FROM operator_log WHERE id = 2`)
		b.exec(t, `ALTER TABLE operator_log ENABLE ALWAYS TRIGGER operator_log_append_only`)
		verify("chain_gap", "revocation_unexplained", "revocation_missing")
	})
}

// Rewriting a record and its own hash, as an owner can, breaks the next link.
//
// Clauses: K-3.6
// Mutation: leave previous_hash out of verify_chain.sql.
func TestVerifyAuditFollowsTheChain(t *testing.T) {
	t.Parallel()
	b := setup(t, 16)
	for range 3 {
		b.exec(t, `INSERT INTO operator_log (action, operator, reason) VALUES ('test', 'erin', 'why')`)
	}
	b.exec(t, `ALTER TABLE operator_log DISABLE TRIGGER operator_log_append_only`)
	b.exec(t, `UPDATE operator_log SET reason = 'forged' WHERE id = 2`)
	b.exec(t, `UPDATE operator_log o SET hash = operator_log_hash(o) WHERE id = 2`)
	b.exec(t, `ALTER TABLE operator_log ENABLE ALWAYS TRIGGER operator_log_append_only`)
	report, err := b.store.VerifyAudit(t.Context())
	if err != nil || len(report.Findings) != 1 || report.Findings[0].ID != "chain_broken" || report.Findings[0].Where != "operator_log 3" {
		t.Errorf("%+v, %v, want the link of record 3 broken", report, err)
	}
}

package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sync/errgroup"

	"github.com/dlockctl/dlockctl/internal/lockstore"
)

func (b bundle) revoke(ctx context.Context, key string, token lockstore.Token) (lockstore.LockOutcome, error) {
	return b.store.Revoke(ctx, lockstore.RevokeParams{Key: key, Token: token, Operator: "erin", Reason: "stuck"})
}

// Revoked with one audit row, not held, or moved on to a newer token: three
// outcomes, and an audit row for the first alone.
//
// Clauses: K-3.1, K-3.3
// Mutation: drop the token from revoke.sql's DELETE, or the audit CTE.
func TestRevokeOutcomes(t *testing.T) {
	t.Parallel()
	eachMajor(t, func(t *testing.T, b bundle) {
		alice := b.session(t, "alice")
		seen := b.acquire(t, "k", "alice", alice, time.Hour)
		current := b.acquire(t, "k", "alice", alice, time.Hour)

		moved, err := b.revoke(t.Context(), "k", seen.Token)
		if want := (lockstore.LockOutcome{Outcome: lockstore.TokenMoved, Key: "k", Owner: "alice", Token: current.Token, Presented: seen.Token}); err != nil || !cmp.Equal(moved, want) {
			t.Errorf("an older token: %+v, %v, want %+v", moved, err, want)
		}
		revoked, err := b.revoke(t.Context(), "k", current.Token)
		if err != nil || revoked.Outcome != lockstore.Revoked || revoked.AuditID == 0 || revoked.Owner != "alice" || revoked.Token != current.Token {
			t.Errorf("the current token: %+v, %v", revoked, err)
		}
		gone, err := b.revoke(t.Context(), "k", current.Token)
		if err != nil || gone.Outcome != lockstore.NotHeld || gone.AuditID != 0 {
			t.Errorf("again: %+v, %v", gone, err)
		}

		rows, err := b.store.Revocations(t.Context(), lockstore.RevocationFilter{Key: "k"})
		if err != nil || len(rows) != 1 {
			t.Fatalf("%d audit rows, %v, want 1", len(rows), err)
		}
		row := rows[0]
		if row.ID != revoked.AuditID || row.PrevOwner != "alice" || row.PrevToken != current.Token || row.Operator != "erin" || row.Reason != "stuck" ||
			row.LoginRole != "t_lockapp" || row.ClientAddress != "127.0.0.1" || row.RevokedAt.IsZero() {
			t.Errorf("the audit row is %+v", row)
		}
		if one, err := b.store.Revocation(t.Context(), row.ID); err != nil || one != row {
			t.Errorf("by id: %+v, %v", one, err)
		}
		if _, err := b.store.Revocation(t.Context(), row.ID+1); !errors.Is(err, lockstore.ErrNotFound) {
			t.Errorf("by another id: %v, want ErrNotFound", err)
		}
	})
}

// Who revokes and why is never blank: not through the store, not through SQL.
//
// Clauses: K-3.3
// Mutation: drop ValidReason from Revoke, or the CHECK from V5.
func TestRevokeNeedsOperatorAndReason(t *testing.T) {
	t.Parallel()
	b := setup(t, 16)
	for _, params := range []lockstore.RevokeParams{
		{Key: "k", Token: 1, Operator: "", Reason: "why"},
		{Key: "k", Token: 1, Operator: " \t", Reason: "why"},
		{Key: "k", Token: 1, Operator: "erin", Reason: ""},
		{Key: "k", Token: 1, Operator: "erin", Reason: " \n "},
	} {
		if _, err := b.store.Revoke(t.Context(), params); !errors.Is(err, lockstore.ErrInvalid) {
			t.Errorf("%+v: %v, want ErrInvalid", params, err)
		}
		if params.Operator == "" || params.Reason == "" {
			continue
		}
		if _, err := b.super.Exec(t.Context(), `INSERT INTO lock_revocation (lock_key, prev_owner, prev_token, operator, reason) VALUES ('k', 'o', 1, $1, $2)`,
			params.Operator, params.Reason); err == nil {
			t.Errorf("%+v: lockdb accepted it", params)
		}
	}
}

// While a key changes hands as fast as it can, TOKEN_MOVED never names the very
// token that was presented, every REVOKED has its audit row, and no grant is
// both released and revoked.
//
// Clauses: K-3.1
// Mutation: drop FOR UPDATE from revoke.sql's first CTE.
func TestRevokeUnderLoad(t *testing.T) {
	t.Parallel()
	b := setup(t, 16)
	wrong, revoked := revokeStorm(t, b, b.revoke)
	if wrong != 0 {
		t.Errorf("%d TOKEN_MOVED answers name the token that was presented", wrong)
	}
	var rows, tokens, twice int64
	err := b.super.QueryRow(t.Context(), `SELECT count(*), count(DISTINCT prev_token),
		(SELECT count(*) FROM lock_revocation r JOIN lock_grant g ON g.fencing_token = r.prev_token WHERE g.ended <> 'revoked') FROM lock_revocation`).Scan(&rows, &tokens, &twice)
	if err != nil || rows != revoked || tokens != revoked || twice != 0 {
		t.Errorf("%d revoked, %d audit rows for %d tokens, %d of them ended otherwise, %v", revoked, rows, tokens, twice, err)
	}
	if revoked == 0 {
		t.Error("nothing was ever revoked: the test proves nothing")
	}
}

// revokeStorm lets holders re-enter and release one key while revokers present
// the token they last saw there.
func revokeStorm(t *testing.T, b bundle, revoke func(context.Context, string, lockstore.Token) (lockstore.LockOutcome, error)) (wrong, revoked int64) {
	t.Helper()
	var seen, wrongs, revokes atomic.Int64
	var over atomic.Bool
	holders, holding := errgroup.WithContext(t.Context())
	for i := range 3 {
		owner := fmt.Sprint("holder-", i)
		session := b.session(t, owner)
		holders.Go(func() error {
			for range 200 {
				grant, err := b.store.Acquire(holding, lockstore.AcquireParams{Key: "k", Owner: owner, Session: session, TTL: time.Minute})
				if held := (*lockstore.HeldError)(nil); errors.As(err, &held) {
					seen.Store(int64(held.Token))
					continue
				}
				if err != nil {
					return err
				}
				seen.Store(int64(grant.Token))
				if grant.Token%3 == 0 {
					if _, err := b.store.Release(holding, "k", grant.Token); err != nil {
						return err
					}
				}
			}
			return nil
		})
	}
	revokers, ctx := errgroup.WithContext(t.Context())
	for range 4 {
		revokers.Go(func() error {
			for !over.Load() {
				token := lockstore.Token(seen.Load())
				if token == 0 {
					runtime.Gosched()
					continue
				}
				outcome, err := revoke(ctx, "k", token)
				if err != nil {
					return err
				}
				switch {
				case outcome.Outcome == lockstore.Revoked:
					revokes.Add(1)
				case outcome.Outcome == lockstore.TokenMoved && outcome.Token == token:
					wrongs.Add(1)
				}
			}
			return nil
		})
	}
	held := holders.Wait()
	over.Store(true)
	if err := errors.Join(held, revokers.Wait()); err != nil {
		t.Fatal(err)
	}
	return wrongs.Load(), revokes.Load()
}

package syncguard_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/lockstore/syncguard"
)

// A row whose fence is no token is listed with what it has for one, and is revoked by
// the hash of its lock id, one by one or many at once: that very row, or none. The
// audit has both. The lock id itself is told nowhere.
//
// Clauses: K-3.1, K-3.3, K-10.2
// Mutation: leave the comparison of the hash out of revoke; scan the fence without
// coalesce.
func TestRevokeWhatHasNoToken(t *testing.T) {
	t.Parallel()
	eachMajor(t, func(t *testing.T, b bundle) {
		b.exec(t, `ALTER TABLE syncguard_locks ALTER COLUMN fence DROP NOT NULL, ALTER COLUMN expires_at_ms DROP NOT NULL, ALTER COLUMN lock_id DROP NOT NULL`)
		store := open(t, options(t, b.db))
		texts := map[string]string{
			"negative": "0000000000000-5", "long": "9500000000000000", "longer": strings.Repeat("9", 40), "none": "x", "short": "7", "empty": "", "null": "",
		}
		plant := func() {
			for key, text := range texts {
				b.exec(t, `INSERT INTO syncguard_locks (key, lock_id, expires_at_ms, acquired_at_ms, fence, user_key) VALUES ('odd/' || $1, 'secret-' || $1, $3::bigint, 0, $2, $1)`,
					key, null(text, key == "null"), null(int64(1<<50), key == "null"))
			}
			b.exec(t, `UPDATE syncguard_locks SET lock_id = NULL WHERE key = 'odd/null'`)
		}
		plant()
		for key, text := range texts {
			shown := map[string]string{"empty": "empty", "null": "NULL"}[key]
			if shown == "" {
				shown = text
			}
			entry, err := store.Show(t.Context(), "odd/"+key)
			if err != nil || entry.Token != 0 || entry.Fence != shown {
				t.Fatalf("%s: %+v, %v", key, entry, err)
			}
			params := lockstore.RevokeParams{Key: "odd/" + key, LockIDHash: syncguard.TelemetryHash("another"), Operator: "erin", Reason: "stuck"}
			moved, err := store.Revoke(t.Context(), params)
			want := lockstore.LockOutcome{Outcome: lockstore.TokenMoved, Key: params.Key, LockIDHash: entry.LockIDHash, PresentedHash: params.LockIDHash}
			if err != nil || !cmp.Equal(moved, want) {
				t.Errorf("%s by another's hash: %+v, %v, want %+v", key, moved, err, want)
			}
			params.LockIDHash, params.Token = entry.LockIDHash, 7
			if both, err := store.Revoke(t.Context(), params); err != nil || both.Outcome != lockstore.TokenMoved {
				t.Errorf("%s by a token that it has not: %+v, %v", key, both, err)
			}
			params.Token = 0
			done, err := store.Revoke(t.Context(), params)
			row, auditErr := store.Revocation(t.Context(), done.AuditID)
			if err != nil || auditErr != nil || done.Outcome != lockstore.Revoked || done.Token != 0 || row.PrevToken != 0 || row.PrevFence != shown || row.LockIDHash != entry.LockIDHash {
				t.Errorf("%s: %+v, %v, audit row %+v, %v", key, done, err, row, auditErr)
			}
			if gone, err := store.Revoke(t.Context(), params); err != nil || gone.Outcome != lockstore.NotHeld || gone.PresentedHash != entry.LockIDHash {
				t.Errorf("%s again: %+v, %v", key, gone, err)
			}
		}
		plant()
		many := lockstore.RevokeManyParams{Filter: lockstore.Filter{Prefix: "odd/"}, Operator: "erin", Reason: "drain", Expect: len(texts)}
		outcomes, err := store.RevokeMany(t.Context(), many)
		if err != nil || len(outcomes) != len(texts) || outcomes[0].LockIDHash == "" {
			t.Errorf("in bulk: %+v, %v", outcomes, err)
		}
		rows, err := store.Revocations(t.Context(), lockstore.RevocationFilter{})
		if err != nil || len(rows) != 2*len(texts) || rows[0].LockIDHash == "" || rows[0].PrevFence == "" {
			t.Errorf("audit: %+v, %v", rows, err)
		}
		if told := fmt.Sprintf("%+v", rows); strings.Contains(told, "secret") {
			t.Errorf("the audit tells a lock id: %s", told)
		}
		// What nobody could take is free again, for a fence that counts on.
		plant()
		b.exec(t, `UPDATE syncguard_locks SET expires_at_ms = NULL`)
		if pruned, err := store.Prune(t.Context(), 0, 3); err != nil || len(pruned) != 3 {
			t.Errorf("pruned: %+v, %v", pruned, err)
		}
		for key := range texts {
			if grant, err := store.Acquire(t.Context(), wants("odd/"+key, time.Minute)); err != nil || grant.Token != 1 {
				t.Errorf("%s is granted: %+v, %v", key, grant, err)
			}
		}
	})
}

// null is NULL where there is none.
func null[V any](v V, none bool) *V {
	if none {
		return nil
	}
	return &v
}

// A hash that is none is refused without a word of it: it may be the lock id itself.
//
// Mutation: print the hash in ValidLockIDHash.
func TestMistakenLockIDIsNotRepeated(t *testing.T) {
	t.Parallel()
	b := setup(t, 16)
	grant := b.acquire(t, "k", time.Minute)
	_, err := b.store.Revoke(t.Context(), lockstore.RevokeParams{Key: "k", LockIDHash: grant.LockID, Operator: "erin", Reason: "stuck"})
	if !errors.Is(err, lockstore.ErrInvalid) || strings.Contains(err.Error(), grant.LockID) || !strings.Contains(err.Error(), "of 22 characters") {
		t.Errorf("the lock id itself: %v", err)
	}
}

// A row under a key that is not in NFC, which the library would never find, is shown
// and revoked by the key that the list prints, and the library's own is never in its
// place, not with the same fence either.
//
// Clauses: K-10.2
// Mutation: look for the normalised key alone, or first.
func TestKeysInAnotherForm(t *testing.T) {
	t.Parallel()
	eachMajor(t, func(t *testing.T, b bundle) {
		const composed, decomposed = "caf\u00e9", "cafe\u0301"
		b.exec(t, `INSERT INTO syncguard_locks (key, lock_id, expires_at_ms, acquired_at_ms, fence, user_key) VALUES ($1, 'x', 1, 0, '000000000000001', $1)`, decomposed)
		if own := b.acquire(t, composed, time.Hour); own.Token != 1 {
			t.Fatalf("the library's own has token %s; the two are to have the same", own.Token)
		}
		for _, key := range []string{decomposed, composed} {
			entry, err := b.store.Show(t.Context(), decomposed)
			if err != nil || entry.Key != key || entry.Token != 1 {
				t.Fatalf("shown %+v, %v, want %+q", entry, err, key)
			}
			done, err := b.store.Revoke(t.Context(), revokes(decomposed, 1))
			if err != nil || done.Outcome != lockstore.Revoked || done.Key != key {
				t.Errorf("revoked %+v, %v, want %+q", done, err, key)
			}
		}
		if rows, err := b.store.Revocations(t.Context(), lockstore.RevocationFilter{Key: decomposed}); err != nil || len(rows) != 2 {
			t.Errorf("the audit of both: %+v, %v", rows, err)
		}
		gone, err := b.store.Revoke(t.Context(), revokes(decomposed, 9))
		if want := (lockstore.LockOutcome{Outcome: lockstore.NotHeld, Key: composed, Presented: 9}); err != nil || !cmp.Equal(gone, want) {
			t.Errorf("again: %+v, %v, want %+v", gone, err, want)
		}
	})
}

package posting_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/dlockctl/dlockctl/internal/paystore"
	"github.com/dlockctl/dlockctl/internal/paystore/posting"
)

// mutated is a statement with one part of it written otherwise.
func mutated(t *testing.T, query, part, otherwise string) string {
	t.Helper()
	text := posting.Queries()[query]
	if strings.Count(text, part) != 1 {
		t.Fatalf("the statement %s has %q %d times, want once", query, part, strings.Count(text, part))
	}
	return strings.Replace(text, part, otherwise, 1)
}

// Both mistakes that can be made with each comparison show: "<=" in (a) lets one
// grant post twice, "<" in (b) posts nothing, ">" in either or none at all lets the
// stale write through.
//
// Clauses: K-4.1, K-4.2
// Mutation: write one of them in queries/*.sql.
func TestMutants(t *testing.T) {
	t.Parallel()
	b := setup(t, 16)
	ctx := t.Context()

	strict := mutated(t, "debit", "fence         < $2", "fence         <= $2")
	first, second := b.ackedTogether(t, 3)
	if _, err := b.Post(ctx, first, 3); err != nil {
		t.Fatal(err)
	}
	_, err := b.Post(ctx, second, 3)
	fencedBy(t, "(a) as specified", err, paystore.ResourceAccount, 3, 3)
	if _, err := b.Mutant(strict, "").Post(ctx, second, 3); err != nil {
		t.Errorf(`(a) with "<=" refused the second payout of one grant: %v`, err)
	}

	lax := mutated(t, "leg", "a.fence     <= $5", "a.fence     < $5")
	id := b.at(t, payer, paystore.RailAcked, 10)
	if _, err := b.Mutant("", lax).Post(ctx, id, 10); err == nil {
		t.Error(`(b) with "<" posted`)
	}
	if p := b.payout(t, id); p.State != paystore.RailAcked || len(p.Legs) > 0 {
		t.Errorf(`(b) with "<" left %s and %d legs`, p.State, len(p.Legs))
	}
	if _, err := b.Post(ctx, id, 10); err != nil {
		t.Errorf("(b) as specified: %v", err)
	}

	// Without either fence a stale posting goes through.
	stale := b.at(t, payer, paystore.RailAcked, 11)
	if _, _, err := b.RaiseFence(ctx, payer, 20, "erin", "revoked"); err != nil {
		t.Fatal(err)
	}
	_, err = b.Post(ctx, stale, 11)
	fencedBy(t, "(a) as specified", err, paystore.ResourceAccount, 11, 20)
	// (b) alone holds it as well: with (a) gone it is the ledger that refuses.
	_, err = b.Mutant(posting.Queries()["debit_unfenced"], "").Post(ctx, stale, 11)
	fencedBy(t, "(b) behind an unfenced (a)", err, paystore.ResourceLedger, 11, 20)
	if _, err := b.Mutant(posting.Queries()["debit_unfenced"], posting.Queries()["leg_unfenced"]).Post(ctx, stale, 11); err != nil {
		t.Errorf("without both fences: %v", err)
	}
	b.balanced(t)
}

// (b) run alone with the stale token gives 0 rows; without its predicate it writes.
//
// Clauses: K-4.1
// Mutation: leave a.fence <= :token out of queries/leg.sql.
func TestLegAlone(t *testing.T) {
	t.Parallel()
	eachMajor(t, func(t *testing.T, b bundle) {
		id := b.at(t, payer, paystore.RailAcked, 7)
		leg := func(name string) int64 {
			t.Helper()
			tx, err := b.super.Begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			tag, err := tx.Exec(t.Context(), posting.Queries()[name], uuid.New(), id, "DEBIT", 100, 7, payer)
			if err := errors.Join(err, tx.Rollback(t.Context())); err != nil {
				t.Fatal(err)
			}
			return tag.RowsAffected()
		}
		if n := leg("leg"); n != 1 {
			t.Errorf("the holder's leg alone: %d rows", n)
		}
		if _, _, err := b.RaiseFence(t.Context(), payer, 8, "erin", "revoked"); err != nil {
			t.Fatal(err)
		}
		if n := leg("leg"); n != 0 {
			t.Errorf("the stale holder's leg alone: %d rows", n)
		}
		if n := leg("leg_unfenced"); n != 1 {
			t.Errorf("without its fence: %d rows, so it is not what held it", n)
		}
	})
}

// With fencing off a stale holder posts what is another's, the fence is not lowered,
// and the guards of paydb still keep the payout from being posted twice.
//
// Clauses: K-4.5, K-4.10
// Mutation: write "fence = :token" in queries/debit_unfenced.sql.
func TestFencingDisabled(t *testing.T) {
	t.Parallel()
	eachMajor(t, func(t *testing.T, b bundle) {
		off := posting.New(b.db, posting.Options{FencingDisabled: true})
		id := b.at(t, payer, paystore.RailAcked, 30)
		if _, err := b.Claim(t.Context(), id, "heir", 50); err != nil {
			t.Fatal(err)
		}
		if _, _, err := b.RaiseFence(t.Context(), payer, 60, "erin", "revoked"); err != nil {
			t.Fatal(err)
		}
		_, err := b.Post(t.Context(), id, 30)
		fencedBy(t, "the stale holder", err, paystore.ResourcePayout, 30, 50)
		_, err = b.Post(t.Context(), id, 50)
		fencedBy(t, "the heir, below the fence", err, paystore.ResourceAccount, 50, 60)
		if _, err := off.Post(t.Context(), id, 30); err != nil {
			t.Errorf("the stale holder with fencing off: %v", err)
		}
		if again, err := off.Post(t.Context(), id, 50); err != nil || !again.AlreadyPosted {
			t.Errorf("the heir after it: %+v, %v", again, err)
		}
		if a := b.account(t, payer); a.Fence != 60 {
			t.Errorf("the fence is %s, lowered from 60", a.Fence)
		}
		poor := b.create(t, other, 999_999)
		b.bring(t, poor, paystore.RailAcked, 70)
		if _, err := off.Post(t.Context(), poor, 70); !is[*paystore.RejectedError](err) {
			t.Errorf("funds with fencing off: %v", err)
		}
		b.balanced(t)
	})
}

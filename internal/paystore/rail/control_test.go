package rail_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jackc/pgerrcode"

	"github.com/dlockctl/dlockctl/internal/paystore"
	"github.com/dlockctl/dlockctl/internal/paystore/rail"
	"github.com/dlockctl/dlockctl/internal/pgtx"
)

// The `<` of (d) is strict, and no stricter: the mark's own token is refused, the
// next one is not. Each mistake shows.
//
// Clauses: K-4.1, K-4.2
// Mutation: the two variants below, in queries/mark.sql.
func TestMarkIsStrict(t *testing.T) {
	t.Parallel()
	const predicate = "rail_high_water.highest_token < EXCLUDED.highest_token"
	eachMajor(t, func(t *testing.T, b bundle) {
		for variant, want := range map[string]string{
			predicate:                                "4 refused, 5 refused, 6 passes",
			strings.Replace(predicate, "<", "<=", 1): "4 refused, 5 passes, 6 passes",
			predicate + " - 1":                       "4 refused, 5 refused, 6 refused",
		} {
			sql := strings.Replace(rail.Queries()["mark"], predicate, variant, 1)
			var saw []string
			for _, token := range []paystore.Token{4, 5, 6} {
				saw = append(saw, fmt.Sprintf("%s %s", token, b.marks(t, sql, token)))
			}
			if diff := cmp.Diff(want, strings.Join(saw, ", ")); diff != "" {
				t.Errorf("WHERE %s (-want +got):\n%s", variant, diff)
			}
		}
	})
}

// marks tries the token on an account whose mark is 5, and undoes it.
func (b bundle) marks(t *testing.T, sql string, token paystore.Token) string {
	t.Helper()
	tx, err := b.super.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := tx.Rollback(t.Context()); err != nil {
			t.Error(err)
		}
	}()
	if _, err := tx.Exec(t.Context(), `INSERT INTO rail_high_water (account_id, highest_token) VALUES ($1, 5)`, account); err != nil {
		t.Fatal(err)
	}
	tag, err := tx.Exec(t.Context(), sql, account, int64(token))
	if err != nil {
		t.Fatal(err)
	}
	if tag.RowsAffected() == 1 {
		return "passes"
	}
	return "refused"
}

// Mark and attempt are one transaction: an attempt that cannot be written takes its
// mark along, and the same token may try again. In two transactions the holder who
// fails between them has fenced itself out.
//
// Clauses: K-4.11
// Mutation: write the mark outside of reserve's transaction, as the control does.
func TestMarkAndAttemptAreOneTransaction(t *testing.T) {
	t.Parallel()
	eachMajor(t, func(t *testing.T, b bundle) {
		p := b.proxy(t, rail.Options{})
		b.exec(t, `CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'the disk is full'; END $$`)
		b.exec(t, `CREATE TRIGGER fail AFTER INSERT ON rail_submission FOR EACH ROW WHEN (NEW.outcome IS NULL) EXECUTE FUNCTION fail()`)
		whole, split := b.payout(t, account, 5), b.payout(t, another, 6)
		if _, err := p.Submit(t.Context(), whole, 5); err == nil || b.mark(t, account) != 0 {
			t.Errorf("with the disk full: %v, mark %s", err, b.mark(t, account))
		}
		b.exec(t, rail.Queries()["mark"], another, 6) // the control: committed before the attempt
		if _, err := p.Submit(t.Context(), split, 6); !fencedBy(err, paystore.ResourceRail, 6, 6) {
			t.Errorf("the control: %v; want the holder fenced out by itself", err)
		}
		b.exec(t, `DROP TRIGGER fail ON rail_submission`)
		if got, err := p.Submit(t.Context(), whole, 5); err != nil || got.Outcome != paystore.OutcomeAcked {
			t.Errorf("the same token again: %+v, %v", got, err)
		}
		if _, err := p.Submit(t.Context(), split, 6); !fencedBy(err, paystore.ResourceRail, 6, 6) {
			t.Errorf("the control again: %v", err)
		}
	})
}

// The slot is the database's: a writer that looks at nothing writes no second attempt
// for a payout, and does where the index is gone.
//
// Clauses: K-5.3
// Mutation: drop rail_submission_attempt_uidx (the test does).
func TestSlotIsTheDatabases(t *testing.T) {
	t.Parallel()
	eachMajor(t, func(t *testing.T, b bundle) {
		p := b.proxy(t, rail.Options{})
		id := b.payout(t, account, 5)
		if _, err := p.Submit(t.Context(), id, 5); err != nil {
			t.Fatal(err)
		}
		const second = `INSERT INTO rail_submission (submission_id, payout_id, idempotency_key, presented_token) VALUES ($1, $2, $3, 5)`
		_, err := b.super.Exec(t.Context(), second, uuid.New(), id, "key-"+id)
		if !pgtx.HasCode(err, pgerrcode.UniqueViolation) {
			t.Errorf("a second attempt: %v", err)
		}
		b.exec(t, `DROP INDEX rail_submission_attempt_uidx`)
		b.exec(t, second, uuid.New(), id, "key-"+id)
		if lines := b.attempts(t, id); len(lines) != 2 {
			t.Errorf("without the index: %v, want two attempts", lines)
		}
		// A proxy does not work without it: ON CONFLICT needs the index.
		if _, err := p.Submit(t.Context(), b.payout(t, another, 6), 6); !pgtx.HasCode(err, pgerrcode.InvalidColumnReference) {
			t.Errorf("submit without the index: %v", err)
		}
		if b.rail.calls() != 1 {
			t.Errorf("the rail was called %d times", b.rail.calls())
		}
	})
}

// FENCED is written at birth only. An attempt that was turned into it would hold the
// slot no more, and the payout would be forwarded twice.
//
// Clauses: K-5.3
// Mutation: disable rail_submission_guard (the test does, and sees the rail called twice).
func TestFencedIsWrittenAtBirthOnly(t *testing.T) {
	t.Parallel()
	eachMajor(t, func(t *testing.T, b bundle) {
		p := b.proxy(t, rail.Options{})
		id := b.payout(t, account, 5, 6)
		if _, err := p.Submit(t.Context(), id, 5); err != nil {
			t.Fatal(err)
		}
		const reopen = `UPDATE rail_submission SET outcome = 'FENCED' WHERE payout_id = $1`
		if _, err := b.super.Exec(t.Context(), reopen, id); !pgtx.HasCode(err, pgerrcode.CheckViolation) {
			t.Errorf("reopened: %v", err)
		}
		b.exec(t, `ALTER TABLE rail_submission DISABLE TRIGGER rail_submission_guard`)
		b.exec(t, reopen, id)
		if _, err := p.Submit(t.Context(), id, 6); err != nil || b.rail.calls() != 2 {
			t.Errorf("with the slot reopened: %v, %d calls; want the double payment", err, b.rail.calls())
		}
	})
}

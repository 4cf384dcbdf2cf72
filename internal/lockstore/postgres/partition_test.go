package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/lockstore/postgres"
)

// width is the range of one partition of the journal, as migration 7 has it.
const width = 50_000_000

// aged gives a database a journal of three old partitions, a grant at the end of
// each, and the partition of the tokens that are issued now.
func aged(t *testing.T, b bundle) *postgres.Store {
	t.Helper()
	b.exec(t, fmt.Sprintf(`ALTER SEQUENCE fencing_token_seq RESTART %d`, 3*width+10))
	b.exec(t, `SELECT lock_grant_extend()`)
	for i := range 3 {
		b.exec(t, fmt.Sprintf(`
			CREATE TABLE IF NOT EXISTS lock_grant_%d PARTITION OF lock_grant FOR VALUES FROM (%d) TO (%d)`, i, i*width, (i+1)*width))
		b.exec(t, `
			INSERT INTO lock_grant (fencing_token, lock_key, owner_id, session_id, granted_at, ended_at, ended)
			VALUES ($1, 'old', 'alice', gen_random_uuid(), now() - interval '101 days', now() - interval '100 days', 'released')`, (i+1)*width-1)
	}
	return operatorStore(t, b)
}

func partitions(t *testing.T, b bundle) string {
	t.Helper()
	var names string
	err := b.super.QueryRow(t.Context(), `SELECT string_agg(inhrelid::regclass::text, ' ' ORDER BY inhrelid::regclass::text) FROM pg_inherits WHERE inhparent = 'lock_grant'::regclass`).Scan(&names)
	if err != nil {
		t.Fatal(err)
	}
	return names
}

func prune(olderThan time.Duration, below lockstore.Token) lockstore.JournalPruneParams {
	return lockstore.JournalPruneParams{OlderThan: olderThan, Below: below, Operator: "erin", Reason: "disk"}
}

const month = 30 * 24 * time.Hour

// Old partitions go, lowest first, up to the first that somebody may still need;
// each leaves a record, and the journal has no gap.
//
// Clauses: K-11
// Mutation: take any case out of keep.
func TestPruneJournal(t *testing.T) {
	t.Parallel()
	eachMajor(t, func(t *testing.T, b bundle) {
		operator := aged(t, b)
		before := partitions(t, b)
		plan := prune(month, 0)
		plan.DryRun = true
		planned, err := operator.PruneJournal(t.Context(), plan)
		if err != nil || len(planned.Dropped) != 3 || planned.Dropped[0].Grants != 1 || planned.Kept == nil || !strings.Contains(planned.Why, "still issued") {
			t.Fatalf("planned %+v, %v", planned, err)
		}
		if diff := cmp.Diff(before, partitions(t, b)); diff != "" {
			t.Errorf("a dry run changed the partitions:\n%s", diff)
		}
		for _, c := range []struct {
			params  lockstore.JournalPruneParams
			dropped int
			why     string
		}{
			{prune(200*24*time.Hour, 0), 0, "is younger than"},
			{prune(month, width/2), 0, "was claimed under token 25000000"},
			{prune(month, width-1), 0, "was claimed under token 49999999"},
			{prune(month, width), 1, "was claimed under token 50000000"},
		} {
			pruned, err := operator.PruneJournal(t.Context(), c.params)
			if err != nil || len(pruned.Dropped) != c.dropped || !strings.Contains(pruned.Why, c.why) {
				t.Errorf("%+v: pruned %+v, %v", c.params, pruned, err)
			}
		}
		// DEFAULT may hold what no partition took; then nothing above it goes.
		b.exec(t, `INSERT INTO lock_grant VALUES (5, 'k', 'bob', gen_random_uuid(), now() - interval '100 days', now() - interval '99 days', 'expired')`)
		if pruned, err := operator.PruneJournal(t.Context(), prune(month, 0)); err != nil || len(pruned.Dropped) != 0 || !strings.Contains(pruned.Why, "DEFAULT holds the older token 5") {
			t.Errorf("a row in DEFAULT: %+v, %v", pruned, err)
		}
		for _, sql := range []string{"DISABLE TRIGGER lock_grant_guard", "ENABLE ALWAYS TRIGGER lock_grant_guard"} {
			b.exec(t, `ALTER TABLE lock_grant_default `+sql)
			if strings.HasPrefix(sql, "DISABLE") {
				b.exec(t, `DELETE FROM lock_grant_default`)
			}
		}
		// A grant that has not ended keeps its partition, and those above it.
		b.exec(t, `INSERT INTO lock_grant (fencing_token, lock_key, owner_id, session_id, granted_at) VALUES ($1, 'k', 'bob', gen_random_uuid(), now() - interval '100 days')`, width+7)
		if pruned, err := operator.PruneJournal(t.Context(), prune(month, 0)); err != nil || len(pruned.Dropped) != 0 || pruned.Why != "1 of its grants have not ended" {
			t.Errorf("a grant stands: %+v, %v", pruned, err)
		}
		b.exec(t, `UPDATE lock_grant SET ended = 'expired', ended_at = now() - interval '99 days' WHERE fencing_token = $1`, width+7)
		pruned, err := operator.PruneJournal(t.Context(), prune(month, 0))
		if err != nil || len(pruned.Dropped) != 2 || pruned.Dropped[0].Grants != 2 || pruned.Dropped[0].From != width {
			t.Fatalf("pruned %+v, %v", pruned, err)
		}
		if got := partitions(t, b); strings.Contains(got, "lock_grant_0") || strings.Contains(got, "lock_grant_2") || !strings.Contains(got, "lock_grant_3") || !strings.Contains(got, "lock_grant_default") {
			t.Errorf("left: %s", got)
		}
		log, err := b.store.OperatorLog(t.Context(), lockstore.OperatorLogFilter{Action: lockstore.ActionPruneJournal})
		if err != nil || len(log) != 3 || log[0].Operator != "erin" || log[0].Reason != "disk" || !strings.Contains(string(log[0].Details), "lock_grant_2") {
			t.Errorf("the operator log: %+v, %v", log, err)
		}
		// Grants go on, and the audit still verifies.
		b.acquire(t, "k", "alice", b.session(t, "alice"), time.Hour)
		if report, err := b.store.VerifyAudit(t.Context()); err != nil || len(report.Findings) != 0 {
			t.Errorf("the audit: %+v, %v", report, err)
		}
	})
}

// Behind a reader it gives up within its lock timeout, and has done nothing;
// whoever may not become the owner is refused.
//
// Clauses: K-11, K-12.1
// Mutation: leave lock_timeout out of the transaction, or SET ROLE.
func TestPruneJournalBehindAReader(t *testing.T) {
	t.Parallel()
	b := setup(t, 16)
	aged(t, b)
	opts := operatorOptions(t, b)
	opts.LockTimeout = time.Second
	operator := open(t, opts)
	before := partitions(t, b)
	tx, err := b.super.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), `SELECT count(*) FROM lock_grant`); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 40*time.Second)
	defer cancel()
	pruned, err := operator.PruneJournal(ctx, prune(month, 0))
	if blocked, ok := errors.AsType[*lockstore.BlockedError](err); !ok || len(pruned.Dropped) != 0 {
		t.Errorf("behind a reader: %+v, %v, %v", pruned, blocked, err)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := b.store.PruneJournal(t.Context(), prune(month, 0)); err == nil || !strings.Contains(err.Error(), "42501") {
		t.Errorf("as the application: %v, want a missing right", err)
	}
	if diff := cmp.Diff(before, partitions(t, b)); diff != "" {
		t.Errorf("partitions:\n%s", diff)
	}
	for name, params := range map[string]lockstore.JournalPruneParams{
		"young": prune(time.Hour, 0), "no reason": {OlderThan: month, Operator: "erin"}, "no operator": {OlderThan: month, Reason: "disk"}, "a token below 1": prune(month, -1),
	} {
		if _, err := operator.PruneJournal(t.Context(), params); !errors.Is(err, lockstore.ErrInvalid) {
			t.Errorf("%s: %v, want ErrInvalid", name, err)
		}
	}
}

package doctor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/dlockctl/dlockctl/internal/instance"
)

// partition of the journal; of DEFAULT both ends are 0.
type partition struct {
	name     string
	from, to int64
}

func partitions(ctx context.Context, tx pgx.Tx) ([]partition, error) {
	var parts []partition
	var p partition
	err := eachRow(ctx, tx, partitionsQuery, nil, []any{&p.name, &p.from, &p.to}, func() error {
		parts = append(parts, p)
		return nil
	})
	return parts, err
}

// placed is a trigger as it stands.
type placed struct{ enabled, function string }

func placedTriggers(ctx context.Context, tx pgx.Tx) (map[string]placed, error) {
	stand := map[string]placed{}
	var table, name string
	var p placed
	err := eachRow(ctx, tx, triggersQuery, nil, []any{&table, &name, &p.enabled, &p.function}, func() error {
		stand[table+"."+name] = p
		return nil
	})
	return stand, err
}

func guards(ctx context.Context, _ *exam, s *side, tx pgx.Tx) (finding, error) {
	made, err := s.migrated()
	if err != nil {
		return finding{}, err
	}
	wanted := made.triggers
	if s.name == LockDB {
		if wanted, err = withPartitions(ctx, tx, wanted); err != nil {
			return finding{}, err
		}
	}
	stand, err := placedTriggers(ctx, tx)
	if err != nil {
		return finding{}, err
	}
	var saw, fix []string
	for _, t := range wanted {
		what, statements := t.judge(stand)
		if what != "" {
			saw = append(saw, t.name+" on "+t.table+" "+what)
			fix = append(fix, statements...)
		}
	}
	if len(saw) == 0 {
		return finding{OK, fmt.Sprintf("%d triggers", len(wanted)), nil}, nil
	}
	if err := tablesExist(ctx, tx, wanted); err != nil {
		return finding{}, err
	}
	return finding{Fail, strings.Join(saw, "; "), s.sql(instance.OwnerRole, fix...)}, nil
}

// tablesExist tells a database without schema from one without guards.
func tablesExist(ctx context.Context, tx pgx.Tx, wanted []trigger) error {
	for _, t := range wanted {
		if _, err := tx.Exec(ctx, `SELECT $1::text::regclass`, t.table); err != nil {
			return err
		}
	}
	return nil
}

// withPartitions adds the triggers of the journal's partitions. A row trigger is
// cloned to them, a TRUNCATE trigger is made with each.
func withPartitions(ctx context.Context, tx pgx.Tx, wanted []trigger) ([]trigger, error) {
	parts, err := partitions(ctx, tx)
	if err != nil {
		return nil, err
	}
	wanted = slices.Clone(wanted)
	for _, t := range slices.Clone(wanted) {
		if t.table != "lock_grant" {
			continue
		}
		for _, p := range parts {
			clone := t.on(p.name)
			clone.cloned = t.rows()
			if !slices.ContainsFunc(wanted, func(w trigger) bool { return w.table == clone.table && w.name == clone.name }) {
				wanted = append(wanted, clone)
			}
		}
	}
	return wanted, nil
}

// judge says what is wrong with the trigger, and what puts it right.
func (t trigger) judge(stand map[string]placed) (what string, fix []string) {
	at, there := stand[t.table+"."+t.name]
	switch {
	case !there && t.cloned:
		return "", nil // it comes with that of the parent, which is missing too
	case !there:
		return "is missing", t.again()
	case at.function != t.function:
		return "runs " + at.function + "()", t.again()
	case at.enabled != t.enabled:
		states := map[string]string{"A": "fires always", "O": "is not ENABLE " + strings.TrimSpace(t.how()), "R": "fires in replica mode only", "D": "is disabled"}
		return states[at.enabled], []string{t.enable()}
	}
	return "", nil
}

func functions(ctx context.Context, _ *exam, s *side, tx pgx.Tx) (finding, error) {
	made, err := s.migrated()
	if err != nil {
		return finding{}, err
	}
	names := make([]string, len(made.functions))
	for i, f := range made.functions {
		names[i] = f.name
	}
	type body struct{ settings, source string }
	stand := map[string]body{}
	var name string
	var b body
	err = eachRow(ctx, tx, functionsQuery, []any{names}, []any{&name, &b.settings, &b.source}, func() error {
		stand[name] = b
		return nil
	})
	if err != nil {
		return finding{}, err
	}
	if len(stand) == 0 {
		return finding{Unknown, "the schema has none of them", command(migrateUp)}, nil
	}
	var saw, fix []string
	for _, f := range made.functions {
		at, there := stand[f.name]
		switch {
		case !there:
			saw, fix = append(saw, f.name+"() is missing"), append(fix, f.again(s.schema)...)
		case unixLines(at.source) != unixLines(f.body):
			saw, fix = append(saw, f.name+"() has another body"), append(fix, f.again(s.schema)...)
		case !slices.Contains(strings.Split(at.settings, "\n"), "search_path=pg_catalog, "+s.schema+", pg_temp"):
			saw, fix = append(saw, f.name+"() has no fixed search_path"), append(fix, f.searchPath(s.schema))
		}
	}
	if len(saw) == 0 {
		return finding{OK, fmt.Sprintf("%d functions", len(made.functions)), nil}, nil
	}
	return finding{Fail, strings.Join(saw, "; "), s.sql(instance.OwnerRole, fix...)}, nil
}

// unixLines forgives a migration that was checked out with other line ends.
func unixLines(text string) string { return strings.ReplaceAll(text, "\r\n", "\n") }

// gate asks what the next grant or claim would be told.
func gate(ctx context.Context, _ *exam, s *side, tx pgx.Tx) (finding, error) {
	table := map[string]string{LockDB: "lock_gate", PayDB: "pay_gate"}[s.name]
	switch {
	case s.factsErr != nil:
		return finding{}, s.factsErr
	case s.facts.InRecovery:
		return finding{Unknown, "a standby has no timeline of its own", advice("see " + s.name + "_primary")}, nil
	}
	var id int64
	var timeline int32
	var by, reason, run *string
	// A paydb has no run_by, nor has a lockdb of before V11; either is looked at too.
	err := tx.QueryRow(ctx, "SELECT system_identifier, timeline_id, closed_by, closed_reason, to_jsonb(g) ->> 'run_by' FROM "+table+" g").
		Scan(&id, &timeline, &by, &reason, &run)
	var pgErr *pgconn.PgError
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return finding{Fail, "there is no gate, which is a closed one", command(restorePlan)}, nil
	case errors.As(err, &pgErr):
		return finding{}, err
	case err != nil:
		return finding{}, fmt.Errorf("read %s: %w", table, err)
	case id != s.facts.SystemIdentifier || timeline != s.facts.Timeline:
		return finding{Fail, fmt.Sprintf("it knows instance %d on timeline %d, and this is %d on %d", id, timeline, s.facts.SystemIdentifier, s.facts.Timeline), command(restorePlan)}, nil
	case run != nil:
		return finding{Fail, fmt.Sprintf("a fast-forward that %s began is under way or was cut off", *run), command("dlockctl restore fast-forward --reason TEXT")}, nil
	case by != nil:
		return finding{Fail, fmt.Sprintf("closed by %s: %s", *by, *reason), thaw(s, table)}, nil
	}
	return finding{OK, "open", nil}, nil
}

// thaw opens a gate that a person has closed. That of paydb has no verb.
func thaw(s *side, table string) *Fix {
	fix := command("dlockctl thaw --reason TEXT")
	if s.name == PayDB {
		fix = s.sql(instance.OwnerRole, "UPDATE "+table+" SET closed_by = NULL, closed_at = NULL, closed_reason = NULL")
	}
	fix.Advice = "only when the reason for closing is over"
	return fix
}

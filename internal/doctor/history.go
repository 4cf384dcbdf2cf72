package doctor

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/dlockctl/dlockctl/internal/flyway"
	"github.com/dlockctl/dlockctl/internal/lockstore/postgres"
)

// versions are those that this program works with.
func versions(database string, made schema) (lowest, highest int) {
	if database == LockDB {
		return postgres.MinSchema, postgres.MaxSchema
	}
	var rows []flyway.Row
	for _, m := range made.catalogue.Migrations() {
		rows = append(rows, flyway.Row{Version: m.Version, Success: true})
	}
	newest, _ := flyway.CurrentVersion(rows)
	return newest, newest
}

func schemaVersion(ctx context.Context, _ *exam, s *side, tx pgx.Tx) (finding, error) {
	made, err := s.migrated()
	if err != nil {
		return finding{}, err
	}
	rows, err := flyway.Applied(ctx, tx, "")
	if err != nil {
		return finding{}, err
	}
	lowest, highest := versions(s.name, made)
	have, _ := flyway.CurrentVersion(rows)
	switch {
	case len(rows) == 0:
		return finding{Fail, "nothing was migrated here", command(migrateUp)}, nil
	case have < lowest:
		return finding{Fail, fmt.Sprintf("version %d, and %d is needed", have, lowest), command(migrateUp)}, nil
	case have > highest:
		return finding{Fail, fmt.Sprintf("version %d, and this program knows them up to %d", have, highest), advice("use the dlockctl that this schema belongs to, or a newer one")}, nil
	}
	return finding{OK, fmt.Sprintf("version %d", have), nil}, nil
}

func history(ctx context.Context, _ *exam, s *side, tx pgx.Tx) (finding, error) {
	made, err := s.migrated()
	if err != nil {
		return finding{}, err
	}
	rows, err := flyway.Applied(ctx, tx, "")
	if err != nil {
		return finding{}, err
	}
	catalogue := made.catalogue
	if slices.ContainsFunc(rows, func(r flyway.Row) bool { return r.Version == "" }) {
		catalogue = made.seeded // repeatables are seeds, which are no schema (K-9.4)
	}
	_, findings, err := flyway.Compare(ctx, tx, catalogue, "")
	if err != nil {
		return finding{}, err
	}
	// What is still to come, or came from a newer program, is the schema's check.
	findings = slices.DeleteFunc(findings, func(f flyway.Finding) bool {
		return f.Severity != flyway.SeverityError || f.Kind == flyway.KindPending
	})
	if len(findings) == 0 {
		return finding{OK, fmt.Sprintf("%d migrations, as this program has them", len(rows)), nil}, nil
	}
	saw := make([]string, len(findings))
	for i, f := range findings {
		saw[i] = f.Message
	}
	return finding{Fail, strings.Join(saw, "; "), repair(s.name, findings[0])}, nil
}

func repair(database string, f flyway.Finding) *Fix {
	switch f.Kind {
	case flyway.KindFailed, flyway.KindEdited, flyway.KindRenamed, flyway.KindMissing:
		fix := command("dlockctl migrate repair --target " + database)
		fix.Advice = f.Hint
		return fix
	case flyway.KindOutdated:
		return command(migrateUp)
	default:
		return advice(f.Hint)
	}
}

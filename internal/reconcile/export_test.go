package reconcile

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// Guard is a guard of the schema, for the test that takes each away.
type Guard struct{ Kind, Table, Name, State string }

// WantedGuards are those that a database should have.
func WantedGuards(database string) []Guard {
	text := payGuards
	if database == lockDB {
		text = lockGuards
	}
	var all []Guard
	for _, g := range parseGuards(text) {
		all = append(all, Guard{g.kind, g.table, g.name, g.state})
	}
	return all
}

// GuardLines shows the guards that stand, as the files under guards do. Partitions but
// DEFAULT are left out: they come with the tokens.
func GuardLines(ctx context.Context, tx pgx.Tx) (string, error) {
	standing, err := readGuards(ctx, tx)
	if err != nil {
		return "", err
	}
	partitions, err := column(ctx, tx, partitionsQuery)
	if err != nil {
		return "", err
	}
	text := ""
	for _, key := range slices.Sorted(maps.Keys(standing)) {
		g := standing[key]
		if !slices.Contains(partitions, g.table) || g.table == defaultPartition {
			text += strings.Join([]string{g.kind, g.table, g.name, g.state, g.definition}, "\t") + "\n"
		}
	}
	return text, nil
}

// MissedGuards are the subjects of D05 in the transaction.
func MissedGuards(ctx context.Context, database string, tx pgx.Tx) ([]string, error) {
	var subjects []string
	found := &sink{put: func(r Row) error {
		subjects = append(subjects, r.Subject)
		return nil
	}}
	err := guardsOf(database)(ctx, reading{pay: tx, lock: tx}, found)
	return subjects, err
}

// FamilyQuery is one statement of a family.
type FamilyQuery struct {
	Name, Text string
	Lock       bool
}

// FamilyQueries are the statements of all families, and those that a run asks beside
// them, with their named arguments turned into numbered ones.
func FamilyQueries(ctx context.Context) ([]FamilyQuery, error) {
	var all []FamilyQuery
	add := func(name, text string, lock bool, more pgx.NamedArgs) error {
		text, _, err := reading{}.args(more).RewriteQuery(ctx, nil, text, nil)
		all = append(all, FamilyQuery{Name: name, Text: text, Lock: lock})
		return err
	}
	for _, f := range families(Options{}) {
		if f.check != nil {
			continue
		}
		text, err := f.text()
		if err == nil {
			err = add(f.name, text, f.reads == ReadsLock, f.args)
		}
		if err != nil {
			return nil, err
		}
	}
	for _, p := range populations {
		text, err := countFiles.ReadFile("queries/count_" + p.name + ".sql")
		if err == nil {
			err = add("count "+p.name, string(text), p.database == lockDB, nil)
		}
		if err != nil {
			return nil, err
		}
	}
	for name, text := range map[string]string{
		"state": stateQuery, "last token": lastTokenQuery, "pipeline": pipelineQuery, "objects": objectsQuery,
		"partitions": partitionsQuery, "replica logins": replicaLoginsQuery, "rights": rightsQuery, "scope currencies": scopeCurrenciesQuery,
	} {
		if err := add(name, text, name == "last token", pgx.NamedArgs{"tables": []string{}}); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// ClassesWithoutFamily are those of the catalogue that a run with everything given
// would not check.
func ClassesWithoutFamily() []string {
	has := []string{CoverageClass, historyMovedClass}
	for _, f := range families(Options{Previous: &Previous{}, Statement: &Statement{}}) {
		has = append(has, f.classes...)
	}
	var without []string
	for _, c := range Catalogue() {
		if !slices.Contains(has, c.ID) {
			without = append(without, c.ID)
		}
	}
	return without
}

// WriteInSnapshot tries to write where a run reads.
func WriteInSnapshot(ctx context.Context, config *pgx.ConnConfig, sql string) error {
	s, err := takeSnapshot(ctx, payDB, config, 1, time.Now().Add(time.Minute))
	if err != nil {
		return err
	}
	defer s.close(ctx)
	return s.with(ctx, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, sql)
		return err
	})
}

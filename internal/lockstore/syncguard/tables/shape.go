package tables

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/dlockctl/dlockctl/internal/pgtx"
)

//go:embed queries/*.sql
var files embed.FS

var (
	tableQuery   = pgtx.Statement(files, "table")
	columnsQuery = pgtx.Statement(files, "columns")
	indexesQuery = pgtx.Statement(files, "indexes")
	twinsQuery   = pgtx.Statement(files, "twins")
)

// Querier reads; a pgx connection, pool and transaction are each one.
type Querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// Found is what stands where the search_path leads.
type Found struct {
	// Schema holds the tables, "" when neither is there.
	Schema string
	// Differences are what keeps them from being SyncGuard's; none for a whole pair.
	Differences []Difference
}

// Absent tells that neither table is there.
func (f Found) Absent() bool { return f.Schema == "" && len(f.Differences) == 0 }

// Whole tells that both are there and are as the library makes them.
func (f Found) Whole() bool { return f.Schema != "" && len(f.Differences) == 0 }

// Kind tells what a difference is about.
type Kind string

// The kinds.
const (
	KindTable  Kind = "table"
	KindColumn Kind = "column"
	KindIndex  Kind = "index"
)

// Difference is one thing that is not as the library makes it.
type Difference struct {
	Kind  Kind   `json:"kind"`
	Table string `json:"table"`
	What  string `json:"what"`
	// Fix is the SQL that puts it right, "" when no statement can know how.
	Fix string `json:"fix,omitempty"`
}

func (d Difference) String() string { return d.Table + ": " + d.What }

// Look compares what the names lead to with SyncGuard's tables. Columns that the
// library's SQL file has and its setup function has not may be there or not.
func Look(ctx context.Context, q Querier, names Names) (Found, error) {
	var found Found
	lock, err := read(ctx, q, names.Lock)
	if err != nil {
		return found, err
	}
	fence, err := read(ctx, q, names.Fence)
	if err != nil {
		return found, err
	}
	found.Schema = lock.schema
	if !lock.there() {
		found.Schema = fence.schema
	}
	folded, err := foldedTwin(ctx, q, names.Lock, names.Fence)
	switch {
	case err != nil:
		return found, err
	case !lock.there() && !fence.there() && folded == "":
		return Found{}, nil
	case folded != "" && !(lock.there() && fence.there()):
		found.add(KindTable, folded, "", "stands under a name in lower-case letters, as SyncGuard's own setup makes it, and no operation of it finds it: give its name as %q", folded)
		return found, nil
	case lock.there() && fence.there() && lock.schema != fence.schema:
		found.add(KindTable, names.Fence, fmt.Sprintf("ALTER TABLE %s SET SCHEMA %s", qualified(fence.schema, names.Fence), quote(lock.schema)),
			"stands in schema %s, and %s in %s", fence.schema, names.Lock, lock.schema)
	}
	found.Differences = slices.Concat(found.Differences, lock.differences(lockShape(names)), fence.differences(fenceShape()))
	return found, nil
}

func (f *Found) add(kind Kind, table, fix, format string, args ...any) {
	f.Differences = append(f.Differences, Difference{Kind: kind, Table: table, What: fmt.Sprintf(format, args...), Fix: fix})
}

func qualified(schema, table string) string { return pgx.Identifier{schema, table}.Sanitize() }

// stands is a table as it is.
type stands struct {
	name, schema, kind, persistence string
	columns                         []column
	indexes                         []index
}

func (s stands) there() bool { return s.schema != "" }

type column struct {
	name, kind           string
	notNull, generated   bool
	expression           string // of the default, or of what is generated
	mayMiss, defaultZero bool   // of a column as it should be
}

type index struct {
	name, column           string
	unique, primary, valid bool
}

func read(ctx context.Context, q Querier, name string) (stands, error) {
	s := stands{name: name}
	doing := func(err error) error { return fmt.Errorf("look at table %s: %w", name, err) }
	err := q.QueryRow(ctx, tableQuery, quote(name)).Scan(&s.schema, &s.kind, &s.persistence)
	if errors.Is(err, pgx.ErrNoRows) {
		return s, nil
	}
	if err != nil {
		return s, doing(err)
	}
	rows, err := q.Query(ctx, columnsQuery, quote(name))
	if err != nil {
		return s, doing(err)
	}
	var c column
	_, err = pgx.ForEachRow(rows, []any{&c.name, &c.kind, &c.notNull, &c.generated, &c.expression}, func() error {
		s.columns = append(s.columns, c)
		return nil
	})
	if err != nil {
		return s, doing(err)
	}
	if rows, err = q.Query(ctx, indexesQuery, quote(name)); err != nil {
		return s, doing(err)
	}
	var i index
	_, err = pgx.ForEachRow(rows, []any{&i.name, &i.column, &i.unique, &i.primary, &i.valid}, func() error {
		s.indexes = append(s.indexes, i)
		return nil
	})
	if err != nil {
		return s, doing(err)
	}
	return s, nil
}

// foldedTwin is the first of the names that is missing while its lower-case form
// is there.
func foldedTwin(ctx context.Context, q Querier, names ...string) (string, error) {
	for _, name := range names {
		folded := strings.ToLower(name)
		if folded == name {
			continue
		}
		exact, err := read(ctx, q, name)
		if err != nil || exact.there() {
			return "", err
		}
		twin, err := read(ctx, q, folded)
		if err != nil {
			return "", err
		}
		if twin.there() {
			return folded, nil
		}
	}
	return "", nil
}

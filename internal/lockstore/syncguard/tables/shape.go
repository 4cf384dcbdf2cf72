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
	tableQuery      = pgtx.Statement(files, "table")
	columnsQuery    = pgtx.Statement(files, "columns")
	indexesQuery    = pgtx.Statement(files, "indexes")
	hindrancesQuery = pgtx.Statement(files, "hindrances")
	twinsQuery      = pgtx.Statement(files, "twins")
	othersQuery     = pgtx.Statement(files, "others")
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
	lock, err := read(ctx, q, names.Lock, lockShape(names))
	if err != nil {
		return found, err
	}
	fence, err := read(ctx, q, names.Fence, fenceShape())
	if err != nil {
		return found, err
	}
	found.Schema = lock.schema
	if !lock.there() {
		found.Schema = fence.schema
	}
	folded, err := foldedTwins(ctx, q, lock, fence)
	switch {
	case err != nil:
		return found, err
	case !lock.there() && !fence.there() && len(folded) == 0:
		return Found{}, nil
	case len(folded) > 0:
		for _, name := range folded {
			found.add(KindTable, name, "", "stands under a name in lower-case letters, as SyncGuard's own setup makes it, and no operation of it finds it: give its name as %q", name)
		}
		return found, nil
	case lock.there() && fence.there() && lock.schema != fence.schema:
		found.add(KindTable, names.Fence, fmt.Sprintf("ALTER TABLE %s SET SCHEMA %s", qualified(fence.schema, names.Fence), quote(lock.schema)),
			"stands in schema %s, and %s in %s", fence.schema, names.Lock, lock.schema)
	}
	found.Differences = slices.Concat(found.Differences, lock.differences(lockShape(names)), fence.differences(fenceShape()))
	return found, nil
}

// Where is the schema in which the search_path finds a table of this name, "" for none.
func Where(ctx context.Context, q Querier, name string) (string, error) {
	s, err := find(ctx, q, name)
	return s.schema, err
}

func (f *Found) add(kind Kind, table, fix, format string, args ...any) {
	f.Differences = append(f.Differences, Difference{Kind: kind, Table: table, What: fmt.Sprintf(format, args...), Fix: fix})
}

func qualified(schema, table string) string { return pgx.Identifier{schema, table}.Sanitize() }

// stands is a table as it is.
type stands struct {
	name, schema, kind, persistence string
	// related tells that it inherits, is inherited from, or is a partition.
	related bool
	// primary is the name of its primary key, as SQL has it.
	primary    string
	columns    []column
	indexes    []index
	hindrances []hindrance
}

func (s stands) there() bool { return s.schema != "" }

type column struct {
	name, kind           string
	notNull, generated   bool
	expression           string // of the default, or of what is generated
	collation            string // by which different texts can be equal, "" mostly
	mayMiss, defaultZero bool   // of a column as it should be
}

type index struct {
	name, column                      string
	unique, primary, valid, immediate bool
}

// hindrance is what can refuse what the library writes.
type hindrance struct {
	kind      Kind
	what, fix string
}

// find looks where the name leads.
func find(ctx context.Context, q Querier, name string) (stands, error) {
	s := stands{name: name}
	err := q.QueryRow(ctx, tableQuery, quote(name)).Scan(&s.schema, &s.kind, &s.persistence, &s.related, &s.primary)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return s, fmt.Errorf("look at table %s: %w", name, err)
	}
	return s, nil
}

// read looks at everything of the table that is to be of this shape.
func read(ctx context.Context, q Querier, name string, want shape) (stands, error) {
	s, err := find(ctx, q, name)
	if err != nil || !s.there() {
		return s, err
	}
	each := func(query string, into []any, keep func(), args ...any) error {
		rows, err := q.Query(ctx, query, append([]any{quote(name)}, args...)...)
		if err == nil {
			_, err = pgx.ForEachRow(rows, into, func() error { keep(); return nil })
		}
		return err //nolint:wrapcheck // said below
	}
	var c column
	var i index
	var h hindrance
	err = each(columnsQuery, []any{&c.name, &c.kind, &c.notNull, &c.generated, &c.expression, &c.collation}, func() { s.columns = append(s.columns, c) })
	if err == nil {
		err = each(indexesQuery, []any{&i.name, &i.column, &i.unique, &i.primary, &i.valid, &i.immediate}, func() { s.indexes = append(s.indexes, i) })
	}
	if err == nil {
		err = each(hindrancesQuery, []any{&h.kind, &h.what, &h.fix}, func() { s.hindrances = append(s.hindrances, h) }, want.alone())
	}
	if err != nil {
		return s, fmt.Errorf("look at table %s: %w", name, err)
	}
	return s, nil
}

// foldedTwins are those of the tables that are missing while their lower-case form is
// there.
func foldedTwins(ctx context.Context, q Querier, tables ...stands) ([]string, error) {
	var folded []string
	for _, s := range tables {
		name := strings.ToLower(s.name)
		if s.there() || name == s.name {
			continue
		}
		in, err := Where(ctx, q, name)
		if err != nil {
			return nil, err
		}
		if in != "" {
			folded = append(folded, name)
		}
	}
	return folded, nil
}

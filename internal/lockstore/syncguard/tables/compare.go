package tables

import (
	"fmt"
	"slices"
	"strings"
)

// shape is a table as the library makes it.
type shape struct {
	columns []column
	key     string
	indexes []wanted
}

// wanted is an index that the library makes.
type wanted struct {
	name, column, why string
	unique            bool
}

// alone are the columns that are unique by themselves.
func (s shape) alone() []string {
	unique := []string{s.key}
	for _, i := range s.indexes {
		if i.unique {
			unique = append(unique, i.column)
		}
	}
	return unique
}

func lockShape(names Names) shape {
	return shape{
		columns: []column{
			{name: "key", kind: "text", notNull: true},
			{name: "lock_id", kind: "text", notNull: true},
			{name: "expires_at_ms", kind: "bigint", notNull: true},
			{name: "acquired_at_ms", kind: "bigint", notNull: true},
			{name: "fence", kind: "text", notNull: true},
			{name: "user_key", kind: "text", notNull: true},
			{name: "expires_at_ts", kind: "timestamp with time zone", generated: true, mayMiss: true},
			{name: "acquired_at_ts", kind: "timestamp with time zone", generated: true, mayMiss: true},
		},
		key: "key",
		indexes: []wanted{
			{names.index(suffixID), "lock_id", "two locks could have one id, and each look by it reads the whole table", true},
			{names.index(suffixExpires), "expires_at_ms", "each look for what has lapsed reads the whole table", false},
		},
	}
}

func fenceShape() shape {
	return shape{
		columns: []column{
			{name: "fence_key", kind: "text", notNull: true},
			{name: "fence", kind: "bigint", notNull: true, defaultZero: true},
			{name: "key_debug", kind: "text"},
		},
		key: "fence_key",
	}
}

// differences are what is not as the shape has it.
func (s stands) differences(want shape) []Difference {
	found := Found{}
	table := qualified(s.schema, s.name)
	switch {
	case !s.there():
		found.add(KindTable, s.name, "", "is missing, and the other of the two is there")
		return found.Differences
	case s.kind != "r":
		found.add(KindTable, s.name, "", "is no ordinary table")
		return found.Differences
	case s.related:
		found.add(KindTable, s.name, "", "is a partition, inherits or is inherited from: a key is unique in each table alone")
		return found.Differences
	case s.persistence != "p":
		found.add(KindTable, s.name, "ALTER TABLE "+table+" SET LOGGED", "is unlogged or temporary: a crash empties it, and fences begin at 1 again")
	}
	for _, c := range want.columns {
		at := slices.IndexFunc(s.columns, func(have column) bool { return have.name == c.name })
		switch {
		case at >= 0:
			s.compareColumn(&found, table, s.columns[at], c)
		case !c.mayMiss:
			fix := ""
			if !c.notNull {
				fix = fmt.Sprintf("ALTER TABLE %s ADD COLUMN %s %s", table, c.name, strings.ToUpper(c.kind))
			}
			found.add(KindColumn, s.name, fix, "column %s %s is missing", c.name, c.kind)
		}
	}
	for _, have := range s.columns {
		if !slices.ContainsFunc(want.columns, func(c column) bool { return c.name == have.name }) {
			found.add(KindColumn, s.name, "", "column %s %s is none of SyncGuard's", have.name, have.kind)
		}
	}
	s.compareKey(&found, table, want.key)
	for _, i := range want.indexes {
		s.compareIndex(&found, table, i)
	}
	for _, h := range s.hindrances {
		found.add(h.kind, s.name, h.fix, "%s is none of SyncGuard's, and can refuse what it writes", h.what)
	}
	return found.Differences
}

// compareKey wants a primary key that the library's ON CONFLICT can use.
func (s stands) compareKey(found *Found, table, key string) {
	fix := fmt.Sprintf("ADD PRIMARY KEY (%s)", key)
	if s.primary != "" {
		fix = fmt.Sprintf("DROP CONSTRAINT %s, %s", s.primary, fix)
	}
	fix = fmt.Sprintf("ALTER TABLE %s %s", table, fix)
	at := slices.IndexFunc(s.indexes, func(i index) bool { return i.primary && i.column == key })
	switch {
	case at < 0:
		found.add(KindIndex, s.name, fix, "%s is not the primary key: one key could have two rows", key)
	case !s.indexes[at].immediate:
		found.add(KindIndex, s.name, fix, "the primary key over %s is DEFERRABLE: ON CONFLICT cannot use it, and nobody acquires", key)
	}
}

func (s stands) compareColumn(found *Found, table string, have, want column) {
	alter := fmt.Sprintf("ALTER TABLE %s ALTER COLUMN %s ", table, want.name)
	switch {
	case have.kind != want.kind:
		found.add(KindColumn, s.name, "", "column %s is %s, and should be %s", want.name, have.kind, want.kind)
	case have.generated != want.generated:
		found.add(KindColumn, s.name, "", "column %s is generated: %v, and should be: %v", want.name, have.generated, want.generated)
	case have.notNull != want.notNull && want.notNull:
		found.add(KindColumn, s.name, alter+"SET NOT NULL", "column %s may be NULL", want.name)
	case have.notNull != want.notNull && !want.generated:
		found.add(KindColumn, s.name, alter+"DROP NOT NULL", "column %s is NOT NULL, and should not be", want.name)
	}
	if have.collation != "" && want.kind == have.kind {
		found.add(KindColumn, s.name, alter+"TYPE TEXT COLLATE \"default\"", "column %s has the collation %s, by which two keys can be equal", want.name, have.collation)
	}
	if want.defaultZero && !have.generated && have.expression != "0" && have.expression != "'0'::bigint" {
		found.add(KindColumn, s.name, alter+"SET DEFAULT 0", "column %s has not the default 0", want.name)
	}
}

func (s stands) compareIndex(found *Found, table string, want wanted) {
	at := slices.IndexFunc(s.indexes, func(i index) bool { return i.column == want.column && (i.unique || !want.unique) })
	switch {
	case at >= 0 && s.indexes[at].valid:
	case at >= 0:
		found.add(KindIndex, s.name, "REINDEX INDEX "+s.indexes[at].name, "index %s over %s is not valid: %s", s.indexes[at].name, want.column, want.why)
	default:
		// Without a name where the library's would be cut: the server makes one.
		kind, name := "INDEX", quote(want.name)
		if want.unique {
			kind = "UNIQUE INDEX"
		}
		if len(s.name) > longest {
			name = ""
		}
		fix := strings.Join(strings.Fields(fmt.Sprintf("CREATE %s %s ON %s (%s)", kind, name, table, want.column)), " ")
		found.add(KindIndex, s.name, fix, "the %s over %s is missing: %s", strings.ToLower(kind), want.column, want.why)
	}
}

package syncguard

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/dlockctl/dlockctl/internal/lockstore"
)

// The tables' names, as the library's defaults and this program's own are; the
// statements are written with them.
const (
	DefaultLockTable  = "syncguard_locks"
	DefaultFenceTable = "syncguard_fence_counters"
	DefaultAuditTable = "dlockctl_syncguard_audit"
)

// maxName is where PostgreSQL cuts a name off, without an error.
const maxName = 63

// tableName is what the library accepts: no qualifier, so that another schema is
// reached by search_path alone.
var tableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// Names are the tables of one deployment.
type Names struct{ Schema, Lock, Fence, Audit string }

// NamesOf fills in the defaults and refuses, wrapping ErrInvalid, what the library
// would refuse or PostgreSQL would cut off.
func NamesOf(opts Options) (Names, error) {
	n := Names{opts.Schema, opts.LockTable, opts.FenceTable, opts.AuditTable}
	var errs []error
	for _, table := range []struct {
		what, fallback string
		name           *string
	}{
		{"lock table", DefaultLockTable, &n.Lock}, {"fence table", DefaultFenceTable, &n.Fence}, {"audit table", DefaultAuditTable, &n.Audit},
	} {
		if *table.name == "" {
			*table.name = table.fallback
		}
		errs = append(errs, validTable(table.what, *table.name))
	}
	if n.Schema != "" {
		errs = append(errs, lockstore.LookupText("schema", n.Schema))
	}
	if len(n.Schema) > maxName {
		errs = append(errs, fmt.Errorf("%w: schema %q is longer than the %d bytes that PostgreSQL keeps of a name", lockstore.ErrInvalid, n.Schema, maxName))
	}
	if n.Lock == n.Fence || n.Lock == n.Audit || n.Fence == n.Audit {
		errs = append(errs, fmt.Errorf("%w: the tables %q, %q and %q need three names", lockstore.ErrInvalid, n.Lock, n.Fence, n.Audit))
	}
	return n, errors.Join(errs...)
}

func validTable(what, name string) error {
	switch {
	case len(name) > maxName:
		return fmt.Errorf("%w: %s %q is longer than the %d bytes that PostgreSQL keeps of a name; give those", lockstore.ErrInvalid, what, name, maxName)
	case !tableName.MatchString(name):
		return fmt.Errorf("%w: %s %q is not a name that SyncGuard takes; give letters, digits and _, no digit first", lockstore.ErrInvalid, what, name)
	}
	return nil
}

// Quoted is the table's name for a statement: the library quotes too, so that
// upper case counts.
func (n Names) Quoted(table string) string {
	if n.Schema == "" {
		return pgx.Identifier{table}.Sanitize()
	}
	return pgx.Identifier{n.Schema, table}.Sanitize()
}

// defaults are the names that statements and DDL are written with, and the lock
// table's two indexes, which are named after it.
var defaults = regexp.MustCompile(`\b(?:` + DefaultLockTable + `|` + DefaultFenceTable + `|` + DefaultAuditTable + `|idx_` + DefaultLockTable + `_(lock_id|expires))\b`)

// In writes a statement or DDL that names the tables by their defaults with these
// names.
func (n Names) In(sql string) string {
	return defaults.ReplaceAllStringFunc(sql, func(name string) string {
		switch name {
		case DefaultLockTable:
			return n.Quoted(n.Lock)
		case DefaultFenceTable:
			return n.Quoted(n.Fence)
		case DefaultAuditTable:
			return n.Quoted(n.Audit)
		}
		// An index stands in its table's schema, and is made without one.
		return pgx.Identifier{strings.Replace(name, DefaultLockTable, n.Lock, 1)}.Sanitize()
	})
}

package counters

import (
	"context"
	"embed"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/dlockctl/dlockctl/internal/instance"
	"github.com/dlockctl/dlockctl/internal/instance/owner"
	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/lockstore/syncguard"
	"github.com/dlockctl/dlockctl/internal/pgtx"
)

//go:embed queries/*.sql
var files embed.FS

var (
	stateQuery   = query("state")
	auditedQuery = query("audited")
	tableQuery   = pgtx.Statement(files, "table")
	lockQuery    = pgtx.Statement(files, "lock_counters")
	raiseQuery   = pgtx.Statement(files, "raise", "fence_keys", "fences", "keys")
	recordQuery  = pgtx.Statement(files, "record", "operator", "reason", "actions", "keys", "fences", "details")
)

// query reads queries/<name>.sql as it stands: with a colon that names no parameter.
// A file that is missing is a mistake of this package, found as soon as it is loaded.
func query(name string) string {
	text, err := files.ReadFile("queries/" + name + ".sql")
	if err != nil {
		panic(err)
	}
	return strings.TrimSuffix(strings.TrimSpace(string(text)), ";")
}

// migrateAudit is how to get a table to record in.
const migrateAudit = "dlockctl migrate up --target syncguard --audit"

// StoreOptions say where the counters are.
type StoreOptions struct {
	// Config is where the database with SyncGuard's tables is.
	Config *pgx.ConnConfig
	Names  syncguard.Names
	// LockTimeout bounds the wait for acquires under way; it defaults to owner's.
	LockTimeout time.Duration
	// After may be nil; see owner.Hook.
	After owner.Hook
}

// Store is a database with SyncGuard's tables.
type Store struct {
	conn  *owner.Conn
	names syncguard.Names
}

// Open connects. It returns *owner.UnreachableError, lockstore.ErrNotPrimary,
// *instance.VersionError, or *lockstore.UnsafeError where a table is missing or not as
// SyncGuard makes it.
func Open(ctx context.Context, opts StoreOptions) (*Store, error) {
	conn, err := owner.Open(ctx, owner.Options{
		// Nobody is terminated: that would end the library's whole process.
		Config: opts.Config, Database: "SyncGuard's database", LockTimeout: opts.LockTimeout, AsLogin: true, After: opts.After,
	})
	if err != nil {
		return nil, err
	}
	s := &Store{conn: conn, names: opts.Names}
	facts, err := instance.Read(ctx, conn.Reader())
	if err == nil {
		err = facts.CheckVersion()
	}
	if err == nil && facts.InRecovery {
		err = fmt.Errorf("open SyncGuard's database: %w", lockstore.ErrNotPrimary)
	}
	if err == nil {
		err = syncguard.CheckTables(ctx, conn.Reader(), opts.Names)
	}
	if err == nil { // a counter that is hidden from this login would be raised by nobody
		err = syncguard.CheckActs(ctx, conn.Reader(), opts.Names)
	}
	if err != nil {
		s.Close(ctx)
		return nil, err
	}
	return s, nil
}

// fresh is the same through new connections.
func (s *Store) fresh(ctx context.Context) (*Store, error) {
	conn, err := s.conn.Fresh(ctx)
	if err != nil {
		return nil, err
	}
	return &Store{conn, s.names}, nil
}

// Close closes the connections.
func (s *Store) Close(ctx context.Context) { s.conn.Close(ctx) }

// sight is everything that a decision rests on.
type sight struct {
	identity lockstore.Identity
	rows     []row
	audited  map[string]audited
	// audit tells that there is a table to record in.
	audit bool
}

// look reads all of one snapshot, or, in a transaction that holds the counters, what
// can no longer change.
func (s *Store) look(ctx context.Context, tx pgx.Tx) (sight, error) {
	facts, err := instance.Read(ctx, tx)
	if err != nil {
		return sight{}, err
	}
	seen := sight{identity: lockstore.Identity{SystemIdentifier: facts.SystemIdentifier, Timeline: facts.Timeline}, audited: map[string]audited{}}
	if err := tx.QueryRow(ctx, tableQuery, s.names.Quoted(s.names.Audit)).Scan(&seen.audit); err != nil {
		return sight{}, fmt.Errorf("look for the audit: %w", err)
	}
	rows, err := tx.Query(ctx, s.names.In(stateQuery))
	if err != nil {
		return sight{}, fmt.Errorf("read the counters: %w", err)
	}
	seen.rows, err = pgx.CollectRows(rows, func(r pgx.CollectableRow) (row, error) {
		var one row
		err := r.Scan(&one.fenceKey, &one.counter, &one.lockFence, &one.held)
		return one, err //nolint:wrapcheck // said below
	})
	if err != nil {
		return sight{}, fmt.Errorf("read the counters: %w", err)
	}
	if !seen.audit {
		return seen, nil
	}
	if rows, err = tx.Query(ctx, s.names.In(auditedQuery)); err != nil {
		return sight{}, fmt.Errorf("read the audit: %w", err)
	}
	var key string
	var a audited
	_, err = pgx.ForEachRow(rows, []any{&key, &a.revoked, &a.raised, &a.observed, &a.on.SystemIdentifier, &a.on.Timeline}, func() error {
		seen.audited[key] = a
		return nil
	})
	if err != nil {
		return sight{}, fmt.Errorf("read the audit: %w", err)
	}
	return seen, nil
}

// assess looks at every key that anybody knows: of the tables, the audit and the
// operator.
func (seen sight) assess(opts Options) []Key {
	known := make(map[string]bool, len(seen.rows))
	keys := make([]Key, 0, len(seen.rows))
	for _, r := range seen.rows {
		known[r.fenceKey] = true
		keys = append(keys, assess(r, seen.audited[r.fenceKey], seen.identity, opts))
	}
	lost := map[string]bool{}
	for key, a := range seen.audited {
		// Of a row that SyncGuard did not write, a revoke is no word of a counter.
		_, ours := syncguard.LockOfCounter(key)
		lost[key] = !known[key] && ours && a.known()
	}
	for key := range opts.Observed {
		lost[key] = lost[key] || !known[key]
	}
	for _, key := range slices.Sorted(maps.Keys(lost)) {
		if lost[key] {
			keys = append(keys, assess(row{fenceKey: key}, seen.audited[key], seen.identity, opts))
		}
	}
	return keys
}

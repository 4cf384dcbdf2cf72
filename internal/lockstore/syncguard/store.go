package syncguard

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/pgtx"
)

// Tolerance is how long past its end a lease still counts as held, in every
// operation, by SyncGuard's library and by this one.
const Tolerance = time.Second

// Options configure Open.
type Options struct {
	// Config is where the database with SyncGuard's tables is. Required.
	Config *pgx.ConnConfig
	// Schema holds the tables; "" leaves that to the search_path, as the library
	// does.
	Schema string
	// LockTable, FenceTable and AuditTable default to DefaultLockTable and so on.
	LockTable, FenceTable, AuditTable string
	// FenceWarning, when set, is told of each grant whose fence has passed the
	// warning limit: the key, as the library's telemetry hashes it, and the fence.
	FenceWarning func(keyHash string, token lockstore.Token)
	// LockTimeout bounds how long a change waits behind another transaction before
	// it answers BLOCKED (K-2.11); it defaults to pgtx.DefaultLockTimeout.
	LockTimeout time.Duration
	// MaxConns defaults to pgxpool's.
	MaxConns int32
}

// Store is a lockstore.Store on SyncGuard's tables.
type Store struct {
	pool         *pgxpool.Pool
	names        Names
	sql          statements
	lockTimeout  string
	fenceWarning func(keyHash string, token lockstore.Token)
}

var _ lockstore.Store = (*Store)(nil)

// Capabilities declares what this backend is; the package comment says why.
func (s *Store) Capabilities() lockstore.Capabilities {
	return lockstore.Capabilities{Backend: backend, OwnTTL: true, Ownerless: true, LockIDs: true, Tolerance: Tolerance, PruneAfter: pruneAfter}
}

// Open connects and looks whether the tables are SyncGuard's. It returns
// *lockstore.UnreachableError, lockstore.ErrNotPrimary, an error that wraps
// ErrInvalid for a name that SyncGuard would not take, or *lockstore.UnsafeError
// for tables that are not there or not as SyncGuard makes them.
func Open(ctx context.Context, opts Options) (*Store, error) {
	names, err := NamesOf(opts)
	if err != nil {
		return nil, err
	}
	config, err := pgxpool.ParseConfig(opts.Config.ConnString())
	if err != nil {
		return nil, fmt.Errorf("prepare the connections to SyncGuard's database: %w", err)
	}
	if opts.LockTimeout <= 0 {
		opts.LockTimeout = pgtx.DefaultLockTimeout
	}
	s := &Store{names: names, sql: statementsFor(names), lockTimeout: pgtx.Milliseconds(opts.LockTimeout), fenceWarning: opts.FenceWarning}
	if s.fenceWarning == nil {
		s.fenceWarning = func(string, lockstore.Token) {}
	}
	config.ConnConfig = pgtx.Config(opts.Config)
	if opts.MaxConns > 0 {
		config.MaxConns = opts.MaxConns
	}
	if s.pool, err = pgxpool.NewWithConfig(ctx, config); err != nil {
		return nil, &lockstore.UnreachableError{Doing: "open SyncGuard's database", Err: err}
	}
	for _, check := range []func(context.Context) error{s.check, s.checkActs} {
		if err := check(ctx); err != nil {
			s.Close()
			return nil, err
		}
	}
	return s, nil
}

// Close closes the connections, and waits for those in use.
func (s *Store) Close() { s.pool.Close() }

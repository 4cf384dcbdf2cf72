package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/pgtx"
)

// DefaultLockTimeout bounds how long a try waits behind another transaction
// before it answers BLOCKED (K-2.11).
const DefaultLockTimeout = pgtx.DefaultLockTimeout

// Purpose says what a store is opened for, and so which preconditions must hold.
type Purpose int

// The purposes. Each includes the preconditions of those before it.
const (
	// Reading needs a primary of a known schema version (K-6.3).
	Reading Purpose = iota
	// Changing needs two separate instances as well (K-6.1): release, revoke,
	// end and reap go on while grants are closed.
	Changing
	// Granting needs every guard of the token order and an open gate as well
	// (K-1.1, K-1.5, K-7.4).
	Granting
)

// Options configure Open.
type Options struct {
	// Config is where lockdb is. Required.
	Config *pgx.ConnConfig
	// PeerConfig is where paydb is, when that is known; otherwise the identity
	// that `migrate up` recorded in lockdb is compared (K-6.1).
	PeerConfig *pgx.ConnConfig
	// AllowSameInstance lets locks and money stand on one instance, on a laptop.
	AllowSameInstance bool
	// Environment is what lockdb must be marked as, when it is marked.
	Environment string
	// MarkDir is the folder of the outside mark (K-7.6), "" for none. All who
	// grant on one lockdb name the same folder.
	MarkDir string
	// PayHighest returns the highest token that paydb holds, nil where there is no
	// paydb or it is not known. It is called once, before the first grant; an error
	// refuses to grant, so who is to grant without a paydb that is down returns 0.
	PayHighest func(context.Context) (lockstore.Token, error)
	// Purpose defaults to Reading.
	Purpose Purpose
	// LockTimeout defaults to DefaultLockTimeout.
	LockTimeout time.Duration
	// MaxConns defaults to pgxpool's.
	MaxConns int32

	pooled   bool          // a test's: as if a pooler stood between
	settling time.Duration // a test's: longer than settling
}

// Store is a lockstore.Store on lockdb.
type Store struct {
	pool        *pgxpool.Pool
	lockTimeout string
	detector    detector
}

var _ lockstore.Store = (*Store)(nil)

// Capabilities declares what this backend is: the reference of the others.
func (s *Store) Capabilities() lockstore.Capabilities {
	return lockstore.Capabilities{Backend: "postgres", Sessions: true, GlobalTokens: true, OwnTTL: true, Batches: true, Journal: true}
}

// Open connects to lockdb and checks what the purpose requires. It returns
// *lockstore.UnreachableError, lockstore.ErrNotPrimary, ErrSameInstance,
// *UnsafeError, *GrantsClosedError, *SchemaError or *instance.EnvironmentError.
func Open(ctx context.Context, opts Options) (*Store, error) {
	config, err := pgxpool.ParseConfig(opts.Config.ConnString())
	if err != nil {
		return nil, fmt.Errorf("prepare the connections to lockdb: %w", err)
	}
	if opts.LockTimeout <= 0 {
		opts.LockTimeout = DefaultLockTimeout
	}
	s := &Store{lockTimeout: pgtx.Milliseconds(opts.LockTimeout), detector: newDetector(opts)}
	config.ConnConfig = pgtx.Config(opts.Config)
	config.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
		return pgtx.Settle(ctx, conn, s.lockTimeout, opts.pooled)
	}
	if opts.MaxConns > 0 {
		config.MaxConns = opts.MaxConns
	}
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, &lockstore.UnreachableError{Doing: "open lockdb", Err: err}
	}
	s.pool = pool
	if err := s.check(ctx, opts); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// Close closes the connections, and waits for those in use; then it writes what
// was shown to the outside mark.
func (s *Store) Close() {
	s.pool.Close()
	s.detector.close()
}

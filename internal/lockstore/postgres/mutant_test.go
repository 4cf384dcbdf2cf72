package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/lockstore/postgres"
	"github.com/dlockctl/dlockctl/internal/pgtest"
)

// mutant is a store with statements that lack something; an empty one is the
// store's own.
type mutant struct {
	*postgres.Store
	db                              querier
	acquire, renew, release, revoke string
}

// querier is a pool, or one transaction.
type querier interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
}

// less is the store's statement with one part of it left out.
func less(t *testing.T, query, part string) string {
	t.Helper()
	text := postgres.Queries()[query]
	if strings.Count(text, part) != 1 {
		t.Fatalf("the statement %s has %q %d times, want once", query, part, strings.Count(text, part))
	}
	return strings.Replace(text, part, "", 1)
}

func (m *mutant) Acquire(ctx context.Context, p lockstore.AcquireParams) (lockstore.Grant, error) {
	if m.acquire == "" {
		return m.Store.Acquire(ctx, p)
	}
	grant := lockstore.Grant{Key: p.Key, Session: p.Session, TTL: p.TTL, Sent: time.Now()}
	var session pgtype.UUID
	var acquired, expires time.Time
	err := m.db.QueryRow(ctx, m.acquire, p.Key, p.Owner, string(p.Session), p.TTL.Seconds()).Scan(&grant.Token, &grant.Owner, &session, &acquired, &expires)
	if errors.Is(err, pgx.ErrNoRows) {
		return lockstore.Grant{}, &lockstore.HeldError{Key: p.Key}
	}
	grant.AcquiredAt, grant.ExpiresAt = lockstore.Time{Time: acquired}, lockstore.Time{Time: expires}
	return grant, err
}

func (m *mutant) Renew(ctx context.Context, key string, token lockstore.Token, ttl time.Duration) (lockstore.Grant, error) {
	if m.renew == "" {
		return m.Store.Renew(ctx, key, token, ttl)
	}
	grant := lockstore.Grant{Key: key, TTL: ttl, Sent: time.Now()}
	var expires time.Time
	err := m.db.QueryRow(ctx, m.renew, ttl.Seconds(), key, token).Scan(&grant.Token, &expires)
	if errors.Is(err, pgx.ErrNoRows) {
		return lockstore.Grant{}, lockstore.ErrLockLost
	}
	grant.ExpiresAt = lockstore.Time{Time: expires}
	return grant, err
}

func (m *mutant) Release(ctx context.Context, key string, token lockstore.Token) (lockstore.Release, error) {
	if m.release == "" {
		return m.Store.Release(ctx, key, token)
	}
	tag, err := m.db.Exec(ctx, m.release, key)
	return lockstore.Release{Key: key, Token: token, Stale: tag.RowsAffected() == 0}, err
}

func (m *mutant) Revoke(ctx context.Context, p lockstore.RevokeParams) (lockstore.LockOutcome, error) {
	if m.revoke == "" {
		return m.Store.Revoke(ctx, p)
	}
	outcome := lockstore.LockOutcome{Key: p.Key, Presented: p.Token}
	err := m.db.QueryRow(ctx, m.revoke, p.Key, p.Token, p.Operator, p.Reason).Scan(&outcome.Outcome, &outcome.AuditID, &outcome.Owner, &outcome.Token)
	return outcome, err
}

// pause is a place in lockdb's own code where clients of the owner "slow" stop
// until they are let go on, so that a race can be played in one order.
type pause struct {
	b    bundle
	conn *pgx.Conn
}

const pauseFunction = `CREATE OR REPLACE FUNCTION pause() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  PERFORM pg_advisory_xact_lock_shared(42);
  RETURN coalesce(NEW, OLD);
END $$`

// pauseAt makes the place; when is such as "BEFORE INSERT". Triggers fire in the
// order of their names.
func pauseAt(t *testing.T, b bundle, name, when, condition string) *pause {
	t.Helper()
	b.exec(t, pauseFunction)
	b.exec(t, fmt.Sprintf(`CREATE TRIGGER %s %s ON lock_entry FOR EACH ROW WHEN (%s) EXECUTE FUNCTION pause()`, name, when, condition))
	return &pause{b: b, conn: b.dbs.Lock.Conn(t, "super")}
}

func (p *pause) shut(t *testing.T) {
	t.Helper()
	if _, err := p.conn.Exec(t.Context(), `SELECT pg_advisory_lock(42)`); err != nil {
		t.Fatal(err)
	}
}

func (p *pause) open(t *testing.T) {
	t.Helper()
	if _, err := p.conn.Exec(t.Context(), `SELECT pg_advisory_unlock(42)`); err != nil {
		t.Fatal(err)
	}
}

// waiting returns when so many clients wait for a lock.
func (p *pause) waiting(t *testing.T, clients int) {
	t.Helper()
	pgtest.Eventually(t, fmt.Sprintf("%d clients wait", clients), func(ctx context.Context) (bool, error) {
		var n int
		err := p.b.super.QueryRow(ctx, `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`).Scan(&n)
		return n >= clients, err
	})
}

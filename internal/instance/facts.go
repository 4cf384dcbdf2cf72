package instance

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/dlockctl/dlockctl/internal/pgtx"
)

// MinVersion is the oldest server supported, as server_version_num.
const MinVersion = 150000

// Querier is what the readers of this package need: a connection, a pool or a
// transaction.
type Querier interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// Facts identify one running server.
type Facts struct {
	// SystemIdentifier is made by initdb and kept by every physical copy.
	SystemIdentifier int64 `json:"system_identifier"`
	// Timeline rises with every promotion. 0 on a standby, which has no insert
	// position of its own.
	Timeline int32 `json:"timeline"`
	// InRecovery tells a standby, from which nothing is decided (K-6.3).
	InRecovery bool `json:"in_recovery"`
	// Version is server_version_num, VersionText what the server calls itself.
	Version     int    `json:"version"`
	VersionText string `json:"version_text"`
}

// readFacts asks the WAL file name for the timeline, which is right at once
// after a promotion; pg_control_checkpoint() lagged by 40 s (K-7.6).
const readFacts = `
SELECT c.system_identifier,
       CASE WHEN r.standby THEN 0
            ELSE ('x' || substr(pg_walfile_name(pg_current_wal_insert_lsn()), 1, 8))::bit(32)::int END,
       r.standby,
       current_setting('server_version_num')::int,
       current_setting('server_version')
  FROM pg_control_system() c, (SELECT pg_is_in_recovery() AS standby) r`

// Read returns the server's facts. An ordinary role may ask for all of them.
func Read(ctx context.Context, q Querier) (Facts, error) {
	var f Facts
	err := q.QueryRow(ctx, readFacts).Scan(&f.SystemIdentifier, &f.Timeline, &f.InRecovery, &f.Version, &f.VersionText)
	if err != nil {
		return Facts{}, fmt.Errorf("read server identity: %w", err)
	}
	return f, nil
}

// ReadAt connects to another server to ask for its facts. All of it is bounded by the
// address's ConnectTimeout: a server that lets in and then says nothing is one that is down.
func ReadAt(ctx context.Context, config *pgx.ConnConfig) (Facts, error) {
	config = pgtx.Config(config)
	asked, cancel := context.WithTimeout(ctx, config.ConnectTimeout)
	defer cancel()
	conn, err := pgx.ConnectConfig(asked, config)
	if err != nil {
		return Facts{}, fmt.Errorf("connect: %w", err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	return Read(asked, pgtx.OneTrip{Conn: conn})
}

// VersionError is returned by CheckVersion.
type VersionError struct{ Version string }

func (e *VersionError) Error() string {
	return fmt.Sprintf("PostgreSQL %s is too old: 15 or newer is needed, 16 is the target", e.Version)
}

// CheckVersion returns a *VersionError for a server older than 15.
func (f Facts) CheckVersion() error {
	if f.Version < MinVersion {
		return &VersionError{Version: f.VersionText}
	}
	return nil
}

// Peer returns the system identifier of the other database's instance, as
// `migrate up` recorded it in this one (K-6.1), and false when none is.
func Peer(ctx context.Context, q Querier) (int64, bool, error) {
	var id int64
	err := q.QueryRow(ctx, `SELECT system_identifier FROM peer_instance`).Scan(&id)
	if errors.Is(err, pgx.ErrNoRows) {
		return 0, false, nil
	}
	if err != nil {
		return 0, false, fmt.Errorf("read peer identity: %w", err)
	}
	return id, true, nil
}

const recordPeer = `
INSERT INTO peer_instance (system_identifier) VALUES ($1)
ON CONFLICT (one) DO UPDATE SET system_identifier = EXCLUDED.system_identifier, noted_at = now()
 WHERE peer_instance.system_identifier <> EXCLUDED.system_identifier`

// RecordPeers writes each instance's identifier into the other's database, so
// that a service with one DSN can tell that locks and money do not share one
// (K-6.1). Both connections must belong to the owner of the tables, or be able
// to become it. It returns the facts of both; whether the two may be the same
// is the caller's to decide.
func RecordPeers(ctx context.Context, lock, pay *pgx.Conn) (lockFacts, payFacts Facts, err error) {
	if lockFacts, err = Read(ctx, lock); err != nil {
		return Facts{}, Facts{}, fmt.Errorf("lockdb: %w", err)
	}
	if payFacts, err = Read(ctx, pay); err != nil {
		return Facts{}, Facts{}, fmt.Errorf("paydb: %w", err)
	}
	if err := asOwner(ctx, lock, recordPeer, payFacts.SystemIdentifier); err != nil {
		return Facts{}, Facts{}, fmt.Errorf("record the identity of paydb in lockdb: %w", err)
	}
	if err := asOwner(ctx, pay, recordPeer, lockFacts.SystemIdentifier); err != nil {
		return Facts{}, Facts{}, fmt.Errorf("record the identity of lockdb in paydb: %w", err)
	}
	return lockFacts, payFacts, nil
}

func asOwner(ctx context.Context, conn *pgx.Conn, sql string, args ...any) error {
	return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "SET LOCAL ROLE "+OwnerRole); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, sql, args...)
		return err
	})
}

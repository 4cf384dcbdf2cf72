package reconcile

import (
	"context"
	_ "embed"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

var (
	//go:embed rules/walk_live.sql
	liveLocksQuery string
	//go:embed rules/b14_live_lock.sql
	liveLockRules string
)

// locksAtOnce bounds how many live locks are compared with one question, and so the
// memory.
const locksAtOnce = 10_000

// liveLocks are account locks that somebody holds, a column each.
type liveLocks struct {
	accounts, owners []string
	tokens           []int64
	since            []time.Time
	young            []bool
}

// compareLiveLocks decides the classes that set the live locks of accounts against
// what paydb has seen of tokens.
func compareLiveLocks(ctx context.Context, rd reading, found *sink) error {
	rows, err := rd.lock.Query(ctx, liveLocksQuery, pgx.NamedArgs{"accounts": rd.accounts})
	if err != nil {
		return fmt.Errorf("list the live locks: %w", err)
	}
	defer rows.Close()
	var (
		locks liveLocks
		all   int64
	)
	for rows.Next() {
		if err := locks.scan(rows); err != nil {
			return fmt.Errorf("list the live locks: %w", err)
		}
		if all++; len(locks.tokens) == locksAtOnce {
			if err := locks.compare(ctx, rd, found); err != nil {
				return err
			}
			locks = liveLocks{}
		}
	}
	if err := rows.Err(); err != nil {
		return fmt.Errorf("list the live locks: %w", err)
	}
	found.checked(all)
	return locks.compare(ctx, rd, found)
}

func (l *liveLocks) scan(row pgx.CollectableRow) error {
	var (
		account, owner string
		token          int64
		since          time.Time
		young          bool
	)
	if err := row.Scan(&account, &token, &owner, &since, &young); err != nil {
		return err //nolint:wrapcheck // the caller says what was read
	}
	l.accounts, l.owners, l.tokens = append(l.accounts, account), append(l.owners, owner), append(l.tokens, token)
	l.since, l.young = append(l.since, since), append(l.young, young)
	return nil
}

func (l *liveLocks) compare(ctx context.Context, rd reading, found *sink) error {
	if len(l.tokens) == 0 {
		return nil
	}
	return eachRow(ctx, rd.pay, liveLockRules, rd.args(pgx.NamedArgs{
		"lock_accounts": l.accounts, "lock_owners": l.owners, "lock_tokens": l.tokens,
		"lock_since": l.since, "lock_young": l.young,
	}), found.add)
}

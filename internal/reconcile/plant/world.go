package plant

import (
	"context"
	"embed"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

//go:embed sql/*.sql
var sqlFiles embed.FS

func script(name string) string {
	text, err := sqlFiles.ReadFile("sql/" + name + ".sql")
	if err != nil {
		panic(err) // embedded: the name is a constant of this package
	}
	return string(text)
}

// Params say how large a world is. The same ones make the same world, but that its
// times count back from now.
type Params struct {
	// Payouts of the past, spread evenly over Accounts; each account has at least 3.
	// Most have two legs.
	Payouts, Accounts int
	Seed              uint64
	// Open is how many open payouts there are in each state of K-5 that is not final.
	Open int
}

func (p Params) check() error {
	switch {
	case p.Accounts < 8 || p.Payouts < plainEnd*p.Accounts:
		return fmt.Errorf("%d payouts on %d accounts: give 8 accounts or more, and %d payouts for each", p.Payouts, p.Accounts, plainEnd)
	case p.Open < 0 || p.Open*len(openStates) > p.Accounts/2:
		return fmt.Errorf("%d open payouts in each of %d states need twice as many accounts, there are %d", p.Open, len(openStates), p.Accounts)
	}
	return nil
}

// World is a healthy world, and what was planted in it. It is used by one goroutine.
type World struct {
	history   *history
	pay, lock *pgx.Conn
	// staged is the next account that no fault has used.
	staged int
	// last is the last token issued.
	last int64
}

// Healthy makes a consistent world in a migrated lockdb and paydb, which hold
// nothing but the seed. Both connections are superusers'; the world keeps them.
//
// Its clauses: every account has an opening balance, clearing accounts too, and
// balance = opening + credits − debits. A POSTED payout has a DEBIT leg on the payer
// and a CREDIT leg on a clearing account of its currency, of its amount and under its
// claim's token, and one ACKED attempt under a token that claimed it. A fence is the
// highest leg's token or was raised, which is recorded; a mark is at least the
// highest token presented. Each token has its grant on its account's key, by who
// claimed with it, or is a fence in the operator log; a revoked one wrote nothing
// afterwards.
func Healthy(ctx context.Context, pay, lock *pgx.Conn, p Params) (*World, error) {
	if err := p.check(); err != nil {
		return nil, err
	}
	var now time.Time
	if err := pay.QueryRow(ctx, "SELECT now()").Scan(&now); err != nil {
		return nil, fmt.Errorf("read paydb's clock: %w", err)
	}
	w := &World{history: newHistory(p, now), pay: pay, lock: lock, staged: p.Open * len(openStates)}
	w.last = w.history.lastToken()
	if err := quietly(ctx, lock, w.loadLock); err != nil {
		return nil, fmt.Errorf("fill lockdb: %w", err)
	}
	if err := quietly(ctx, pay, w.loadPay); err != nil {
		return nil, fmt.Errorf("fill paydb: %w", err)
	}
	for _, conn := range []*pgx.Conn{pay, lock} {
		// VACUUM too, or the first reader pays for the hint bits of every row.
		if _, err := conn.Exec(ctx, "VACUUM (ANALYZE)"); err != nil {
			return nil, fmt.Errorf("vacuum and analyze: %w", err)
		}
	}
	return w, nil
}

func (w *World) loadPay(ctx context.Context, tx pgx.Tx) error {
	return w.load(ctx, tx, "clearing", w.history.payTables(), "clearing_balances")
}

func (w *World) loadLock(ctx context.Context, tx pgx.Tx) error {
	// The partitions of the journal are made by where the sequence stands.
	if err := w.issue(ctx, tx); err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, "SELECT lock_grant_extend()"); err != nil {
		return fmt.Errorf("make the journal's partitions: %w", err)
	}
	return w.load(ctx, tx, "fence_drawn", w.history.lockTables(), "fence_log")
}

// issue lets the sequence stand where tokens were issued up to.
func (w *World) issue(ctx context.Context, tx pgx.Tx) error {
	if _, err := tx.Exec(ctx, "SELECT setval('fencing_token_seq', $1)", w.last); err != nil {
		return fmt.Errorf("advance the sequence: %w", err)
	}
	return nil
}

func (w *World) load(ctx context.Context, tx pgx.Tx, before string, tables []table, after string) error {
	if _, err := tx.Exec(ctx, script(before)); err != nil {
		return fmt.Errorf("%s: %w", before, err)
	}
	for _, t := range tables {
		if err := t.copyTo(ctx, tx); err != nil {
			return err
		}
	}
	if _, err := tx.Exec(ctx, script(after)); err != nil {
		return fmt.Errorf("%s: %w", after, err)
	}
	// The schema is older than what was done under it.
	const migrated = "UPDATE flyway_schema_history SET installed_on = $1"
	if _, err := tx.Exec(ctx, migrated, w.history.at(0).AddDate(0, -1, 0)); err != nil {
		return fmt.Errorf("date the migrations: %w", err)
	}
	return nil
}

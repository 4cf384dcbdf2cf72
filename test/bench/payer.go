package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/jackc/pgx/v5"
)

// payer pays out one account's payouts, by bare statements.
type payer struct {
	payoutStatements

	account string
	payouts []payoutIDs
	// A connection for each role that writes.
	locks, posting, rail *pgx.Conn
}

// payoutIDs are a payout, and what will be called what of it.
type payoutIDs struct{ payout, attempt, debit, credit string }

func (p *paying) newPayer(ctx context.Context, pay *pgx.Conn, n int) (*payer, error) {
	w := &payer{payoutStatements: p.payoutStatements(), account: fmt.Sprintf("00000000-0000-4000-8000-%012d", n)}
	const more = `
INSERT INTO payout (payout_id, account_id, amount_minor, currency, idempotency_key)
SELECT id, $1::uuid, 100, 'EUR', id::text FROM (SELECT gen_random_uuid() AS id FROM generate_series(1, 2000)) made
RETURNING payout_id::text, gen_random_uuid()::text, gen_random_uuid()::text, gen_random_uuid()::text`
	rows, err := pay.Query(ctx, more, w.account)
	if err == nil {
		w.payouts, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (ids payoutIDs, err error) {
			return ids, row.Scan(&ids.payout, &ids.attempt, &ids.debit, &ids.credit)
		})
	}
	if err != nil {
		return w, fmt.Errorf("make a worker's payouts: %w", err)
	}
	for conn, dsn := range map[**pgx.Conn]string{
		&w.locks: p.dbs.lockDSN, &w.posting: p.dbs.payDSN + "&options=-c%20role%3Dpayapp_resource", &w.rail: p.dbs.payDSN + "&options=-c%20role%3Dpayapp_rail",
	} {
		if *conn, err = pgx.Connect(ctx, dsn); err != nil {
			return w, fmt.Errorf("connect: %w", err)
		}
	}
	return w, nil
}

func (w *payer) close(ctx context.Context) {
	if w == nil {
		return
	}
	for _, conn := range []*pgx.Conn{w.locks, w.posting, w.rail} {
		if conn != nil {
			_ = conn.Close(ctx) // nothing is under way on it
		}
	}
}

// pay takes one payout from PENDING to POSTED (K-4.2: a token of its own).
func (w *payer) pay(ctx context.Context) error {
	if len(w.payouts) == 0 {
		return errors.New("a worker ran out of payouts")
	}
	ids := w.payouts[0]
	w.payouts = w.payouts[1:]
	var token int64
	holder := fmt.Sprint("bench-", os.Getpid())
	if err := w.locks.QueryRow(ctx, w.acquire, "account:"+w.account, owner, sessionID, ttl.Seconds()).Scan(&token, nil, nil, nil, nil); err != nil {
		return fmt.Errorf("acquire: %w", err)
	}
	if err := one(ctx, w.posting, "claim", w.claim, ids.payout, holder, token); err != nil {
		return err
	}
	if err := one(ctx, w.posting, "submit", w.submit, ids.payout, token); err != nil {
		return err
	}
	err := pgx.BeginFunc(ctx, w.rail, func(tx pgx.Tx) error {
		if err := one(ctx, tx, "mark", w.mark, w.account, token); err != nil {
			return err
		}
		return one(ctx, tx, "attempt", w.attempt, ids.attempt, ids.payout, ids.payout, token)
	})
	if err != nil {
		return err
	}
	if err := one(ctx, w.rail, "answer", w.answer, ids.attempt, "ACKED", "bench"); err != nil {
		return err
	}
	if err := one(ctx, w.posting, "settle", w.move, ids.payout, "RAIL_SUBMITTED", "RAIL_ACKED", token); err != nil {
		return err
	}
	return pgx.BeginFunc(ctx, w.posting, func(tx pgx.Tx) error { return w.enter(ctx, tx, ids, token) })
}

// enter is the posting, in the order of K-4.7.
func (w *payer) enter(ctx context.Context, tx pgx.Tx, ids payoutIDs, token int64) error {
	var clearing string
	ignored := make([]any, 11, 12)
	if err := tx.QueryRow(ctx, w.lock, ids.payout).Scan(append(ignored, &clearing)...); err != nil {
		return fmt.Errorf("lock the payout: %w", err)
	}
	const amount = 100
	for _, step := range []struct {
		name, sql string
		args      []any
	}{
		{"debit", w.debit, []any{w.account, "EUR", amount, token}},
		{"debit's leg", w.leg, []any{ids.debit, ids.payout, w.account, "DEBIT", amount, token}},
		{"post", w.post, []any{ids.payout, token}},
		{"credit", w.credit, []any{clearing, "EUR", amount}},
		{"credit's leg", w.leg, []any{ids.credit, ids.payout, clearing, "CREDIT", amount, token}},
	} {
		if err := one(ctx, tx, step.name, step.sql, step.args...); err != nil {
			return err
		}
	}
	return nil
}

type querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// one runs a statement that must change exactly one row: fewer would be refused, and
// what was measured would be of something else.
func one(ctx context.Context, on querier, name, sql string, args ...any) error {
	rows, err := on.Query(ctx, sql, args...)
	if err == nil {
		rows.Close()
		err = rows.Err()
	}
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if n := rows.CommandTag().RowsAffected(); n != 1 {
		return fmt.Errorf("%s: %d rows, want 1", name, n)
	}
	return nil
}

package reconcile

import (
	"context"
	_ "embed"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// Outcome is what a run found out.
type Outcome string

// The outcomes. The zero value is none of them, and not clean.
const (
	Clean      Outcome = "CLEAN"
	Breaks     Outcome = "BREAKS"
	Incomplete Outcome = "INCOMPLETE"
)

// Break is an account whose balance is not opening + credit − debit. The sums are
// decimal numbers of minor units, in text because they may exceed 64 bits.
type Break struct {
	AccountID string `json:"account_id"`
	Currency  string `json:"currency"`
	// Fence is the token of the last posting that the account let pass.
	Fence        int64  `json:"fence"`
	BalanceMinor string `json:"balance_minor"`
	OpeningMinor string `json:"opening_minor"`
	CreditMinor  string `json:"credit_minor"`
	DebitMinor   string `json:"debit_minor"`
	// DriftMinor is the balance less what it should be: positive is money too much.
	DriftMinor string `json:"drift_minor"`
}

// Report is the answer of BalanceDrift.
type Report struct {
	Outcome Outcome `json:"outcome"`
	// Checked counts the accounts that were compared, Legs the legs summed.
	Checked int64 `json:"checked"`
	Legs    int64 `json:"legs"`
	// Unanchored counts the accounts without an opening balance, which nothing can
	// be compared with.
	Unanchored int64   `json:"unanchored"`
	Breaks     []Break `json:"breaks"`
}

// Beginner is a connection or a pool.
type Beginner interface {
	BeginTx(ctx context.Context, options pgx.TxOptions) (pgx.Tx, error)
}

var (
	//go:embed rules/a01_balance_drift.sql
	balanceDrift string
	//go:embed rules/coverage.sql
	coverage string
)

// BalanceDrift checks INV-03 on paydb, over one repeatable-read snapshot (K-8.1). Its
// memory grows with the breaks, not with the accounts. With an error, such as a right
// that is missing, the report is INCOMPLETE, whatever was seen until then.
func BalanceDrift(ctx context.Context, conn Beginner) (Report, error) {
	report, err := balanceReport(ctx, conn)
	if err != nil {
		report.Outcome = Incomplete
		return report, fmt.Errorf("check balances against the ledger: %w", err)
	}
	return report, nil
}

func balanceReport(ctx context.Context, conn Beginner) (Report, error) {
	report := Report{Breaks: []Break{}}
	options := pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}
	err := pgx.BeginTxFunc(ctx, conn, options, func(tx pgx.Tx) error {
		// A row-level policy that hides a row is an error, not a smaller ledger.
		if _, err := tx.Exec(ctx, "SET LOCAL row_security = off"); err != nil {
			return fmt.Errorf("insist on every row: %w", err)
		}
		var accounts int64
		if err := tx.QueryRow(ctx, coverage).Scan(&accounts, &report.Legs); err != nil {
			return fmt.Errorf("count accounts and legs: %w", err)
		}
		if err := report.compare(ctx, tx); err != nil {
			return err
		}
		report.Checked = accounts - report.Unanchored
		return nil
	})
	if err != nil {
		return report, err
	}
	switch {
	case len(report.Breaks) > 0:
		report.Outcome = Breaks
	case report.Checked == 0 || report.Unanchored > 0:
		report.Outcome = Incomplete
	default:
		report.Outcome = Clean
	}
	return report, nil
}

func (r *Report) compare(ctx context.Context, tx pgx.Tx) error {
	rows, err := tx.Query(ctx, balanceDrift)
	if err != nil {
		return fmt.Errorf("compare balances: %w", err)
	}
	var (
		b        Break
		anchored bool
	)
	_, err = pgx.ForEachRow(rows, []any{
		&b.AccountID, &b.Currency, &b.Fence, &anchored,
		&b.BalanceMinor, &b.OpeningMinor, &b.CreditMinor, &b.DebitMinor, &b.DriftMinor,
	}, func() error {
		if anchored {
			r.Breaks = append(r.Breaks, b)
		} else {
			r.Unanchored++
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("compare balances: %w", err)
	}
	return nil
}

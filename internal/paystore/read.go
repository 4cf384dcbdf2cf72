package paystore

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/dlockctl/dlockctl/internal/pgtx"
)

var (
	listAccountsQuery = pgtx.Statement(queryFiles, "list_accounts", "account_id", "currency", "clearing", "after", "row_limit")
	listPayoutsQuery  = pgtx.Statement(queryFiles, "list_payouts", "account_id", "states", "claimed_by", "idempotency_key", "older_than_seconds", "oldest_first", "row_limit")
	showPayoutQuery   = pgtx.Statement(queryFiles, "show_payout", "payout_id")
)

// Account returns one account, or ErrNotFound.
func (d *DB) Account(ctx context.Context, id string) (Account, error) {
	id, err := ParseID("account", id)
	if err != nil {
		return Account{}, err
	}
	accounts, err := d.accounts(ctx, "show account "+id, id, AccountFilter{})
	if err != nil {
		return Account{}, err
	}
	if len(accounts) == 0 {
		return Account{}, fmt.Errorf("account %s: %w", id, ErrNotFound)
	}
	return accounts[0], nil
}

// Accounts lists accounts by id.
func (d *DB) Accounts(ctx context.Context, filter AccountFilter) ([]Account, error) {
	if filter.Currency != "" {
		if err := ValidCurrency(filter.Currency); err != nil {
			return nil, err
		}
	}
	if filter.After != "" {
		if _, err := ParseID("account", filter.After); err != nil {
			return nil, err
		}
	}
	return d.accounts(ctx, "list accounts", "", filter)
}

func (d *DB) accounts(ctx context.Context, doing, id string, filter AccountFilter) ([]Account, error) {
	accounts := []Account{}
	args := []any{null(id), null(filter.Currency), filter.Clearing, null(filter.After), null(filter.Limit)}
	err := d.Read(ctx, doing, listAccountsQuery, args, func(rows pgx.Rows) error {
		return ScanRows(rows, func() error {
			var a Account
			err := rows.Scan(&a.AccountID, &a.Currency, &a.BalanceMinor, &a.Fence, &a.UpdatedAt, &a.Clearing, &a.OpeningMinor, &a.OpenPayouts)
			a.UpdatedAt = a.UpdatedAt.UTC()
			accounts = append(accounts, a)
			return err
		})
	})
	if err != nil {
		return nil, err
	}
	return accounts, nil
}

// Payout returns one payout with everything that was recorded of it, in one
// snapshot, or ErrNotFound. The login must be allowed to read the ledger, which
// payapp_rail is not.
func (d *DB) Payout(ctx context.Context, id string) (PayoutDetail, error) {
	id, err := ParseID("payout", id)
	if err != nil {
		return PayoutDetail{}, err
	}
	var p PayoutDetail
	found := false
	err = d.Read(ctx, "show payout "+id, showPayoutQuery, []any{id}, func(rows pgx.Rows) error {
		return ScanRows(rows, func() error {
			found = true
			return ScanPayout(rows, &p.Payout, &p.Claims, &p.Attempts, &p.Legs, &p.Resolutions)
		})
	})
	if err != nil {
		return PayoutDetail{}, err
	}
	if !found {
		return PayoutDetail{}, fmt.Errorf("payout %s: %w", id, ErrNotFound)
	}
	return p, nil
}

// Payouts lists payouts, newest first unless the filter says otherwise.
func (d *DB) Payouts(ctx context.Context, filter PayoutFilter) ([]Payout, error) {
	if filter.AccountID != "" {
		if _, err := ParseID("account", filter.AccountID); err != nil {
			return nil, err
		}
	}
	states := make([]string, len(filter.States))
	for i, s := range filter.States {
		states[i] = string(s)
	}
	args := []any{
		null(filter.AccountID), states, null(filter.ClaimedBy), null(filter.IdempotencyKey),
		filter.OlderThan.Seconds(), filter.OldestFirst, null(filter.Limit),
	}
	payouts := []Payout{}
	err := d.Read(ctx, "list payouts", listPayoutsQuery, args, func(rows pgx.Rows) (err error) {
		payouts, err = CollectPayouts(rows)
		return err
	})
	if err != nil {
		return nil, err
	}
	return payouts, nil
}

// ScanPayout reads the eleven columns payout_id::text, account_id::text,
// amount_minor, currency, state, claimed_by, claim_token, idempotency_key,
// attempt_count, created_at and updated_at of a row into p, and what follows them
// into more.
func ScanPayout(row pgx.Row, p *Payout, more ...any) error {
	var claimedBy *string
	var claimToken *Token
	err := row.Scan(append([]any{
		&p.PayoutID, &p.AccountID, &p.AmountMinor, &p.Currency, &p.State, &claimedBy, &claimToken,
		&p.IdempotencyKey, &p.AttemptCount, &p.CreatedAt, &p.UpdatedAt,
	}, more...)...)
	if err != nil {
		return err
	}
	p.ClaimedBy, p.ClaimToken = "", 0
	if claimedBy != nil {
		p.ClaimedBy = *claimedBy
	}
	if claimToken != nil {
		p.ClaimToken = *claimToken
	}
	p.CreatedAt, p.UpdatedAt = p.CreatedAt.UTC(), p.UpdatedAt.UTC()
	return nil
}

// CollectPayouts reads rows of the columns of ScanPayout to their end.
func CollectPayouts(rows pgx.Rows) ([]Payout, error) {
	payouts := []Payout{}
	err := ScanRows(rows, func() error {
		var p Payout
		err := ScanPayout(rows, &p)
		payouts = append(payouts, p)
		return err
	})
	return payouts, err
}

// ScanRows calls scan for each row, and reads on to the end of the answer.
func ScanRows(rows pgx.Rows, scan func() error) error {
	defer rows.Close()
	for rows.Next() {
		if err := scan(); err != nil {
			return err
		}
	}
	rows.Close()
	return rows.Err()
}

// null is NULL for the zero value: a filter that is not set.
func null[T comparable](v T) *T {
	var zero T
	if v == zero {
		return nil
	}
	return &v
}

package posting

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgerrcode"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/dlockctl/dlockctl/internal/paystore"
)

// CreateParams say what a payout pays. It is fixed from then on (K-4.10).
type CreateParams struct {
	// PayoutID is made here when it is empty.
	PayoutID    string
	AccountID   string
	AmountMinor paystore.Minor
	Currency    string
	// IdempotencyKey is the client's own: the same key and content again is the
	// payout that stands. The rail gets the same key.
	IdempotencyKey string
}

func (p CreateParams) valid() error {
	_, err := paystore.ParseID("account", p.AccountID)
	if p.PayoutID != "" {
		_, idErr := paystore.ParseID("payout", p.PayoutID)
		err = errors.Join(err, idErr)
	}
	return errors.Join(err, paystore.ValidAmount(p.AmountMinor), paystore.ValidCurrency(p.Currency), paystore.ValidIdempotencyKey(p.IdempotencyKey))
}

// Create makes a PENDING payout, or returns the one that the same idempotency key
// made before, and false. It returns ErrInvalid, *ConflictError when the key or the
// payout's id stands for other content, and *RejectedError for an account that does
// not exist or holds another currency.
func (s *Store) Create(ctx context.Context, p CreateParams) (payout paystore.Payout, created bool, err error) {
	if err := p.valid(); err != nil {
		return paystore.Payout{}, false, err
	}
	id := p.PayoutID
	if id == "" {
		made, err := uuid.NewV7() // in order of time, for the indexes
		if err != nil {
			return paystore.Payout{}, false, fmt.Errorf("make a payout's id: %w", err)
		}
		id = made.String()
	}
	doing := fmt.Sprintf("create a payout with idempotency key %q", p.IdempotencyKey)
	payout, created, err = s.step(ctx, doing, p.AccountID, createQuery, id, p.AccountID, p.AmountMinor, p.Currency, p.IdempotencyKey)
	if err == nil && created {
		return payout, true, nil
	}
	if err != nil && !hasConstraint(err, "payout_pkey") {
		return paystore.Payout{}, false, s.uncreatable(ctx, err, p)
	}
	stands, found, readErr := s.find(ctx, doing, p.IdempotencyKey, id)
	switch {
	case readErr != nil:
		return paystore.Payout{}, false, readErr
	case !found: // no role may delete one
		return paystore.Payout{}, false, fmt.Errorf("%s: it was refused for a payout that is not there", doing)
	}
	return stands, false, p.compare(stands)
}

func (s *Store) find(ctx context.Context, doing, key, payoutID string) (p paystore.Payout, found bool, err error) {
	err = s.db.Read(ctx, doing, findPayoutQuery, []any{key, payoutID}, func(rows pgx.Rows) error {
		return paystore.ScanRows(rows, func() error {
			found = true
			return paystore.ScanPayout(rows, &p)
		})
	})
	return p, found, err
}

// compare returns a *ConflictError for the first thing in which the payout that
// stands is another.
func (p CreateParams) compare(stands paystore.Payout) error {
	for _, f := range []struct{ field, have, given string }{
		{"idempotency_key", stands.IdempotencyKey, p.IdempotencyKey},
		{"account_id", stands.AccountID, canonical(p.AccountID)},
		{"amount_minor", stands.AmountMinor.String(), p.AmountMinor.String()},
		{"currency", stands.Currency, p.Currency},
		{"payout_id", stands.PayoutID, canonical(p.PayoutID)},
	} {
		if f.have != f.given && f.given != "" {
			return &paystore.ConflictError{IdempotencyKey: stands.IdempotencyKey, PayoutID: stands.PayoutID, Field: f.field, Have: f.have, Given: f.given}
		}
	}
	return nil
}

// canonical is an id in the form that paydb returns; "" of none.
func canonical(id string) string {
	parsed, err := uuid.Parse(id)
	if err != nil {
		return ""
	}
	return parsed.String()
}

// uncreatable names what refused a payout.
func (s *Store) uncreatable(ctx context.Context, err error, p CreateParams) error {
	r := &paystore.RejectedError{AccountID: canonical(p.AccountID), AmountMinor: p.AmountMinor, Currency: p.Currency}
	switch {
	case hasConstraint(err, "payout_account_id_fkey"):
		r.Reason = paystore.ReasonNoAccount
		return r
	case hasConstraint(err, "payout_clearing_guard"):
		return fmt.Errorf("%w: account %s is a clearing account, it pays nothing out; give the payer's", paystore.ErrInvalid, r.AccountID)
	case hasConstraint(err, "payout_new_guard"):
		account, readErr := s.db.Account(ctx, p.AccountID)
		if readErr != nil {
			return errors.Join(err, readErr)
		}
		r.Reason, r.AccountCurrency, r.BalanceMinor = paystore.ReasonCurrencyMismatch, account.Currency, account.BalanceMinor
		return r
	default:
		return err
	}
}

// hasConstraint tells that a constraint or a guard of that name refused.
func hasConstraint(err error, name string) bool {
	pgErr, ok := errors.AsType[*pgconn.PgError](err)
	return ok && pgErr.ConstraintName == name && pgerrcode.IsIntegrityConstraintViolation(pgErr.Code)
}

func notFound(payoutID string) error {
	return fmt.Errorf("payout %s: %w", payoutID, paystore.ErrNotFound)
}

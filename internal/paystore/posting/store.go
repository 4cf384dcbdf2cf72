package posting

import (
	"context"
	"errors"

	"github.com/jackc/pgerrcode"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/dlockctl/dlockctl/internal/paystore"
)

// Options configure New.
type Options struct {
	// FencingDisabled is payment.fencing.enabled=false: statements (a) to (c) look at
	// no fence. For negative controls alone (K-4.5); the guards of the database still
	// keep a payout from being posted twice.
	FencingDisabled bool
}

// Store moves payouts and posts them.
type Store struct {
	db    *paystore.DB
	opts  Options
	write statements
}

// statements are (a) to (c), with their fences or without.
type statements struct{ debit, leg, post string }

// New is a store on paydb. It does not own db, which must be opened for Changing
// under a login of payapp_resource; GiveUp, Release, Resolve, Claim and RaiseFence
// also work under dlock_operator.
func New(db *paystore.DB, opts Options) *Store {
	s := &Store{db: db, opts: opts, write: statements{debitQuery, legQuery, postQuery}}
	if opts.FencingDisabled {
		s.write = statements{debitUnfencedQuery, legUnfencedQuery, postUnfencedQuery}
	}
	return s
}

// errNoRow is a statement whose predicate held for no row: what refused it is read
// after the rollback.
var errNoRow = errors.New("no row")

// step runs one guarded statement as a transaction of its own. It returns false
// when it changed no row.
func (s *Store) step(ctx context.Context, doing, payoutID, sql string, args ...any) (p paystore.Payout, changed bool, err error) {
	err = s.db.Change(ctx, doing, payoutID, sql, args, func(rows pgx.Rows) error {
		changed = false
		return paystore.ScanRows(rows, func() error {
			changed = true
			return paystore.ScanPayout(rows, &p)
		})
	})
	if err != nil {
		return paystore.Payout{}, false, refusal(err)
	}
	return p, changed, nil
}

// refusal names what a guard of paydb refused, where a caller may act on it.
func refusal(err error) error {
	pgErr, ok := errors.AsType[*pgconn.PgError](err)
	if ok && pgErr.Code == pgerrcode.CheckViolation && pgErr.ConstraintName == "payout_rail_guard" {
		return &paystore.EvidenceError{Message: pgErr.Message, Hint: pgErr.Hint}
	}
	return err
}

// standing is everything that may have refused a token or a payout (K-4.3).
type standing struct {
	paystore.Payout

	accountCurrency *string // nil: there is no account
	balance         paystore.Minor
	fence           paystore.Token
	floor           paystore.Token
	highestClaim    paystore.Token
	attempted       bool // an attempt holds the payout's slot
	outcome         paystore.Outcome
}

// look is the one diagnostic read. It returns ErrNotFound.
func (s *Store) look(ctx context.Context, doing, payoutID string) (st standing, err error) {
	found := false
	err = s.db.Read(ctx, doing, standingQuery, []any{payoutID}, func(rows pgx.Rows) error {
		return paystore.ScanRows(rows, func() error {
			found = true
			return paystore.ScanPayout(rows, &st.Payout, &st.accountCurrency, &st.balance, &st.fence, &st.floor, &st.highestClaim, &st.attempted, &st.outcome)
		})
	})
	if err == nil && !found {
		err = notFound(payoutID)
	}
	return st, err
}

func (st standing) fenced(resource paystore.Resource, token, stored paystore.Token) error {
	return &paystore.FencedError{Resource: resource, AccountID: st.AccountID, PayoutID: st.PayoutID, Presented: token, Stored: stored}
}

// claimedOtherwise tells why the token is not the one that holds the payout; nil
// when it is.
func (st standing) claimedOtherwise(token paystore.Token, want ...paystore.State) error {
	switch {
	case st.floor >= token:
		return st.fenced(paystore.ResourceFloor, token, st.floor)
	case st.highestClaim > token, st.ClaimToken > token:
		return st.fenced(paystore.ResourcePayout, token, max(st.highestClaim, st.ClaimToken))
	case st.ClaimToken == token:
		return nil
	case st.ClaimToken == 0 || st.State.Final():
		return &paystore.StateError{PayoutID: st.PayoutID, Have: st.State, Want: want}
	default:
		return &paystore.ClaimedError{PayoutID: st.PayoutID, By: st.ClaimedBy, Token: st.ClaimToken}
	}
}

// rejected tells why the account cannot pay; nil when it can.
func (st standing) rejected() error {
	r := &paystore.RejectedError{AccountID: st.AccountID, PayoutID: st.PayoutID, AmountMinor: st.AmountMinor, Currency: st.Currency, BalanceMinor: st.balance}
	if st.accountCurrency == nil {
		r.Reason = paystore.ReasonNoAccount
		return r
	}
	r.AccountCurrency = *st.accountCurrency
	switch {
	case r.AccountCurrency != st.Currency:
		r.Reason = paystore.ReasonCurrencyMismatch
	case st.balance < st.AmountMinor:
		r.Reason = paystore.ReasonInsufficientFunds
	default:
		return nil
	}
	return r
}

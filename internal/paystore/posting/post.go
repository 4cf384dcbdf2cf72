package posting

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/dlockctl/dlockctl/internal/paystore"
)

// Posting is a payout in the ledger.
type Posting struct {
	PayoutID          string         `json:"payout_id"`
	AccountID         string         `json:"account_id"`
	ClearingAccountID string         `json:"clearing_account_id"`
	AmountMinor       paystore.Minor `json:"amount_minor"`
	Currency          string         `json:"currency"`
	// Token is the one under which the legs stand.
	Token         paystore.Token `json:"token"`
	DebitEntryID  string         `json:"debit_entry_id"`
	CreditEntryID string         `json:"credit_entry_id"`
	// BalanceMinor is the account's after the debit; nil when it was posted before.
	BalanceMinor *paystore.Minor `json:"balance_minor,omitempty"`
	// AlreadyPosted tells that it was posted before, by whomever: one's own lost
	// answer is success (K-4.3).
	AlreadyPosted bool `json:"already_posted"`
}

// Post posts a payout that the rail has acknowledged, in one transaction: (a), the
// DEBIT leg, (c), the clearing account's balance, the CREDIT leg (K-4.7). All of it
// comes from the payout's row (K-4.10), and the claim must be token's: who comes
// after another holder takes the payout over first, by Claim.
//
// A payout that is POSTED is success. Otherwise it returns *FencedError: resource
// account when account.fence stands at or above token, which includes a second
// payout of the same account under one token (K-4.2), ledger, payout or floor;
// *RejectedError, upon which the caller calls Reject (K-5.5); *ClaimedError;
// *StateError unless RAIL_ACKED; ErrNotClearable, ErrOverflow and ErrNotFound. After
// *UnknownOutcomeError the same call again tells what happened.
func (s *Store) Post(ctx context.Context, payoutID string, token paystore.Token) (Posting, error) {
	id, err := validClaim(payoutID, token)
	if err != nil {
		return Posting{}, err
	}
	doing := "post payout " + id
	for range tries {
		posting, err := s.post(ctx, doing, id, token)
		if !errors.Is(err, errNoRow) {
			return posting, err
		}
		// Rolled back. Funds that arrived meanwhile are no reason to refuse: the same
		// token again, and never a fresh one (K-4.3).
		if err := s.refused(ctx, doing, id, token, err); err != nil {
			return Posting{}, err
		}
	}
	return Posting{}, fmt.Errorf("%s: refused %d times, and for no reason that could be read; try again with the same token", doing, tries)
}

// refused is the one diagnostic read, the payout first (K-4.3); nil when nothing
// stands in the way any more.
func (s *Store) refused(ctx context.Context, doing, id string, token paystore.Token, err error) error {
	st, readErr := s.look(ctx, doing, id)
	if readErr != nil {
		return readErr
	}
	if st.State == paystore.Posted {
		return nil // the next try says so
	}
	if !s.opts.FencingDisabled {
		if err := st.claimedOtherwise(token, paystore.RailAcked); err != nil {
			return err
		}
		if st.fence >= token {
			resource := paystore.ResourceAccount
			if errors.Is(err, errNoLeg) {
				resource = paystore.ResourceLedger
			}
			return st.fenced(resource, token, st.fence)
		}
	}
	return st.rejected()
}

// errNoLeg is a leg that was not written: the fence moved past the token.
var errNoLeg = fmt.Errorf("leg: %w", errNoRow)

func (s *Store) post(ctx context.Context, doing, id string, token paystore.Token) (posting Posting, err error) {
	debit, err := uuid.NewV7() // in order of time, for the indexes
	if err != nil {
		return Posting{}, fmt.Errorf("make a leg's id: %w", err)
	}
	credit, err := uuid.NewV7()
	if err != nil {
		return Posting{}, fmt.Errorf("make a leg's id: %w", err)
	}
	err = s.db.Transaction(ctx, doing, id, func(tx pgx.Tx) error {
		posting = Posting{DebitEntryID: debit.String(), CreditEntryID: credit.String()}
		p, err := s.lock(ctx, tx, id, &posting)
		if err != nil {
			return err
		}
		if p.State == paystore.Posted {
			posting.AlreadyPosted = true
			return legsOf(ctx, tx, &posting)
		}
		if err := s.postable(p, token, posting); err != nil {
			return err
		}
		return s.enter(ctx, tx, &posting)
	})
	if err != nil {
		return Posting{}, err
	}
	return posting, nil
}

// lock keeps the payout from other writers, so that what is decided of it holds
// until the commit, and takes what is to be posted from its row (K-4.10).
func (s *Store) lock(ctx context.Context, tx pgx.Tx, id string, posting *Posting) (p paystore.Payout, err error) {
	err = paystore.ScanPayout(tx.QueryRow(ctx, lockPayoutQuery, id), &p, &posting.ClearingAccountID)
	if errors.Is(err, pgx.ErrNoRows) {
		return p, paystore.ErrNotFound
	}
	posting.PayoutID, posting.AccountID, posting.AmountMinor, posting.Currency = p.PayoutID, p.AccountID, p.AmountMinor, p.Currency
	posting.Token = p.ClaimToken
	return p, err
}

func (s *Store) postable(p paystore.Payout, token paystore.Token, posting Posting) error {
	switch {
	case p.ClaimToken > token && !s.opts.FencingDisabled:
		return &paystore.FencedError{Resource: paystore.ResourcePayout, AccountID: p.AccountID, PayoutID: p.PayoutID, Presented: token, Stored: p.ClaimToken}
	case p.State != paystore.RailAcked:
		return &paystore.StateError{PayoutID: p.PayoutID, Have: p.State, Want: []paystore.State{paystore.RailAcked}}
	case p.ClaimToken < token && !s.opts.FencingDisabled:
		return &paystore.ClaimedError{PayoutID: p.PayoutID, By: p.ClaimedBy, Token: p.ClaimToken}
	case posting.ClearingAccountID == "":
		return fmt.Errorf("%w: %s; name one for it", paystore.ErrNotClearable, p.Currency)
	}
	return nil
}

// legsOf finds the legs of a payout that is posted.
func legsOf(ctx context.Context, tx pgx.Tx, posting *Posting) error {
	rows, err := tx.Query(ctx, legsQuery, posting.PayoutID)
	if err != nil {
		return err
	}
	return paystore.ScanRows(rows, func() error {
		var direction paystore.Direction
		var entry, account string
		err := rows.Scan(&direction, &entry, &account)
		if direction == paystore.Debit {
			posting.DebitEntryID = entry
		} else {
			posting.CreditEntryID, posting.ClearingAccountID = entry, account
		}
		return err
	})
}

// enter is the posting proper. The payer's side is sent in one piece and looked at
// before the clearing side follows: who is refused never touches the clearing
// account, which everybody waits for.
func (s *Store) enter(ctx context.Context, tx pgx.Tx, p *Posting) error {
	payer := &pgx.Batch{}
	payer.Queue(s.write.debit, p.AmountMinor, p.Token, p.AccountID, p.Currency)
	payer.Queue(s.write.leg, p.DebitEntryID, p.PayoutID, paystore.Debit, p.AmountMinor, p.Token, p.AccountID)
	var balance paystore.Minor
	var fence paystore.Token
	err := inOrder(tx.SendBatch(ctx, payer),
		func(row pgx.Row) error { return oneRow(errNoRow, row.Scan(&balance, &fence)) },
		func(row pgx.Row) error { return oneRow(errNoLeg, row.Scan(new(uuid.UUID))) })
	if err != nil {
		return err
	}
	p.BalanceMinor = &balance

	postArgs := []any{p.PayoutID, p.Token}
	if s.opts.FencingDisabled {
		postArgs = postArgs[:1]
	}
	clearing := &pgx.Batch{}
	clearing.Queue(s.write.post, postArgs...)
	clearing.Queue(creditQuery, p.AmountMinor, p.ClearingAccountID, p.Currency)
	clearing.Queue(s.write.leg, p.CreditEntryID, p.PayoutID, paystore.Credit, p.AmountMinor, p.Token, p.ClearingAccountID)
	return inOrder(tx.SendBatch(ctx, clearing),
		func(row pgx.Row) error { return oneRow(errNoRow, row.Scan(new(paystore.State))) },
		func(row pgx.Row) error { return oneRow(paystore.ErrNotClearable, row.Scan(new(paystore.Minor))) },
		func(row pgx.Row) error { return oneRow(errNoLeg, row.Scan(new(uuid.UUID))) })
}

// inOrder reads the answers of a batch, up to the first that is refused. Nothing
// counts before all of them are read: COMMIT is not among them.
func inOrder(answers pgx.BatchResults, reads ...func(pgx.Row) error) (err error) {
	defer func() {
		if closeErr := answers.Close(); err == nil {
			err = closeErr
		}
	}()
	for _, read := range reads {
		if err := read(answers.QueryRow()); err != nil {
			return err
		}
	}
	return nil
}

// oneRow names the absence of a row.
func oneRow(none, err error) error {
	if errors.Is(err, pgx.ErrNoRows) {
		return none
	}
	return err
}

package posting

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/dlockctl/dlockctl/internal/paystore"
)

// MostListed bounds a page of Unsettled and of OpenOnAccount: after a restore every
// payout may be held back.
const MostListed = 10_000

// Unsettled is a payout that the rail's own record has to settle.
type Unsettled struct {
	paystore.Payout

	// HeldBack tells that the closed gate lets nobody claim it (K-7.9).
	HeldBack bool
}

// UnsettledPage is some of them.
type UnsettledPage struct {
	Payouts []Unsettled
	// Total counts them and all that come behind; HeldBack those of them that the closed
	// gate lets nobody claim.
	Total, HeldBack int64
}

// Unsettled lists the payouts that the rail is to be asked about, account by account
// and oldest first: those that the closed gate holds back, RAIL_AMBIGUOUS ones,
// RAIL_SUBMITTED ones whose attempt is older than the forwarding deadline, and those
// of which the rail's payment or rejection is on record and was not followed. It lists
// at most limit of them, from 1 to [MostListed], behind after, the last one of the page
// before, nil for the first page.
func (s *Store) Unsettled(ctx context.Context, deadline time.Duration, after *Unsettled, limit int) (UnsettledPage, error) {
	if err := validLimit(limit); err != nil {
		return UnsettledPage{}, err
	}
	args := []any{deadline.Seconds(), nil, nil, nil, limit}
	if after != nil {
		args[1], args[2], args[3] = after.AccountID, after.CreatedAt, after.PayoutID
	}
	page := UnsettledPage{Payouts: []Unsettled{}}
	err := s.db.Read(ctx, "list the payouts that the rail has to settle", unsettledQuery, args, func(rows pgx.Rows) error {
		return paystore.ScanRows(rows, func() error {
			var u Unsettled
			err := paystore.ScanPayout(rows, &u.Payout, &u.HeldBack, &page.Total, &page.HeldBack)
			page.Payouts = append(page.Payouts, u)
			return err
		})
	})
	if err != nil {
		return UnsettledPage{}, err
	}
	return page, nil
}

// OpenOnAccount lists the account's claimed payouts that are not final, oldest
// first, but for one: who holds the account takes them over and finishes those that
// can be finished before it posts, or an acknowledged one would never be posted
// (K-5.2). except may be empty. It lists at most limit of them, from 1 to [MostListed],
// behind after, the last one of the page before, nil for the first page.
func (s *Store) OpenOnAccount(ctx context.Context, accountID, except string, after *paystore.Payout, limit int) (open []paystore.Payout, err error) {
	id, err := paystore.ParseID("account", accountID)
	if err == nil {
		err = validLimit(limit)
	}
	args := []any{id, nil, nil, nil, limit}
	if err == nil && except != "" {
		args[1], err = paystore.ParseID("payout", except)
	}
	if err != nil {
		return nil, err
	}
	if after != nil {
		args[2], args[3] = after.CreatedAt, after.PayoutID
	}
	err = s.db.Read(ctx, "list the open payouts of account "+id, openOnAccountQuery, args, func(rows pgx.Rows) (err error) {
		open, err = paystore.CollectPayouts(rows)
		return err
	})
	return open, err
}

func validLimit(limit int) error {
	if limit < 1 || limit > MostListed {
		return fmt.Errorf("%w: a list of at most %d payouts; give a limit from 1 to %d", paystore.ErrInvalid, limit, MostListed)
	}
	return nil
}

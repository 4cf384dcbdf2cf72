package scenario

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/google/uuid"

	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/paystore/posting"
)

func (r *rewind) createPayouts(ctx context.Context) (paid string, err error) {
	for _, id := range []*string{&paid, &r.stalled, &r.fresh} {
		p, _, err := r.money.posting.Create(ctx, posting.CreateParams{
			AccountID: r.money.account, AmountMinor: payoutMinor, Currency: r.currency, IdempotencyKey: "drill-" + uuid.NewString(),
		})
		if err != nil {
			return "", err
		}
		*id = p.PayoutID
	}
	return paid, nil
}

// posted reads back a payout's state, and the token of its legs.
func (r *rewind) posted(ctx context.Context, payout string) (state string, fence lockstore.Token, err error) {
	err = r.Pay.QueryRow(ctx, `SELECT state, coalesce((SELECT max(fence) FROM ledger_entry l WHERE l.payout_id = p.payout_id), 0)
		FROM payout p WHERE payout_id = $1`, payout).Scan(&state, &fence)
	if err != nil {
		return "", 0, fmt.Errorf("read back the payout: %w", err)
	}
	return state, fence, nil
}

// standing reads the token last issued and who holds the key, as lockdb is now.
func (r *rewind) standing(ctx context.Context) (last lockstore.Token, owner string, token lockstore.Token, err error) {
	conn, err := r.Rewind.Observe(ctx)
	if err != nil {
		return 0, "", 0, err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	err = conn.QueryRow(ctx, `SELECT (SELECT CASE WHEN is_called THEN last_value ELSE last_value - 1 END FROM fencing_token_seq), coalesce(max(owner_id), ''), coalesce(max(fencing_token), 0)
		FROM lock_entry WHERE lock_key = $1`, r.key).Scan(&last, &owner, &token)
	if err != nil {
		return 0, "", 0, fmt.Errorf("read back lockdb: %w", err)
	}
	return last, owner, token, nil
}

// newcomer tries to open lockdb for grants and to be granted the key; it returns
// the refusal, nil when there was none.
func (r *rewind) newcomer(ctx context.Context) (refusal, err error) {
	store, err := r.Open(ctx)
	if err == nil {
		defer store.Close()
		_, err = r.enter(ctx, store, third)
	}
	return closed(err)
}

// resumes lets the survivor ask until it has an answer: its connections have to
// be found dead first.
func (r *rewind) resumes(ctx context.Context) (refusal, err error) {
	ctx, cancel := context.WithTimeout(ctx, resumesWithin)
	defer cancel()
	for {
		_, err := r.enter(ctx, r.survivor, second)
		_, unreachable := errors.AsType[*lockstore.UnreachableError](err)
		_, unknown := errors.AsType[*lockstore.UnknownOutcomeError](err)
		if !unreachable && !unknown || ctx.Err() != nil {
			return closed(err)
		}
	}
}

// closed tells the refusal to grant anything from other errors. That somebody else
// holds the key is none: who is asked to wait has been let in.
func closed(err error) (refusal, other error) {
	if refusal, isClosed := errors.AsType[*lockstore.GrantsClosedError](err); isClosed {
		return refusal, nil
	}
	if _, held := errors.AsType[*lockstore.HeldError](err); held {
		return nil, nil
	}
	return nil, err
}

func orNone(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, " ")
}

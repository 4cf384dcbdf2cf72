package payresource

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/dlockctl/dlockctl/internal/paystore"
	"github.com/dlockctl/dlockctl/internal/plaintext"
	"github.com/dlockctl/dlockctl/internal/service/payapi"
)

type body[T any] struct{ Body T }

type listIn struct {
	State          []string `query:"state" doc:"In one of these states, separated by commas; any when it is left out"`
	AccountID      string   `query:"account_id"`
	ClaimedBy      string   `query:"claimed_by" doc:"The holder's name"`
	IdempotencyKey string   `query:"idempotency_key"`
	OlderThanMS    int64    `query:"older_than_ms" minimum:"0" maximum:"31536000000000" doc:"What has not moved for so long, by the database's clock"`
	Order          string   `query:"order" enum:"newest,oldest" default:"newest"`
	After          string   `query:"after" doc:"The next of the page before"`
	Limit          int      `query:"limit" minimum:"1" maximum:"1000" default:"100"`
}

func (s *Service) list(ctx context.Context, in *listIn) (*body[payapi.PayoutList], error) {
	args, err := in.args()
	if err != nil {
		return nil, err
	}
	db, err := s.link.DB(ctx)
	if err != nil {
		return nil, err
	}
	query := listNewestQuery
	if in.Order == "oldest" {
		query = listOldestQuery
	}
	var payouts []paystore.Payout
	err = db.Read(ctx, "list payouts", query, args, func(rows pgx.Rows) (err error) {
		payouts, err = paystore.CollectPayouts(rows)
		return err
	})
	if err != nil {
		return nil, err
	}
	out := &body[payapi.PayoutList]{}
	if len(payouts) > in.Limit { // one more than asked for: there is a next page
		payouts = payouts[:in.Limit]
		out.Body.Next = place(payouts[len(payouts)-1])
	}
	out.Body.Payouts = payoutsOf(payouts)
	return out, nil
}

// args are the parameters of the list's query, in its order.
func (in *listIn) args() ([]any, error) {
	states := make([]string, len(in.State))
	for i, text := range in.State {
		state, err := paystore.ParseState(text)
		if err != nil {
			return nil, err
		}
		states[i] = string(state)
	}
	if in.AccountID != "" {
		if _, err := paystore.ParseID("account", in.AccountID); err != nil {
			return nil, err
		}
	}
	var at *time.Time
	var id *string
	if in.After != "" {
		afterAt, afterID, err := parsePlace(in.After)
		if err != nil {
			return nil, err
		}
		at, id = &afterAt, &afterID
	}
	older := (time.Duration(in.OlderThanMS) * time.Millisecond).Seconds()
	return []any{null(in.AccountID), states, null(in.ClaimedBy), null(in.IdempotencyKey), older, at, id, in.Limit + 1}, nil
}

// place is where a list goes on after a payout.
func place(p paystore.Payout) string {
	return p.CreatedAt.Format(time.RFC3339Nano) + "," + p.PayoutID
}

func parsePlace(after string) (at time.Time, payoutID string, err error) {
	text, id, _ := strings.Cut(after, ",")
	at, err = time.Parse(time.RFC3339Nano, text)
	if err == nil {
		payoutID, err = paystore.ParseID("payout", id)
	}
	if err != nil {
		return time.Time{}, "", fmt.Errorf("%w: after %s is no place in the list; give the next of the page before, as it came", paystore.ErrInvalid, plaintext.Shown(after))
	}
	return at, payoutID, nil
}

// null is NULL for a filter that is not set.
func null(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}

func payoutsOf(payouts []paystore.Payout) []payapi.Payout {
	list := make([]payapi.Payout, len(payouts))
	for i, p := range payouts {
		list[i] = payapi.NewPayout(p)
	}
	return list
}

type payoutIn struct {
	PayoutID string `query:"payout_id" required:"true"`
}

func (s *Service) show(ctx context.Context, in *payoutIn) (*body[payapi.PayoutDetail], error) {
	db, err := s.link.DB(ctx)
	if err != nil {
		return nil, err
	}
	p, err := db.Payout(ctx, in.PayoutID)
	return &body[payapi.PayoutDetail]{payapi.NewPayoutDetail(p)}, err
}

type limitIn struct {
	Limit int `query:"limit" minimum:"1" maximum:"1000" default:"100"`
}

func (s *Service) unsettled(ctx context.Context, in *limitIn) (*body[payapi.UnsettledList], error) {
	store, err := s.store(ctx)
	if err != nil {
		return nil, err
	}
	found, err := store.Unsettled(ctx, s.opts.RailDeadline, nil, in.Limit)
	if err != nil {
		return nil, err
	}
	list := payapi.UnsettledList{Payouts: []payapi.UnsettledPayout{}, More: found.Total > int64(in.Limit)}
	for _, u := range found.Payouts {
		list.Payouts = append(list.Payouts, payapi.UnsettledPayout{Payout: payapi.NewPayout(u.Payout), HeldBack: u.HeldBack})
	}
	return &body[payapi.UnsettledList]{list}, nil
}

type openIn struct {
	AccountID string `query:"account_id" required:"true"`
	Except    string `query:"except" doc:"A payout that is left out"`
}

func (s *Service) open(ctx context.Context, in *openIn) (*body[payapi.PayoutList], error) {
	store, err := s.store(ctx)
	if err != nil {
		return nil, err
	}
	open, err := store.OpenOnAccount(ctx, in.AccountID, in.Except, nil, payapi.MaxLimit)
	if err != nil {
		return nil, err
	}
	// Whoever gets them finishes them, and asks again: no place to go on from.
	return &body[payapi.PayoutList]{payapi.PayoutList{Payouts: payoutsOf(open)}}, nil
}

type accountsIn struct {
	Currency string `query:"currency"`
	Clearing bool   `query:"clearing" doc:"Clearing accounts only"`
	After    string `query:"after" doc:"The next of the page before"`
	Limit    int    `query:"limit" minimum:"1" maximum:"1000" default:"100"`
}

func (s *Service) accounts(ctx context.Context, in *accountsIn) (*body[payapi.AccountList], error) {
	db, err := s.link.DB(ctx)
	if err != nil {
		return nil, err
	}
	found, err := db.Accounts(ctx, paystore.AccountFilter{Currency: in.Currency, Clearing: in.Clearing, After: in.After, Limit: in.Limit + 1})
	if err != nil {
		return nil, err
	}
	list := payapi.AccountList{Accounts: []payapi.Account{}}
	if len(found) > in.Limit {
		found = found[:in.Limit]
		list.Next = found[len(found)-1].AccountID
	}
	for _, a := range found {
		list.Accounts = append(list.Accounts, payapi.NewAccount(a))
	}
	return &body[payapi.AccountList]{list}, nil
}

type accountIn struct {
	AccountID string `query:"account_id" required:"true"`
}

func (s *Service) account(ctx context.Context, in *accountIn) (*body[payapi.Account], error) {
	db, err := s.link.DB(ctx)
	if err != nil {
		return nil, err
	}
	a, err := db.Account(ctx, in.AccountID)
	return &body[payapi.Account]{payapi.NewAccount(a)}, err
}

func (s *Service) highest(ctx context.Context, _ *struct{}) (*body[payapi.Highest], error) {
	token, source, err := s.link.Highest(ctx, highestQuery)
	return &body[payapi.Highest]{payapi.NewHighest(token, source)}, err
}

package payresource

import (
	"context"
	"net/http"

	"github.com/dlockctl/dlockctl/internal/paystore"
	"github.com/dlockctl/dlockctl/internal/paystore/posting"
	"github.com/dlockctl/dlockctl/internal/service/payapi"
)

type createIn struct{ Body payapi.CreatePayout }

type createOut struct {
	Status int
	Body   payapi.Payout
}

func (s *Service) create(ctx context.Context, in *createIn) (*createOut, error) {
	amount, err := in.Body.Amount()
	if err != nil {
		return nil, err
	}
	store, err := s.store(ctx)
	if err != nil {
		return nil, err
	}
	p, created, err := store.Create(ctx, posting.CreateParams{
		PayoutID: in.Body.PayoutID, AccountID: in.Body.AccountID, AmountMinor: amount, Currency: in.Body.Currency, IdempotencyKey: in.Body.IdempotencyKey,
	})
	if err != nil {
		return nil, err
	}
	out := &createOut{Status: http.StatusOK, Body: payapi.NewPayout(p)}
	if created {
		out.Status = http.StatusCreated
	}
	return out, nil
}

// under reads the token and opens the store: what every move begins with.
func (s *Service) under(ctx context.Context, header string) (*posting.Store, paystore.Token, error) {
	token, err := payapi.ParseToken(header)
	if err != nil {
		return nil, 0, err
	}
	store, err := s.store(ctx)
	return store, token, err
}

type claimIn struct {
	Token string `header:"X-Fencing-Token" doc:"The token of the account's lock"`
	Body  payapi.ClaimPayout
}

func (s *Service) claim(ctx context.Context, in *claimIn) (*answer[payapi.Payout], error) {
	store, token, err := s.under(ctx, in.Token)
	if err != nil {
		return nil, err
	}
	p, err := store.Claim(ctx, in.Body.PayoutID, in.Body.Holder, token)
	return answered(token, payapi.NewPayout(p)), err
}

func (s *Service) release(ctx context.Context, in *moved) (*answer[payapi.Released], error) {
	store, token, err := s.under(ctx, in.Token)
	if err != nil {
		return nil, err
	}
	released, err := store.Release(ctx, in.Body.PayoutID, token)
	return answered(token, payapi.Released{Released: released}), err
}

func (s *Service) checkFunds(ctx context.Context, in *moved) (*answer[payapi.Postable], error) {
	store, token, err := s.under(ctx, in.Token)
	if err != nil {
		return nil, err
	}
	err = store.CheckFunds(ctx, in.Body.PayoutID, token)
	return answered(token, payapi.Postable{PayoutID: in.Body.PayoutID, Postable: err == nil}), err
}

// move is the operation of a move that needs a payout and a token alone.
func (s *Service) move(how func(*posting.Store, context.Context, string, paystore.Token) (paystore.Payout, error)) func(context.Context, *moved) (*answer[payapi.Payout], error) {
	return func(ctx context.Context, in *moved) (*answer[payapi.Payout], error) {
		store, token, err := s.under(ctx, in.Token)
		if err != nil {
			return nil, err
		}
		p, err := how(store, ctx, in.Body.PayoutID, token)
		return answered(token, payapi.NewPayout(p)), err
	}
}

func (s *Service) post(ctx context.Context, in *moved) (*answer[payapi.Posting], error) {
	store, token, err := s.under(ctx, in.Token)
	if err != nil {
		return nil, err
	}
	p, err := store.Post(ctx, in.Body.PayoutID, token)
	body := payapi.Posting{
		PayoutID: p.PayoutID, AccountID: p.AccountID, ClearingAccountID: p.ClearingAccountID,
		AmountMinor: p.AmountMinor, AmountMinorStr: p.AmountMinor.String(), Currency: p.Currency,
		Token: p.Token, TokenStr: p.Token.String(), DebitEntryID: p.DebitEntryID, CreditEntryID: p.CreditEntryID,
		BalanceMinor: p.BalanceMinor, AlreadyPosted: p.AlreadyPosted,
	}
	if p.BalanceMinor != nil {
		body.BalanceMinorStr = p.BalanceMinor.String()
	}
	return answered(token, body), err
}

type evidenceIn struct {
	Token string `header:"X-Fencing-Token" doc:"The token of the account's lock"`
	Body  payapi.SettleByEvidence
}

// settleBy is the operation of a move by evidence.
func (s *Service) settleBy(how func(*posting.Store, context.Context, posting.ResolveParams) (paystore.Payout, error)) func(context.Context, *evidenceIn) (*answer[payapi.Payout], error) {
	return func(ctx context.Context, in *evidenceIn) (*answer[payapi.Payout], error) {
		store, token, err := s.under(ctx, in.Token)
		if err != nil {
			return nil, err
		}
		p, err := how(store, ctx, posting.ResolveParams{
			PayoutID: in.Body.PayoutID, Token: token, Source: in.Body.Source, Verdict: in.Body.Verdict,
			Evidence: in.Body.Evidence, Operator: in.Body.Operator, Reason: in.Body.Reason,
		})
		return answered(token, payapi.NewPayout(p)), err
	}
}

type giveUpIn struct {
	Token string `header:"X-Fencing-Token" doc:"The token that holds a CLAIMED payout; left out for a PENDING one"`
	Body  payapi.GiveUp
}

func (s *Service) giveUp(ctx context.Context, in *giveUpIn) (*answer[payapi.Payout], error) {
	var token paystore.Token
	if in.Token != "" {
		var err error
		if token, err = payapi.ParseToken(in.Token); err != nil {
			return nil, err
		}
	}
	store, err := s.store(ctx)
	if err != nil {
		return nil, err
	}
	p, err := store.GiveUp(ctx, in.Body.PayoutID, token, in.Body.Operator, in.Body.Reason)
	return answered(token, payapi.NewPayout(p)), err
}

type raiseIn struct{ Body payapi.RaiseFence }

func (s *Service) raiseFence(ctx context.Context, in *raiseIn) (*answer[payapi.Raised], error) {
	to, err := in.Body.To()
	if err != nil {
		return nil, err
	}
	store, err := s.store(ctx)
	if err != nil {
		return nil, err
	}
	from, raised, err := store.RaiseFence(ctx, in.Body.AccountID, to, in.Body.Operator, in.Body.Reason)
	return answered(to, payapi.NewRaised(in.Body.AccountID, from, to, raised)), err
}

// answered is a body under its token; the error beside it, if any, takes its place.
func answered[T any](token paystore.Token, body T) *answer[T] {
	out := &answer[T]{Body: body}
	if token != 0 {
		out.Token = token.String()
	}
	return out
}

package payresource

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/dlockctl/dlockctl/internal/paystore/posting"
	"github.com/dlockctl/dlockctl/internal/service/httpd"
	"github.com/dlockctl/dlockctl/internal/service/payapi"
)

// moved is the input of a move under a token.
type moved struct {
	Token string `header:"X-Fencing-Token" doc:"The token of the account's lock"`
	Body  payapi.PayoutRef
}

// answer is a body, and the token that was presented for it.
type answer[T any] struct {
	Token string `header:"X-Fencing-Token"`
	Body  T
}

// Register adds the operations to a service's API, each with its scope.
func (s *Service) Register(api huma.API) {
	pay, look := httpd.Require(httpd.Pay), httpd.Require(httpd.Pay, httpd.Audit)
	operate := httpd.Require(httpd.Operate)

	add(s, api, operation(http.MethodPost, payapi.PathPayouts, "create-payout", "Make a payout: 201, or 200 and the one that stands",
		"The same idempotency key and content again is the payout that stands.", pay), s.create)
	add(s, api, operation(http.MethodGet, payapi.PathPayouts, "list-payouts", "List payouts", "A page at a time: next is the parameter after of the next one.", look), s.list)
	add(s, api, operation(http.MethodGet, payapi.PathPayout, "show-payout", "Show a payout with everything recorded of it", "", look), s.show)
	add(s, api, operation(http.MethodGet, payapi.PathUnsettled, "list-unsettled-payouts", "List the payouts that the rail has to settle", "", look), s.unsettled)
	add(s, api, operation(http.MethodGet, payapi.PathOpen, "list-open-payouts", "List what an account's holder takes over first",
		"Claimed payouts of the account that are not final, oldest first (K-5.2).", look), s.open)
	add(s, api, operation(http.MethodPost, payapi.PathClaim, "claim-payout", "Claim a payout, or take it over under a higher token", "", pay), s.claim)
	add(s, api, operation(http.MethodPost, payapi.PathRelease, "release-payout", "Give a claimed payout back", "", pay), s.release)
	add(s, api, operation(http.MethodPost, payapi.PathCheckFunds, "check-funds", "Look whether the payout could be posted (K-4.9)", "Nothing is reserved.", pay), s.checkFunds)
	add(s, api, operation(http.MethodPost, payapi.PathSubmit, "submit-payout", "Move a payout to the rail: CLAIMED to RAIL_SUBMITTED",
		"Nothing is sent to the rail: rail-proxy does that next.", pay), s.move((*posting.Store).Submit))
	add(s, api, operation(http.MethodPost, payapi.PathSettle, "settle-payout", "Move a payout as its rail attempt says", "", pay), s.move((*posting.Store).Settle))
	add(s, api, operation(http.MethodPost, payapi.PathPost, "post-payout", "Post an acknowledged payout to the ledger", "", pay), s.post)
	add(s, api, operation(http.MethodPost, payapi.PathReject, "reject-payout", "Fail a payout that cannot be paid", "", pay), s.move((*posting.Store).Reject))
	add(s, api, operation(http.MethodPost, payapi.PathResolve, "resolve-payout", "Move a RAIL_AMBIGUOUS payout by evidence", "", pay), s.settleBy((*posting.Store).Resolve))
	add(s, api, operation(http.MethodPost, payapi.PathAttest, "attest-payout", "Keep what the rail's record says, and move nothing (K-7.9)", "", pay), s.settleBy((*posting.Store).Attest))
	add(s, api, operation(http.MethodPost, payapi.PathGiveUp, "give-up-payout", "Fail a payout before the rail was asked",
		"A PENDING one without a token, a CLAIMED one with the token that holds it.", operate), s.giveUp)
	add(s, api, operation(http.MethodGet, payapi.PathAccounts, "list-accounts", "List accounts", "", look), s.accounts)
	add(s, api, operation(http.MethodGet, payapi.PathAccount, "show-account", "Show an account", "", look), s.account)
	add(s, api, operation(http.MethodPost, payapi.PathRaiseFence, "raise-fence", "Raise an account's fence (K-3.2)", "", operate), s.raiseFence)
	add(s, api, operation(http.MethodGet, payapi.PathHighest, "highest-token", "The highest token in paydb (K-7.6)", "", httpd.Require(httpd.Acquire, httpd.Audit)), s.highest)
}

func operation(method, path, id, summary, description string, scope func(*huma.Operation)) huma.Operation {
	op := huma.Operation{Method: method, Path: path, OperationID: id, Summary: summary, Description: description}
	scope(&op)
	return op
}

// add registers an operation whose errors become problems. A paydb that does not answer,
// and does not hang up either, ends it: what was sent by then is unknown (K-2.9).
func add[I, O any](s *Service, api huma.API, op huma.Operation, handle func(context.Context, *I) (*O, error)) {
	huma.Register(api, op, func(ctx context.Context, in *I) (*O, error) {
		ctx, cancel := context.WithTimeout(ctx, s.opts.Timeout)
		defer cancel()
		out, err := handle(ctx, in)
		if err != nil {
			return nil, s.fail(ctx, err)
		}
		return out, nil
	})
}

package railproxy

import (
	"context"
	"errors"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/dlockctl/dlockctl/internal/paystore"
	"github.com/dlockctl/dlockctl/internal/paystore/rail"
	"github.com/dlockctl/dlockctl/internal/paystore/rail/httprail"
	"github.com/dlockctl/dlockctl/internal/service/httpd"
	"github.com/dlockctl/dlockctl/internal/service/payapi"
)

// presented is the input of what a token is needed for.
type presented struct {
	Token string `header:"X-Fencing-Token" doc:"The token of the account's lock"`
	Body  payapi.PayoutRef
}

// attempted is an attempt, and the token that was presented for it.
type attempted struct {
	Token string `header:"X-Fencing-Token"`
	Body  payapi.Attempt
}

type body[T any] struct{ Body T }

// Register adds the operations to a service's API, each with its scope.
func (s *Service) Register(api huma.API) {
	scope := httpd.Require(httpd.Rail)
	add(s, api, operation(http.MethodPost, payapi.PathRailSubmit, "submit-attempt", "Forward a payout to the rail, once in its life",
		"The attempt is recorded first; its answer is waited for until the forwarding deadline. An attempt that stands already is the answer, "+
			"and nothing is forwarded. An unknown outcome is no error: outcome is TIMEOUT, or absent while another call waits for it.", scope), s.submit)
	add(s, api, operation(http.MethodPost, payapi.PathRailAsk, "ask-rail", "Ask the rail what became of an attempt, and record it",
		"For an attempt that is in flight or TIMEOUT; a settled one is returned as it is.", scope), s.ask)
	add(s, api, operation(http.MethodPost, payapi.PathRailAdopt, "adopt-attempt", "Record an attempt that the rail has answered and paydb has forgotten (K-7.9)",
		"The rail itself is asked, and nothing is forwarded.", scope), s.adopt)
	add(s, api, operation(http.MethodGet, payapi.PathRailLookup, "look-up-payout", "Ask the rail what it knows of a payout, and record nothing", "", scope), s.lookup)
	add(s, api, operation(http.MethodPost, payapi.PathRaiseMark, "raise-mark", "Raise the rail's mark of an account (K-3.2)", "", httpd.Require(httpd.Operate)), s.raiseMark)
	add(s, api, operation(http.MethodGet, payapi.PathHighest, "highest-token", "The highest token in paydb (K-7.6)", "", httpd.Require(httpd.Acquire, httpd.Audit)), s.highest)
}

func operation(method, path, id, summary, description string, scope func(*huma.Operation)) huma.Operation {
	op := huma.Operation{Method: method, Path: path, OperationID: id, Summary: summary, Description: description}
	scope(&op)
	return op
}

// add registers an operation whose errors become problems. A paydb that does not answer,
// and does not hang up either, ends it; the payment goes on without its caller.
func add[I, O any](s *Service, api huma.API, op huma.Operation, handle func(context.Context, *I) (*O, error)) {
	huma.Register(api, op, func(ctx context.Context, in *I) (*O, error) {
		ctx, cancel := context.WithTimeout(ctx, s.opts.Deadline+rail.DefaultPersist+spare)
		defer cancel()
		out, err := handle(ctx, in)
		if err != nil {
			return nil, s.fail(ctx, err)
		}
		return out, nil
	})
}

// unanswered names a question that the rail did not answer; what may have been done
// stays unknown.
func unanswered(err error) error {
	_, unknown := errors.AsType[*paystore.UnknownOutcomeError](err)
	if e, ok := errors.AsType[*httprail.Error](err); ok && !unknown {
		return &payapi.RailError{Message: e.Error()}
	}
	return err
}

// outcomeUnknown is the label of an attempt that is in flight.
const outcomeUnknown = "in_flight"

func (s *Service) submit(ctx context.Context, in *presented) (*attempted, error) {
	token, err := payapi.ParseToken(in.Token)
	if err != nil {
		return nil, err
	}
	door, err := s.door(ctx)
	if err != nil {
		return nil, err
	}
	a, err := door.Submit(ctx, in.Body.PayoutID, token)
	if err != nil {
		return nil, err
	}
	if !a.Repeated {
		label := string(a.Outcome)
		if label == "" {
			label = outcomeUnknown
		}
		s.metrics.Attempts.WithLabelValues(label).Inc()
	}
	return &attempted{token.String(), attempt(a)}, nil
}

type askIn struct{ Body payapi.PayoutRef }

func (s *Service) ask(ctx context.Context, in *askIn) (*body[payapi.Attempt], error) {
	door, err := s.door(ctx)
	if err != nil {
		return nil, err
	}
	a, err := door.Ask(ctx, in.Body.PayoutID)
	return &body[payapi.Attempt]{attempt(a)}, err
}

func (s *Service) adopt(ctx context.Context, in *presented) (*attempted, error) {
	token, err := payapi.ParseToken(in.Token)
	if err != nil {
		return nil, err
	}
	door, err := s.door(ctx)
	if err != nil {
		return nil, err
	}
	a, err := door.Adopt(ctx, in.Body.PayoutID, token)
	return &attempted{token.String(), attempt(a)}, err
}

type lookupIn struct {
	PayoutID string `query:"payout_id" required:"true"`
}

func (s *Service) lookup(ctx context.Context, in *lookupIn) (*body[payapi.Answer], error) {
	door, err := s.door(ctx)
	if err != nil {
		return nil, err
	}
	said, err := door.Lookup(ctx, in.PayoutID)
	return &body[payapi.Answer]{*answer(said)}, err
}

type raiseIn struct{ Body payapi.RaiseMark }

func (s *Service) raiseMark(ctx context.Context, in *raiseIn) (*body[payapi.Raised], error) {
	to, err := in.Body.To()
	if err != nil {
		return nil, err
	}
	door, err := s.door(ctx)
	if err != nil {
		return nil, err
	}
	from, raised, err := door.RaiseMark(ctx, in.Body.AccountID, to)
	return &body[payapi.Raised]{payapi.NewRaised(in.Body.AccountID, from, to, raised)}, err
}

func (s *Service) highest(ctx context.Context, _ *struct{}) (*body[payapi.Highest], error) {
	token, source, err := s.link.Highest(ctx, highestQuery)
	return &body[payapi.Highest]{payapi.NewHighest(token, source)}, err
}

// attempt is the wire form of what the store answers.
func attempt(a rail.Attempt) payapi.Attempt {
	w := payapi.NewAttempt(a.Attempt)
	w.Repeated, w.Trouble = a.Repeated, a.Trouble
	if a.Said != (rail.Answer{}) {
		w.Said = answer(a.Said)
	}
	return w
}

func answer(said rail.Answer) *payapi.Answer {
	w := &payapi.Answer{Outcome: said.Outcome, Reference: said.Reference, Text: said.Text, AmountMinor: said.AmountMinor, Currency: said.Currency}
	if said.AmountMinor != 0 {
		w.AmountMinorStr = said.AmountMinor.String()
	}
	return w
}

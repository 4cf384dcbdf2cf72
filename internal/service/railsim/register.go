package railsim

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/dlockctl/dlockctl/internal/paystore"
	"github.com/dlockctl/dlockctl/internal/service/httpd"
	"github.com/dlockctl/dlockctl/internal/service/payapi"
)

// The paths: the protocol's own, and the simulator's.
const (
	PathPayments    = "/payments"
	PathSimPayments = "/sim/payments"
	PathSimMood     = "/sim/mood"
)

// notFound is what the rail says of a key that it does not know.
const notFound paystore.Outcome = "NOT_FOUND"

// answer is the rail's answer of docs/rail.md.
type answer struct {
	IdempotencyKey string           `json:"idempotency_key"`
	Outcome        paystore.Outcome `json:"outcome"`
	Reference      string           `json:"reference,omitempty"`
	Text           string           `json:"text"`
	AmountMinor    *paystore.Minor  `json:"amount_minor,omitempty"`
	AmountMinorStr string           `json:"amount_minor_str,omitempty"`
	Currency       string           `json:"currency,omitempty"`
}

// paymentBody is a payment of docs/rail.md.
type paymentBody struct {
	IdempotencyKey string `json:"idempotency_key" minLength:"1" maxLength:"1024"`
	PayoutID       string `json:"payout_id"`
	AccountID      string `json:"account_id"`
	AmountMinor    int64  `json:"amount_minor" minimum:"1"`
	AmountMinorStr string `json:"amount_minor_str"`
	Currency       string `json:"currency"`

	NotAfter time.Time `json:"not_after,omitzero" required:"false" doc:"Read later than this, it is refused and never paid"`
}

type paymentIn struct{ Body paymentBody }

type statusIn struct {
	IdempotencyKey string `query:"idempotency_key" required:"true" minLength:"1"`
}

// Ready is always so: a rail without a journal, or with one that is written to.
func (s *Simulator) Ready(context.Context) []httpd.Condition {
	s.mu.Lock()
	defer s.mu.Unlock()
	state := httpd.Condition{Name: "state_file", State: httpd.Good}
	if s.broken != nil {
		state.State, state.Reason = httpd.Failed, s.broken.Error()
	}
	return []httpd.Condition{state, {Name: "mood", State: httpd.Good, Reason: string(s.mood.Name)}}
}

// Register adds the protocol and the simulator's own operations to an API.
func (s *Simulator) Register(api huma.API) {
	scope := httpd.Require(httpd.Rail)
	op := operation(http.MethodPost, PathPayments, "pay", "Ask for a payment", scope)
	op.Responses = answers(api)
	huma.Register(api, op, s.pay)
	op = operation(http.MethodGet, PathPayments, "ask", "Ask what became of a payment", scope)
	op.Responses = answers(api)
	huma.Register(api, op, s.ask)
	huma.Register(api, operation(http.MethodGet, PathSimPayments, "list-payments", "List what reached the rail", httpd.Require(httpd.Rail, httpd.Audit)), s.listPayments)
	huma.Register(api, operation(http.MethodGet, PathSimMood, "show-mood", "Show the rail's mood", httpd.Require(httpd.Rail, httpd.Audit)), s.showMood)
	huma.Register(api, operation(http.MethodPut, PathSimMood, "set-mood", "Put the rail into a mood", httpd.Require(httpd.Operate)), s.putMood)
}

func operation(method, path, id, summary string, scope func(*huma.Operation)) huma.Operation {
	op := huma.Operation{Method: method, Path: path, OperationID: id, Summary: summary}
	scope(&op)
	return op
}

// answers documents a body that is written by hand.
func answers(api huma.API) map[string]*huma.Response {
	schema := api.OpenAPI().Components.Schemas.Schema(reflect.TypeFor[answer](), true, "Answer")
	return map[string]*huma.Response{"200": {Description: "OK", Content: map[string]*huma.MediaType{"application/json": {Schema: schema}}}}
}

func (s *Simulator) pay(ctx context.Context, in *paymentIn) (*huma.StreamResponse, error) {
	b := in.Body
	if b.AmountMinorStr != strconv.FormatInt(b.AmountMinor, 10) {
		return nil, payapi.Problem(fmt.Errorf("%w: amount_minor_str %q is not the amount_minor %d", paystore.ErrInvalid, b.AmountMinorStr, b.AmountMinor))
	}
	p, manner, delay, err := s.request(entry{
		Key: b.IdempotencyKey, PayoutID: b.PayoutID, AccountID: b.AccountID,
		AmountMinor: paystore.Minor(b.AmountMinor), Currency: b.Currency, At: time.Now().UTC(),
	}, b.NotAfter)
	if err != nil {
		return nil, err
	}
	switch manner {
	case Silent:
		wait(ctx, nil)
		panic(http.ErrAbortHandler) // no answer at all, not even an empty one
	case LoseAnswer:
		panic(http.ErrAbortHandler)
	case Delay:
		timer := time.NewTimer(delay)
		defer timer.Stop()
		wait(ctx, timer.C)
	case Ack, Reject, AnswerTwice, Flaky, Broken:
	}
	times := 1
	if manner == AnswerTwice {
		times = 2
	}
	return say(of(p), times), nil
}

// wait returns when the client hangs up, the simulator ends, or the time has come.
func wait(ctx context.Context, time <-chan time.Time) {
	select {
	case <-time:
	case <-ctx.Done():
	case <-httpd.Draining(ctx):
	}
}

func (s *Simulator) ask(ctx context.Context, in *statusIn) (*huma.StreamResponse, error) {
	p, known, silent := s.status(in.IdempotencyKey)
	switch {
	case silent:
		wait(ctx, nil)
		panic(http.ErrAbortHandler)
	case !known:
		return say(answer{IdempotencyKey: in.IdempotencyKey, Outcome: notFound, Text: "no such payment"}, 1), nil
	}
	return say(of(p), 1), nil
}

func of(p Payment) answer {
	text := "booked"
	if p.Outcome == paystore.OutcomeRejected {
		text = "refused: it came too late, or the simulator's mood is such"
	}
	return answer{
		IdempotencyKey: p.IdempotencyKey, Outcome: p.Outcome, Reference: p.Reference, Text: text,
		AmountMinor: &p.AmountMinor, AmountMinorStr: p.AmountMinorStr, Currency: p.Currency,
	}
}

// say writes an answer, so many times.
func say(a answer, times int) *huma.StreamResponse {
	return &huma.StreamResponse{Body: func(ctx huma.Context) {
		ctx.SetHeader("Content-Type", "application/json")
		ctx.SetStatus(http.StatusOK)
		to := json.NewEncoder(ctx.BodyWriter())
		for range times {
			_ = to.Encode(a) // a client that has gone asks again
		}
	}}
}

type listIn struct {
	IdempotencyKey string `query:"idempotency_key" doc:"This one alone"`
	Offset         int    `query:"offset" minimum:"0"`
	Limit          int    `query:"limit" minimum:"1" maximum:"10000" default:"1000"`
}

// PaymentList is a page of payments, and the counts of all.
type PaymentList struct {
	Totals   Totals    `json:"totals"`
	Payments []Payment `json:"payments"`
}

type listOut struct{ Body PaymentList }

func (s *Simulator) listPayments(_ context.Context, in *listIn) (*listOut, error) {
	out := &listOut{}
	out.Body.Payments, out.Body.Totals = s.list(in.IdempotencyKey, in.Offset, in.Limit)
	return out, nil
}

type moodBody struct{ Body Mood }

func (s *Simulator) showMood(context.Context, *struct{}) (*moodBody, error) {
	return &moodBody{s.moodNow()}, nil
}

func (s *Simulator) putMood(_ context.Context, in *moodBody) (*moodBody, error) {
	if err := s.setMood(in.Body); err != nil {
		return nil, payapi.Problem(err)
	}
	return &moodBody{s.moodNow()}, nil
}

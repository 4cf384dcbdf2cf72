package rail

import (
	"context"
	"strings"
	"time"

	"github.com/dlockctl/dlockctl/internal/paystore"
)

// Rail is the payment rail behind the proxy.
type Rail interface {
	// Submit asks for one payment. Nothing of it may leave for the rail once
	// Request.Left says so; the answer is welcome until ctx ends. An error says nothing
	// about what the rail did: the attempt's outcome is unknown.
	Submit(ctx context.Context, req Request) (Answer, error)
	// Status asks what the rail knows of an idempotency key.
	Status(ctx context.Context, key string) (Answer, error)
}

// Request is one payment, as the payout row has it (K-4.10).
type Request struct {
	// Key is the payout's idempotency key, always (K-7.9).
	Key         string         `json:"idempotency_key"`
	PayoutID    string         `json:"payout_id"`
	AccountID   string         `json:"account_id"`
	AmountMinor paystore.Minor `json:"amount_minor"`
	Currency    string         `json:"currency"`
	// SendBy is the forwarding deadline (K-4.11); see [Request.Left]. The rail is told:
	// what it reads later it must not pay.
	SendBy time.Time `json:"-"`
}

// Left is how long the request may still be sent, zero or less for no longer, by
// whichever of the two clocks says less: the monotonic one stands still while a
// machine is suspended (K-2.10).
func (r Request) Left() time.Duration { return until(r.SendBy) }

func until(deadline time.Time) time.Duration {
	now := time.Now()
	return min(deadline.Sub(now), deadline.Round(0).Sub(now.Round(0)))
}

// NotFound is what Status says of a key that the rail has no record of. It is no
// outcome of an attempt.
const NotFound paystore.Outcome = "NOT_FOUND"

// Answer is what the rail says.
type Answer struct {
	// Outcome is ACKED, REJECTED or NotFound; empty while the rail has the payment
	// and has not decided.
	Outcome paystore.Outcome `json:"outcome,omitempty"`
	// Reference is the rail's own name of the payment.
	Reference string `json:"reference,omitempty"`
	// Text is what the rail adds for a person.
	Text string `json:"text,omitempty"`
	// AmountMinor and Currency are what the rail was asked to pay, as it has them; 0
	// and empty where it does not say.
	AmountMinor paystore.Minor `json:"amount_minor,omitempty"`
	Currency    string         `json:"currency,omitempty"`
}

// recordable is the answer with texts that paydb can hold: an acknowledgement is not
// lost over a character.
func (a Answer) recordable() Answer {
	a.Reference, a.Text = storable(a.Reference), storable(a.Text)
	return a
}

func storable(text string) string {
	return strings.ToValidUTF8(strings.ReplaceAll(text, "\x00", "\uFFFD"), "\uFFFD")
}

// final tells that the answer moves an attempt.
func (a Answer) final() bool {
	return a.Outcome == paystore.OutcomeAcked || a.Outcome == paystore.OutcomeRejected
}

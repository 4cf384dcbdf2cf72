package paystore

import (
	"encoding/json"
	"strconv"
	"time"
)

// MaxToken is the highest fencing token accepted at any edge (K-1.6). The same
// number stands in the CHECK constraints of migrations/paydb/V4.
const MaxToken Token = 1 << 53

// Token is a fencing token: one value names one grant for all time (K-1.3).
type Token int64

// String returns the token in decimal.
func (t Token) String() string { return strconv.FormatInt(int64(t), 10) }

// Minor is money in minor units: cents, not euros (K-5.4).
type Minor int64

// String returns the amount in decimal minor units.
func (m Minor) String() string { return strconv.FormatInt(int64(m), 10) }

// Account is one row of account.
type Account struct {
	AccountID    string `json:"account_id"`
	Currency     string `json:"currency"`
	BalanceMinor Minor  `json:"balance_minor"`
	// Fence is the highest token that ever wrote the account; 0 before the first.
	Fence     Token     `json:"fence"`
	UpdatedAt time.Time `json:"updated_at"`
	// Clearing tells a clearing account: the other side of every posting of its
	// currency, without a fence (K-4.7).
	Clearing bool `json:"clearing"`
	// OpeningMinor is what it held before its first leg, nil when nobody recorded
	// it: the account is unanchored (K-4.8).
	OpeningMinor *Minor `json:"opening_minor,omitempty"`
	// OpenPayouts counts its payouts that are not POSTED, FAILED or ABANDONED.
	OpenPayouts int64 `json:"open_payouts"`
}

// Payout is one row of payout.
type Payout struct {
	PayoutID    string `json:"payout_id"`
	AccountID   string `json:"account_id"`
	AmountMinor Minor  `json:"amount_minor"`
	Currency    string `json:"currency"`
	State       State  `json:"state"`
	// ClaimedBy and ClaimToken are empty and 0 when there is no claim.
	ClaimedBy  string `json:"claimed_by,omitempty"`
	ClaimToken Token  `json:"claim_token,omitempty"`
	// IdempotencyKey is the rail's key too, always (K-7.9).
	IdempotencyKey string    `json:"idempotency_key"`
	AttemptCount   int32     `json:"attempt_count"`
	CreatedAt      time.Time `json:"created_at"`
	UpdatedAt      time.Time `json:"updated_at"`
}

// PayoutDetail is a payout with everything that was recorded of it, each list in
// the order it was written.
type PayoutDetail struct {
	Payout

	Claims      []ClaimRecord `json:"claims"`
	Attempts    []Attempt     `json:"attempts"`
	Legs        []Leg         `json:"legs"`
	Resolutions []Resolution  `json:"resolutions"`
}

// ClaimRecord is one claim that a payout ever had (K-5.2).
type ClaimRecord struct {
	Token     Token     `json:"token"`
	ClaimedBy string    `json:"claimed_by"`
	ClaimedAt time.Time `json:"claimed_at"`
}

// Attempt is one row of rail_submission.
type Attempt struct {
	SubmissionID   string `json:"submission_id"`
	PayoutID       string `json:"payout_id"`
	IdempotencyKey string `json:"idempotency_key"`
	PresentedToken Token  `json:"presented_token"`
	// Outcome is empty while the attempt is in flight.
	Outcome       Outcome   `json:"outcome,omitempty"`
	RailReference string    `json:"rail_reference,omitempty"`
	SubmittedAt   time.Time `json:"submitted_at"`
	ResolvedAt    time.Time `json:"resolved_at,omitzero"`
}

// Direction is the side of a leg.
type Direction string

// The directions of K-4.7: the payer is debited, a clearing account credited.
const (
	Debit  Direction = "DEBIT"
	Credit Direction = "CREDIT"
)

// Leg is one row of ledger_entry.
type Leg struct {
	EntryID     string    `json:"entry_id"`
	PayoutID    string    `json:"payout_id"`
	AccountID   string    `json:"account_id"`
	Direction   Direction `json:"direction"`
	AmountMinor Minor     `json:"amount_minor"`
	// Fence is the token that authored the leg.
	Fence     Token     `json:"fence"`
	CreatedAt time.Time `json:"created_at"`
}

// Resolution is one row of payout_resolution: why an unknown rail outcome was
// settled as it was (K-5.3).
type Resolution struct {
	ResolutionID  int64           `json:"resolution_id"`
	Source        Source          `json:"source"`
	Verdict       Verdict         `json:"verdict"`
	Evidence      json.RawMessage `json:"evidence"`
	Operator      string          `json:"operator"`
	Reason        string          `json:"reason"`
	RecordedAt    time.Time       `json:"recorded_at"`
	LoginRole     string          `json:"login_role"`
	ClientAddress string          `json:"client_address,omitempty"`
}

// Outcome is what became of a rail attempt. In flight it is none: NULL, and "" here.
type Outcome string

// The outcomes of an attempt (K-5.3).
const (
	OutcomeAcked    Outcome = "ACKED"
	OutcomeRejected Outcome = "REJECTED"
	// OutcomeTimeout is unknown: the proxy gave up waiting.
	OutcomeTimeout Outcome = "TIMEOUT"
	// OutcomeFenced was forwarded nowhere.
	OutcomeFenced Outcome = "FENCED"
)

// Source is who gave the evidence of a resolution.
type Source string

// The sources of payout_resolution.
const (
	SourceOperator Source = "operator"
	// SourceRail is the rail's own answer to a status query.
	SourceRail Source = "rail"
)

// Sources lists both.
func Sources() []Source { return []Source{SourceOperator, SourceRail} }

// Verdict is how an unknown rail outcome was settled, with evidence.
type Verdict string

// The verdicts of payout_resolution (K-5.3, K-7.9).
const (
	VerdictPaid     Verdict = "PAID"
	VerdictRejected Verdict = "REJECTED"
	// VerdictNotFound says that the rail has no record of the payout's key.
	VerdictNotFound Verdict = "NOT_FOUND"
	// VerdictUndetermined says that it will never be known. It opens no gate.
	VerdictUndetermined Verdict = "UNDETERMINED"
)

// Verdicts lists all of them.
func Verdicts() []Verdict {
	return []Verdict{VerdictPaid, VerdictRejected, VerdictNotFound, VerdictUndetermined}
}

// AccountFilter narrows Accounts; the zero value lists everything.
type AccountFilter struct {
	Currency string
	// Clearing lists clearing accounts only.
	Clearing bool
	// After is the account id after which the list goes on: keyset pages.
	After string
	// Limit is the most rows returned; 0 is no limit.
	Limit int
}

// PayoutFilter narrows Payouts; the zero value lists everything.
type PayoutFilter struct {
	AccountID string
	// States lists payouts in one of these; empty is any.
	States []State
	// ClaimedBy is the holder's name.
	ClaimedBy string
	// IdempotencyKey finds the payout of a client's own key.
	IdempotencyKey string
	// OldestFirst turns the order round.
	OldestFirst bool
	// OlderThan lists what has not moved for so long by the database's clock.
	OlderThan time.Duration
	// Limit is the most rows returned; 0 is no limit.
	Limit int
}

package paystore

import "time"

// MaxToken is the highest fencing token accepted at any edge (K-1.6). The same
// number stands in the CHECK constraints of migrations/paydb/V4.
const MaxToken Token = 1 << 53

// Token is a fencing token: one value names one grant for all time (K-1.3).
type Token int64

// Minor is money in minor units: cents, not euros (K-5.4).
type Minor int64

// Account is one row of account.
type Account struct {
	AccountID    string `json:"account_id"`
	Currency     string `json:"currency"`
	BalanceMinor Minor  `json:"balance_minor"`
	// Fence is the highest token that ever wrote the account; 0 before the first.
	Fence     Token     `json:"fence"`
	UpdatedAt time.Time `json:"updated_at"`
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

// Outcomes lists all of them.
func Outcomes() []Outcome {
	return []Outcome{OutcomeAcked, OutcomeRejected, OutcomeTimeout, OutcomeFenced}
}

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

package payapi

import (
	"encoding/json"
	"time"

	"github.com/dlockctl/dlockctl/internal/paystore"
)

// Payout is a payout as it stands.
type Payout struct {
	PayoutID       string         `json:"payout_id"`
	AccountID      string         `json:"account_id"`
	AmountMinor    paystore.Minor `json:"amount_minor"`
	AmountMinorStr string         `json:"amount_minor_str"`
	Currency       string         `json:"currency"`
	State          paystore.State `json:"state"`
	ClaimedBy      string         `json:"claimed_by,omitempty" doc:"Absent where there is no claim"`
	ClaimToken     paystore.Token `json:"claim_token,omitempty"`
	ClaimTokenStr  string         `json:"claim_token_str,omitempty"`
	IdempotencyKey string         `json:"idempotency_key" doc:"The rail's key too"`
	AttemptCount   int32          `json:"attempt_count"`
	CreatedAt      time.Time      `json:"created_at"`
	UpdatedAt      time.Time      `json:"updated_at"`
}

// NewPayout is the wire form of a payout.
func NewPayout(p paystore.Payout) Payout {
	w := Payout{
		PayoutID: p.PayoutID, AccountID: p.AccountID, AmountMinor: p.AmountMinor, AmountMinorStr: p.AmountMinor.String(),
		Currency: p.Currency, State: p.State, ClaimedBy: p.ClaimedBy, ClaimToken: p.ClaimToken,
		IdempotencyKey: p.IdempotencyKey, AttemptCount: p.AttemptCount, CreatedAt: p.CreatedAt, UpdatedAt: p.UpdatedAt,
	}
	if p.ClaimToken != 0 {
		w.ClaimTokenStr = p.ClaimToken.String()
	}
	return w
}

// PayoutList is a page of payouts.
type PayoutList struct {
	Payouts []Payout `json:"payouts"`
	Next    string   `json:"next,omitempty" doc:"The parameter after of the next page; absent on the last"`
}

// UnsettledPayout is a payout that the rail's own record has to settle.
type UnsettledPayout struct {
	Payout

	HeldBack bool `json:"held_back" doc:"paydb's closed gate lets nobody claim it"`
}

// UnsettledList is what the rail is to be asked about, account by account.
type UnsettledList struct {
	Payouts []UnsettledPayout `json:"payouts"`
	More    bool              `json:"more,omitempty" doc:"There are more: settle these and ask again"`
}

// PayoutDetail is a payout with everything that was recorded of it, each list in
// the order it was written.
type PayoutDetail struct {
	Payout

	Claims      []Claim      `json:"claims"`
	Attempts    []Attempt    `json:"attempts"`
	Legs        []Leg        `json:"legs"`
	Resolutions []Resolution `json:"resolutions"`
}

// Claim is one claim that a payout ever had.
type Claim struct {
	Token     paystore.Token `json:"token"`
	TokenStr  string         `json:"token_str"`
	ClaimedBy string         `json:"claimed_by"`
	ClaimedAt time.Time      `json:"claimed_at"`
}

// Leg is one entry of the ledger.
type Leg struct {
	EntryID        string             `json:"entry_id"`
	AccountID      string             `json:"account_id"`
	Direction      paystore.Direction `json:"direction"`
	AmountMinor    paystore.Minor     `json:"amount_minor"`
	AmountMinorStr string             `json:"amount_minor_str"`
	Fence          paystore.Token     `json:"fence" doc:"The token that authored it"`
	FenceStr       string             `json:"fence_str"`
	CreatedAt      time.Time          `json:"created_at"`
}

// Resolution is why an unknown rail outcome was settled as it was.
type Resolution struct {
	Source     paystore.Source  `json:"source"`
	Verdict    paystore.Verdict `json:"verdict"`
	Evidence   json.RawMessage  `json:"evidence"`
	Operator   string           `json:"operator"`
	Reason     string           `json:"reason"`
	RecordedAt time.Time        `json:"recorded_at"`
}

// NewPayoutDetail is the wire form of a payout's whole record.
func NewPayoutDetail(p paystore.PayoutDetail) PayoutDetail {
	d := PayoutDetail{
		Payout: NewPayout(p.Payout), Claims: make([]Claim, len(p.Claims)), Attempts: make([]Attempt, len(p.Attempts)),
		Legs: make([]Leg, len(p.Legs)), Resolutions: make([]Resolution, len(p.Resolutions)),
	}
	for i, c := range p.Claims {
		d.Claims[i] = Claim{Token: c.Token, TokenStr: c.Token.String(), ClaimedBy: c.ClaimedBy, ClaimedAt: c.ClaimedAt}
	}
	for i, a := range p.Attempts {
		d.Attempts[i] = NewAttempt(a)
	}
	for i, l := range p.Legs {
		d.Legs[i] = Leg{
			EntryID: l.EntryID, AccountID: l.AccountID, Direction: l.Direction, AmountMinor: l.AmountMinor, AmountMinorStr: l.AmountMinor.String(),
			Fence: l.Fence, FenceStr: l.Fence.String(), CreatedAt: l.CreatedAt,
		}
	}
	for i, r := range p.Resolutions {
		d.Resolutions[i] = Resolution{Source: r.Source, Verdict: r.Verdict, Evidence: r.Evidence, Operator: r.Operator, Reason: r.Reason, RecordedAt: r.RecordedAt}
	}
	return d
}

// Account is an account as it stands.
type Account struct {
	AccountID       string          `json:"account_id"`
	Currency        string          `json:"currency"`
	BalanceMinor    paystore.Minor  `json:"balance_minor"`
	BalanceMinorStr string          `json:"balance_minor_str"`
	Fence           paystore.Token  `json:"fence" doc:"The highest token that ever wrote it; 0 before the first"`
	FenceStr        string          `json:"fence_str"`
	UpdatedAt       time.Time       `json:"updated_at"`
	Clearing        bool            `json:"clearing" doc:"The other side of the postings of its currency; it has no fence"`
	OpeningMinor    *paystore.Minor `json:"opening_minor,omitempty" doc:"Absent when nobody recorded one: the account is unanchored"`
	OpeningMinorStr string          `json:"opening_minor_str,omitempty"`
	OpenPayouts     int64           `json:"open_payouts" doc:"How many of its payouts are not POSTED, FAILED or ABANDONED"`
}

// NewAccount is the wire form of an account.
func NewAccount(a paystore.Account) Account {
	w := Account{
		AccountID: a.AccountID, Currency: a.Currency, BalanceMinor: a.BalanceMinor, BalanceMinorStr: a.BalanceMinor.String(),
		Fence: a.Fence, FenceStr: a.Fence.String(), UpdatedAt: a.UpdatedAt, Clearing: a.Clearing,
		OpeningMinor: a.OpeningMinor, OpenPayouts: a.OpenPayouts,
	}
	if a.OpeningMinor != nil {
		w.OpeningMinorStr = a.OpeningMinor.String()
	}
	return w
}

// AccountList is a page of accounts.
type AccountList struct {
	Accounts []Account `json:"accounts"`
	Next     string    `json:"next,omitempty" doc:"The parameter after of the next page; absent on the last"`
}

// Released is the answer to release.
type Released struct {
	Released bool `json:"released" doc:"False: the payout was not the token's any more, and nothing changed"`
}

// Postable is the answer to check-funds: the payout could be posted just now.
type Postable struct {
	PayoutID string `json:"payout_id"`
	Postable bool   `json:"postable"`
}

// Posting is a payout in the ledger.
type Posting struct {
	PayoutID          string          `json:"payout_id"`
	AccountID         string          `json:"account_id"`
	ClearingAccountID string          `json:"clearing_account_id"`
	AmountMinor       paystore.Minor  `json:"amount_minor"`
	AmountMinorStr    string          `json:"amount_minor_str"`
	Currency          string          `json:"currency"`
	Token             paystore.Token  `json:"token" doc:"The one under which the legs stand"`
	TokenStr          string          `json:"token_str"`
	DebitEntryID      string          `json:"debit_entry_id"`
	CreditEntryID     string          `json:"credit_entry_id"`
	BalanceMinor      *paystore.Minor `json:"balance_minor,omitempty" doc:"The payer's after the debit; absent when it was posted before"`
	BalanceMinorStr   string          `json:"balance_minor_str,omitempty"`
	AlreadyPosted     bool            `json:"already_posted" doc:"Posted before, by whomever: one's own lost answer is success"`
}

// Raised is the answer to raise-fence and to marks/raise.
type Raised struct {
	AccountID string         `json:"account_id"`
	From      paystore.Token `json:"from" doc:"Where it stood, 0 for nowhere"`
	FromStr   string         `json:"from_str"`
	To        paystore.Token `json:"to"`
	ToStr     string         `json:"to_str"`
	Raised    bool           `json:"raised" doc:"False: it stood as high already, or the floor refuses as much"`
}

// NewRaised is the wire form of a raise.
func NewRaised(accountID string, from, to paystore.Token, raised bool) Raised {
	return Raised{AccountID: accountID, From: from, FromStr: from.String(), To: to, ToStr: to.String(), Raised: raised}
}

// Highest is the highest token that the database knows of, 0 for none (K-7.6).
type Highest struct {
	Token    paystore.Token `json:"token"`
	TokenStr string         `json:"token_str"`
	Source   string         `json:"source" doc:"The column it stands in, such as account.fence; empty for none"`
}

// NewHighest is the wire form of the highest token.
func NewHighest(token paystore.Token, source string) Highest {
	return Highest{Token: token, TokenStr: token.String(), Source: source}
}

// Attempt is a payout's attempt at the rail.
type Attempt struct {
	SubmissionID      string           `json:"submission_id,omitempty" doc:"Absent when paydb has no such attempt: fencing is off"`
	PayoutID          string           `json:"payout_id"`
	IdempotencyKey    string           `json:"idempotency_key"`
	PresentedToken    paystore.Token   `json:"presented_token"`
	PresentedTokenStr string           `json:"presented_token_str"`
	Outcome           paystore.Outcome `json:"outcome,omitempty" doc:"ACKED, REJECTED, TIMEOUT or FENCED; absent while it is in flight"`
	RailReference     string           `json:"rail_reference,omitempty"`
	SubmittedAt       time.Time        `json:"submitted_at,omitzero"`
	ResolvedAt        time.Time        `json:"resolved_at,omitzero"`
	Repeated          bool             `json:"repeated,omitempty" doc:"This call forwarded nothing, or asked nobody: the attempt stood already"`
	Said              *Answer          `json:"said,omitempty" doc:"What the rail said to this call"`
	Trouble           string           `json:"trouble,omitempty" doc:"Why the rail said nothing"`
}

// NewAttempt is the wire form of an attempt's row.
func NewAttempt(a paystore.Attempt) Attempt {
	return Attempt{
		SubmissionID: a.SubmissionID, PayoutID: a.PayoutID, IdempotencyKey: a.IdempotencyKey,
		PresentedToken: a.PresentedToken, PresentedTokenStr: a.PresentedToken.String(), Outcome: a.Outcome, RailReference: a.RailReference,
		SubmittedAt: a.SubmittedAt, ResolvedAt: a.ResolvedAt,
	}
}

// NotFound is what the rail says of a key that it has no record of. It is no outcome
// of an attempt.
const NotFound paystore.Outcome = "NOT_FOUND"

// Answer is what the rail says of a payment.
type Answer struct {
	Outcome        paystore.Outcome `json:"outcome,omitempty" doc:"ACKED, REJECTED or NOT_FOUND; absent while the rail has not decided"`
	Reference      string           `json:"reference,omitempty" doc:"The rail's own name of the payment"`
	Text           string           `json:"text,omitempty"`
	AmountMinor    paystore.Minor   `json:"amount_minor,omitempty" doc:"What the rail was asked to pay, where it says so"`
	AmountMinorStr string           `json:"amount_minor_str,omitempty"`
	Currency       string           `json:"currency,omitempty"`
}

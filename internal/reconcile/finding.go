package reconcile

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strings"
	"time"
)

// Finding is one break.
type Finding struct {
	// ID is the same in every run that finds the same break.
	ID       string   `json:"id"`
	Class    string   `json:"class"`
	Name     string   `json:"name"`
	Severity Severity `json:"severity"`
	// What says in one sentence what is wrong, with its numbers.
	What string `json:"what"`
	// Subject is what the finding is about beside account and payout: an entry, an
	// attempt, a token, a reference of the rail, an object of the schema.
	Subject   string `json:"subject,omitempty"`
	AccountID string `json:"account_id,omitempty"`
	PayoutID  string `json:"payout_id,omitempty"`
	Currency  string `json:"currency,omitempty"`
	// AmountMinor is how much is wrong, a decimal number of minor units in text,
	// because a sum may exceed 64 bits; "" where no amount is.
	AmountMinor string `json:"amount_minor,omitempty"`
	// At is when it happened, by the database's clock, where that is known.
	At time.Time `json:"at,omitzero"`
	// Suspects are the tokens that the rule itself points at, the first one first.
	Suspects    []int64     `json:"suspects"`
	Attribution Attribution `json:"attribution"`
	// Unconfirmed findings were not looked at a second time, because the run was cut
	// short.
	Unconfirmed bool            `json:"unconfirmed,omitempty"`
	Details     json.RawMessage `json:"details,omitempty"`
	Next        string          `json:"next,omitempty"`
}

// idDigits is how many hexadecimal digits follow the class in a finding's id.
const idDigits = 16

// findingID is stable over runs: it hashes the class and the keys, and neither
// amounts nor times. 64 bits of it keep a million findings apart.
func findingID(class, account, payout, subject string) string {
	sum := sha256.Sum256([]byte(strings.Join([]string{class, account, payout, subject}, "\x00")))
	return class + "-" + hex.EncodeToString(sum[:idDigits/2])
}

// Confidence says how sure an attribution is.
type Confidence string

// The confidences, surest first.
const (
	// Proven: one token explains all of it, and no other can.
	Proven Confidence = "proven"
	// Likely: one of at most three.
	Likely Confidence = "likely"
	// Window: one of those between two moments or two tokens.
	Window Confidence = "window"
	// None: it cannot be said; Why says why.
	None Confidence = "none"
)

// Attribution names who is behind a finding (K-8.2).
type Attribution struct {
	Confidence Confidence `json:"confidence"`
	// Token is the one named, 0 for none; Holder is who was granted it, and Key on
	// which lock.
	Token    int64  `json:"token,omitempty"`
	TokenStr string `json:"token_str,omitempty"`
	Holder   string `json:"holder,omitempty"`
	Key      string `json:"key,omitempty"`
	// Source is the table that named the holder.
	Source string `json:"source,omitempty"`
	// RevokedBy and Reason are the operator's, when the grant was revoked.
	RevokedBy string `json:"revoked_by,omitempty"`
	Reason    string `json:"revoke_reason,omitempty"`
	// Others are the further tokens that come into question.
	Others []int64 `json:"other_tokens,omitempty"`
	// Why says how the token was found, or why none was.
	Why string `json:"why"`
}

package payapi

import (
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/dlockctl/dlockctl/internal/paystore"
	"github.com/dlockctl/dlockctl/internal/plaintext"
)

// CreatePayout makes a payout; what it pays is fixed from then on (K-4.10).
type CreatePayout struct {
	AccountID      string `json:"account_id" doc:"The payer's account, a UUID"`
	AmountMinor    *int64 `json:"amount_minor,omitempty" doc:"Minor units, up to 2^53; above that give amount_minor_str"`
	AmountMinorStr string `json:"amount_minor_str,omitempty" doc:"The amount in decimal digits, up to 2^63-1; beside amount_minor it must say the same"`
	Currency       string `json:"currency" doc:"Three capital letters"`
	IdempotencyKey string `json:"idempotency_key" doc:"The client's own key, and the rail's: the same key and content again is the payout that stands"`
	PayoutID       string `json:"payout_id,omitempty" doc:"Made by the service when it is left out"`
}

// Amount is the amount of either form. It returns paystore.ErrInvalid when there
// is none, when the two differ, and for a number above 2^53, which may have lost
// digits on its way.
func (c CreatePayout) Amount() (paystore.Minor, error) {
	n, err := twin("amount_minor", c.AmountMinor, c.AmountMinorStr)
	return paystore.Minor(n), err
}

// PayoutRef names the payout of a move. The token is in the header.
type PayoutRef struct {
	PayoutID string `json:"payout_id"`
}

// ClaimPayout claims a payout, or takes it over.
type ClaimPayout struct {
	PayoutID string `json:"payout_id"`
	Holder   string `json:"holder" doc:"By convention the owner of the lock's grant"`
}

// SettleByEvidence is the body of resolve and attest: what is known of a payout's
// rail outcome, and from whom (K-5.3).
type SettleByEvidence struct {
	PayoutID string           `json:"payout_id"`
	Source   paystore.Source  `json:"source" enum:"operator,rail"`
	Verdict  paystore.Verdict `json:"verdict" enum:"PAID,REJECTED,NOT_FOUND,UNDETERMINED"`
	Evidence json.RawMessage  `json:"evidence" doc:"A JSON object, not empty"`
	Operator string           `json:"operator"`
	Reason   string           `json:"reason"`
}

// GiveUp fails a payout before the rail was asked: a PENDING one without a token in
// the header, a CLAIMED one with the token that holds it.
type GiveUp struct {
	PayoutID string `json:"payout_id"`
	Operator string `json:"operator"`
	Reason   string `json:"reason"`
}

// RaiseFence raises an account's fence to a token that is nobody's grant (K-3.2).
type RaiseFence struct {
	AccountID string `json:"account_id"`
	Token     *int64 `json:"token,omitempty"`
	TokenStr  string `json:"token_str,omitempty"`
	Operator  string `json:"operator"`
	Reason    string `json:"reason"`
}

// To is the token of either form, or paystore.ErrInvalid.
func (r RaiseFence) To() (paystore.Token, error) { return tokenOf(r.Token, r.TokenStr) }

// RaiseMark raises the rail's mark of an account to a token that is nobody's grant.
type RaiseMark struct {
	AccountID string `json:"account_id"`
	Token     *int64 `json:"token,omitempty"`
	TokenStr  string `json:"token_str,omitempty"`
}

// To is the token of either form, or paystore.ErrInvalid.
func (r RaiseMark) To() (paystore.Token, error) { return tokenOf(r.Token, r.TokenStr) }

// ParseToken reads the value of [TokenHeader]. It returns paystore.ErrInvalid for
// none, and for what is no token (K-1.6).
func ParseToken(header string) (paystore.Token, error) {
	if header == "" {
		return 0, fmt.Errorf("%w: the header %s is missing; give the token of the account's lock", paystore.ErrInvalid, TokenHeader)
	}
	n, err := parseInt(TokenHeader, header)
	if err != nil {
		return 0, err
	}
	token := paystore.Token(n)
	return token, paystore.ValidToken(token)
}

func tokenOf(number *int64, text string) (paystore.Token, error) {
	n, err := twin("token", number, text)
	if err != nil {
		return 0, err
	}
	return paystore.Token(n), paystore.ValidToken(paystore.Token(n))
}

// mostExact is the highest integer that a reader with doubles did not round.
const mostExact = int64(paystore.MaxToken)

// twin is a 64-bit number given as a number, as digits, or as both (K-5.4).
func twin(name string, number *int64, text string) (int64, error) {
	if number != nil && (*number > mostExact || *number < -mostExact) {
		return 0, fmt.Errorf("%w: %s %d is beyond 2^53 and may have lost digits on its way; give it as %s_str", paystore.ErrInvalid, name, *number, name)
	}
	if text == "" {
		if number == nil {
			return 0, fmt.Errorf("%w: %s is missing; give it, or %s_str", paystore.ErrInvalid, name, name)
		}
		return *number, nil
	}
	n, err := parseInt(name+"_str", text)
	if err == nil && number != nil && *number != n {
		err = fmt.Errorf("%w: %s is %d and %s_str is %d; give one of them, or the same twice", paystore.ErrInvalid, name, *number, name, n)
	}
	return n, err
}

// parseInt reads the one decimal form of a number: what is read here is written the
// same by everybody.
func parseInt(name, text string) (int64, error) {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || strconv.FormatInt(n, 10) != text {
		return 0, fmt.Errorf("%w: %s %s is not a number of 64 bits in decimal digits", paystore.ErrInvalid, name, plaintext.Shown(text))
	}
	return n, nil
}

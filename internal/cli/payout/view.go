package payout

import (
	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/paystore"
	"github.com/dlockctl/dlockctl/internal/ui"
)

// payoutView is a payout as it is printed.
type payoutView struct {
	PayoutID       string         `json:"payout_id"`
	AccountID      string         `json:"account_id"`
	State          paystore.State `json:"state"`
	AmountMinor    paystore.Minor `json:"amount_minor"`
	AmountMinorStr string         `json:"amount_minor_str"`
	Currency       string         `json:"currency"`
	// ClaimedBy, ClaimToken and its twin are absent where nobody has claimed it.
	ClaimedBy      string         `json:"claimed_by,omitempty"`
	ClaimToken     paystore.Token `json:"claim_token,omitempty"`
	ClaimTokenStr  string         `json:"claim_token_str,omitempty"`
	IdempotencyKey string         `json:"idempotency_key"`
	AttemptCount   int32          `json:"attempt_count"`
	CreatedAt      lockstore.Time `json:"created_at"`
	UpdatedAt      lockstore.Time `json:"updated_at"`
}

func view(p paystore.Payout) payoutView {
	v := payoutView{
		PayoutID: p.PayoutID, AccountID: p.AccountID, State: p.State,
		AmountMinor: p.AmountMinor, AmountMinorStr: p.AmountMinor.String(), Currency: p.Currency,
		ClaimedBy: p.ClaimedBy, ClaimToken: p.ClaimToken, IdempotencyKey: p.IdempotencyKey, AttemptCount: p.AttemptCount,
		CreatedAt: lockstore.Time{Time: p.CreatedAt}, UpdatedAt: lockstore.Time{Time: p.UpdatedAt},
	}
	if p.ClaimToken != 0 {
		v.ClaimTokenStr = p.ClaimToken.String()
	}
	return v
}

func stateTones() map[string]ui.Tone {
	return map[string]ui.Tone{
		string(paystore.Posted): ui.Good, string(paystore.Failed): ui.Faint, string(paystore.Abandoned): ui.Faint,
		string(paystore.RailAmbiguous): ui.Warn, string(paystore.RailAcked): ui.Warn,
	}
}

func columns() []ui.Column {
	return []ui.Column{
		{Title: "PAYOUT", Field: "payout_id"},
		{Title: "STATE", Field: "state", Tones: stateTones()},
		{Title: "AMOUNT (MINOR)", Field: "amount_minor", Kind: ui.Number},
		{Title: "CURRENCY", Field: "currency"},
		{Title: "ACCOUNT", Field: "account_id"},
		{Title: "CLAIMED BY", Field: "claimed_by", Optional: true},
		{Title: "TOKEN", Field: "claim_token", Kind: ui.Number, Optional: true},
		{Title: "UPDATED", Field: "updated_at", Kind: ui.Since},
		{Title: "CREATED", Field: "created_at", Kind: ui.Since, Wide: true},
		{Title: "ATTEMPTS", Field: "attempt_count", Kind: ui.Number, Wide: true},
		{Title: "IDEMPOTENCY KEY", Field: "idempotency_key", Wide: true},
	}
}

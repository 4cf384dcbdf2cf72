package payapi

import "github.com/dlockctl/dlockctl/internal/paystore"

// The details of a problem, by its code: what its error is made of.

// fenced is both tokens and where they met (K-4.4).
type fenced struct {
	Resource     paystore.Resource `json:"resource"`
	AccountID    string            `json:"account_id"`
	PayoutID     string            `json:"payout_id"`
	Presented    paystore.Token    `json:"presented_token"`
	PresentedStr string            `json:"presented_token_str"`
	Stored       paystore.Token    `json:"stored_token"`
	StoredStr    string            `json:"stored_token_str"`
}

type claimed struct {
	PayoutID string         `json:"payout_id"`
	By       string         `json:"claimed_by"`
	Token    paystore.Token `json:"token"`
	TokenStr string         `json:"token_str"`
}

type rejected struct {
	Reason          paystore.Reason `json:"reason"`
	AccountID       string          `json:"account_id"`
	PayoutID        string          `json:"payout_id"`
	AmountMinor     paystore.Minor  `json:"amount_minor"`
	AmountMinorStr  string          `json:"amount_minor_str"`
	Currency        string          `json:"currency"`
	BalanceMinor    paystore.Minor  `json:"balance_minor"`
	BalanceMinorStr string          `json:"balance_minor_str"`
	AccountCurrency string          `json:"account_currency"`
}

type wrongState struct {
	PayoutID string           `json:"payout_id"`
	Have     paystore.State   `json:"state"`
	Want     []paystore.State `json:"wanted"`
}

type otherContent struct {
	IdempotencyKey string `json:"idempotency_key"`
	PayoutID       string `json:"payout_id"`
	Field          string `json:"field"`
	Have           string `json:"have"`
	Given          string `json:"given"`
}

type blocked struct {
	PIDs []int32 `json:"pids"`
}

// message is an error's own text, without what it was being done for.
type message struct {
	Message string `json:"message"`
}

// doing is the bare verb phrase of what was under way.
type doing struct {
	Doing string `json:"doing"`
}

type unsafeDB struct {
	Clause  string `json:"clause"`
	Problem string `json:"problem"`
}

type schema struct {
	Have int `json:"have"`
	Min  int `json:"min"`
	Max  int `json:"max"`
}

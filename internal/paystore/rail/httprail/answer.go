package httprail

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"

	"github.com/dlockctl/dlockctl/internal/paystore"
	"github.com/dlockctl/dlockctl/internal/paystore/rail"
)

// answer is the rail's answer as it is sent (docs/rail.md).
type answer struct {
	Key            string           `json:"idempotency_key"`
	Outcome        paystore.Outcome `json:"outcome"`
	Reference      string           `json:"reference"`
	Text           string           `json:"text"`
	AmountMinor    *paystore.Minor  `json:"amount_minor"`
	AmountMinorStr string           `json:"amount_minor_str"`
	Currency       string           `json:"currency"`
}

// pending is a payment that the rail has and has not decided.
const pending paystore.Outcome = "PENDING"

// decode reads an answer about key.
func decode(resp *http.Response, key string) (rail.Answer, error) {
	body, err := io.ReadAll(io.LimitReader(resp.Body, mostAnswer+1))
	switch {
	case resp.StatusCode != http.StatusOK:
		// Where a redirect leads, or a page of HTML, helps nobody.
		return rail.Answer{}, fmt.Errorf("it answered %d %s", resp.StatusCode, http.StatusText(resp.StatusCode))
	case err != nil:
		return rail.Answer{}, fmt.Errorf("read its answer: %w", err)
	case len(body) > mostAnswer:
		return rail.Answer{}, fmt.Errorf("its answer is longer than %d bytes", mostAnswer)
	}
	var a answer
	dec := json.NewDecoder(bytes.NewReader(body))
	if err := dec.Decode(&a); err != nil {
		return rail.Answer{}, errors.New("its answer is not the JSON of docs/rail.md")
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return rail.Answer{}, errors.New("something follows the JSON of its answer")
	}
	return a.checked(key)
}

func (a answer) checked(key string) (rail.Answer, error) {
	said := rail.Answer{Outcome: a.Outcome, Reference: a.Reference, Text: a.Text, Currency: a.Currency}
	switch a.Outcome {
	case paystore.OutcomeAcked, paystore.OutcomeRejected, rail.NotFound:
	case pending:
		said.Outcome = ""
	default:
		return rail.Answer{}, fmt.Errorf("it answered the outcome %q, which is none of ACKED, REJECTED, PENDING, NOT_FOUND", a.Outcome)
	}
	if a.Key != key {
		return rail.Answer{}, fmt.Errorf("it answered about the key %q, and was asked about %q", a.Key, key)
	}
	if a.AmountMinor != nil {
		said.AmountMinor = *a.AmountMinor
	}
	if a.AmountMinorStr != "" {
		amount, err := strconv.ParseInt(a.AmountMinorStr, 10, 64)
		if err != nil || a.AmountMinor != nil && *a.AmountMinor != paystore.Minor(amount) {
			return rail.Answer{}, fmt.Errorf("its amount_minor_str is %q, which is not its amount_minor in digits", a.AmountMinorStr)
		}
		said.AmountMinor = paystore.Minor(amount)
	}
	return said, nil
}

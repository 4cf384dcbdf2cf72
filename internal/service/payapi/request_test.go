package payapi_test

import (
	"encoding/json"
	"errors"
	"math"
	"testing"

	"github.com/dlockctl/dlockctl/internal/paystore"
	"github.com/dlockctl/dlockctl/internal/service/payapi"
)

// A 64-bit number is given as a number up to 2^53, as digits, or as both, which must
// say the same.
//
// Clauses: K-5.4
// Mutation: drop a refusal of twin or parseInt
func TestAmountOfEitherForm(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]paystore.Minor{
		`{"amount_minor": 4711}`:                                                     4711,
		`{"amount_minor_str": "4711"}`:                                               4711,
		`{"amount_minor": 4711, "amount_minor_str": "4711"}`:                         4711,
		`{"amount_minor": 9007199254740992}`:                                         1 << 53,
		`{"amount_minor_str": "9223372036854775807"}`:                                math.MaxInt64,
		`{"amount_minor": 9007199254740993}`:                                         0,
		`{"amount_minor": 9007199254740993, "amount_minor_str": "9007199254740993"}`: 0,
		`{"amount_minor": -9007199254740993}`:                                        0,
		`{"amount_minor_str": "9223372036854775808"}`:                                0,
		`{"amount_minor": 1, "amount_minor_str": "2"}`:                               0,
		`{"amount_minor_str": "+1"}`:                                                 0,
		`{"amount_minor_str": "01"}`:                                                 0,
		`{"amount_minor_str": " 1"}`:                                                 0,
		`{"amount_minor_str": "1.0"}`:                                                0,
		`{}`:                                                                         0,
	} {
		var c payapi.CreatePayout
		if err := json.Unmarshal([]byte(body), &c); err != nil {
			t.Fatal(err)
		}
		got, err := c.Amount()
		if want == 0 && !errors.Is(err, paystore.ErrInvalid) || want != 0 && (err != nil || got != want) {
			t.Errorf("%s: %d, %v; want %d", body, got, err, want)
		}
	}
}

// A token is 1 to 2^53 in plain digits, wherever it comes from.
//
// Clauses: K-1.6
// Mutation: drop ValidToken from ParseToken or tokenOf
func TestTokens(t *testing.T) {
	t.Parallel()
	for header, ok := range map[string]bool{"1": true, "9007199254740992": true, "": false, "0": false, "-1": false, "9007199254740993": false, "0x1": false, "1 ": false} {
		token, err := payapi.ParseToken(header)
		if ok != (err == nil) || !ok && !errors.Is(err, paystore.ErrInvalid) || ok && token.String() != header {
			t.Errorf("%q: %v, %v", header, token, err)
		}
	}
	for _, n := range []int64{0, -1, 1<<53 + 1, math.MaxInt64} {
		if _, err := (payapi.RaiseFence{Token: &n}).To(); !errors.Is(err, paystore.ErrInvalid) {
			t.Errorf("raise a fence to %d: %v", n, err)
		}
	}
	if to, err := (payapi.RaiseMark{TokenStr: "42"}).To(); err != nil || to != 42 {
		t.Errorf("raise a mark to 42: %d, %v", to, err)
	}
}

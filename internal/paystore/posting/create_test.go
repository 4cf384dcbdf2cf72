package posting_test

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"

	"github.com/dlockctl/dlockctl/internal/paystore"
	"github.com/dlockctl/dlockctl/internal/paystore/posting"
)

// The same key and content is the payout that stands; other content is refused and
// named, and so is another payout's id.
//
// Clauses: K-5.4
// Mutation: leave a field out of compare, or "ON CONFLICT" without its column.
func TestCreateAgain(t *testing.T) {
	t.Parallel()
	eachMajor(t, func(t *testing.T, b bundle) {
		first := params(b.account(t, payer), 100)
		first.PayoutID = uuid.NewString()
		stands, created, err := b.Create(t.Context(), first)
		if err != nil || !created || stands.State != paystore.Pending || stands.AmountMinor != 100 || stands.ClaimToken != 0 {
			t.Fatalf("%+v, %t, %v", stands, created, err)
		}
		shouted := first
		shouted.PayoutID, shouted.AccountID = strings.ToUpper(first.PayoutID), strings.ToUpper(first.AccountID)
		unnamed := first
		unnamed.PayoutID = ""
		for _, p := range []posting.CreateParams{first, shouted, unnamed} {
			again, created, err := b.Create(t.Context(), p)
			if err != nil || created || again != stands {
				t.Errorf("again: %+v, %t, %v", again, created, err)
			}
		}
		for field, change := range map[string]func(*posting.CreateParams){
			"account_id":      func(p *posting.CreateParams) { p.AccountID = other },
			"amount_minor":    func(p *posting.CreateParams) { p.AmountMinor++ },
			"payout_id":       func(p *posting.CreateParams) { p.PayoutID = uuid.NewString() },
			"idempotency_key": func(p *posting.CreateParams) { p.IdempotencyKey = uuid.NewString() },
		} {
			p := first
			change(&p)
			_, created, err := b.Create(t.Context(), p)
			conflict, ok := errors.AsType[*paystore.ConflictError](err)
			if !ok || created || conflict.Field != field || conflict.PayoutID != stands.PayoutID || conflict.Have == conflict.Given {
				t.Errorf("another %s: %v", field, err)
			}
		}
	})
}

// Many clients with one key make one payout.
//
// Mutation: compare before the conflicting transaction has ended, or without ON CONFLICT.
func TestCreateAtOnce(t *testing.T) {
	t.Parallel()
	b := setup(t, 16)
	p := params(b.account(t, payer), 100)
	ids, made := make([]string, 16), make([]bool, 16)
	group, ctx := errgroup.WithContext(t.Context())
	for i := range ids {
		group.Go(func() error {
			payout, created, err := b.Create(ctx, p)
			ids[i], made[i] = payout.PayoutID, created
			return err
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	n := 0
	for i := range ids {
		if ids[i] != ids[0] {
			t.Errorf("client %d has payout %s, client 0 %s", i, ids[i], ids[0])
		}
		if made[i] {
			n++
		}
	}
	if n != 1 {
		t.Errorf("%d clients made it", n)
	}
}

// What no payout can be is refused by its name, before or by the database, and
// leaves nothing.
//
// Clauses: K-5.4, K-4.7, K-4.10
// Mutation: drop a check from CreateParams.valid, or a case from uncreatable.
func TestCreateRefuses(t *testing.T) {
	t.Parallel()
	b := setup(t, 16)
	for name, tt := range map[string]struct {
		change func(*posting.CreateParams)
		says   string
		reason paystore.Reason // of a business rejection, else the error is ErrInvalid
	}{
		"zero":              {change: func(p *posting.CreateParams) { p.AmountMinor = 0 }, says: "amount 0"},
		"negative":          {change: func(p *posting.CreateParams) { p.AmountMinor = math.MinInt64 }, says: "amount -9223372036854775808"},
		"lower case":        {change: func(p *posting.CreateParams) { p.Currency = "eur" }, says: `currency "eur"`},
		"two letters":       {change: func(p *posting.CreateParams) { p.Currency = "EU" }, says: "three capital letters"},
		"no account's id":   {change: func(p *posting.CreateParams) { p.AccountID = "alice" }, says: `account "alice" is not a UUID`},
		"no payout's id":    {change: func(p *posting.CreateParams) { p.PayoutID = "p1" }, says: `payout "p1" is not a UUID`},
		"no key":            {change: func(p *posting.CreateParams) { p.IdempotencyKey = "" }, says: "idempotency key is empty"},
		"key of spaces":     {change: func(p *posting.CreateParams) { p.IdempotencyKey = "  " }, says: "blank"},
		"key with NUL":      {change: func(p *posting.CreateParams) { p.IdempotencyKey = "a\x00b" }, says: "U+0000"},
		"key too long":      {change: func(p *posting.CreateParams) { p.IdempotencyKey = strings.Repeat("k", 1025) }, says: "1025 bytes"},
		"clearing account":  {change: func(p *posting.CreateParams) { p.AccountID = clearing }, says: "is a clearing account"},
		"unknown account":   {change: func(p *posting.CreateParams) { p.AccountID = nobody }, says: "does not exist", reason: paystore.ReasonNoAccount},
		"another currency":  {change: func(p *posting.CreateParams) { p.Currency = "USD" }, says: "holds EUR, not USD", reason: paystore.ReasonCurrencyMismatch},
		"an unknown one":    {change: func(p *posting.CreateParams) { p.Currency = "XXX" }, says: "holds EUR, not XXX", reason: paystore.ReasonCurrencyMismatch},
		"more than it has?": {change: func(p *posting.CreateParams) { p.AmountMinor = math.MaxInt64 }}, // funds are looked at later
	} {
		p := params(b.account(t, payer), 100)
		tt.change(&p)
		_, created, err := b.Create(t.Context(), p)
		rejected, _ := errors.AsType[*paystore.RejectedError](err)
		switch {
		case tt.says == "":
			if err != nil || !created {
				t.Errorf("%s: %v", name, err)
			}
		case err == nil || !strings.Contains(err.Error(), tt.says):
			t.Errorf("%s: %v, want %q", name, err, tt.says)
		case tt.reason == "" && !errors.Is(err, paystore.ErrInvalid), tt.reason != "" && (rejected == nil || rejected.Reason != tt.reason):
			t.Errorf("%s: %#v", name, err)
		}
	}
	var n int
	if err := b.super.QueryRow(t.Context(), `SELECT count(*) FROM payout`).Scan(&n); err != nil || n != 1 {
		t.Errorf("%d payouts stand, %v", n, err)
	}
}

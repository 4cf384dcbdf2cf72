package payresource_test

import (
	"errors"
	"fmt"
	"math"
	"net/http"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/dlockctl/dlockctl/internal/paystore"
	"github.com/dlockctl/dlockctl/internal/service/payapi"
)

// A payout from its making to the ledger, one call after the other; each call again is
// success and does nothing twice.
//
// Clauses: K-5.1, K-4.3
// Mutation: exchange two paths of Register.
func TestFromPendingToPosted(t *testing.T) {
	t.Parallel()
	eachMajor(t, func(t *testing.T, b bundle) {
		p := b.create(t, payer, "EUR", 100)
		token := b.token()
		if p.State != paystore.Pending || p.AmountMinorStr != "100" {
			t.Errorf("made: %+v", p)
		}
		for _, s := range []struct {
			path string
			body any
			to   paystore.State
		}{
			{payapi.PathClaim, payapi.ClaimPayout{PayoutID: p.PayoutID, Holder: "w"}, paystore.Claimed},
			{payapi.PathSubmit, ref(p.PayoutID), paystore.RailSubmitted},
			{payapi.PathSettle, ref(p.PayoutID), paystore.RailAcked},
		} {
			if s.path == payapi.PathSubmit {
				funds := want[payapi.Postable](t, "funds", b.post(t, payapi.PathCheckFunds, token, ref(p.PayoutID)), http.StatusOK)
				if !funds.Postable {
					t.Error("it cannot be posted")
				}
			}
			if s.path == payapi.PathSettle {
				b.attempt(t, p.PayoutID, token, "ACKED")
			}
			for range 2 {
				a := b.post(t, s.path, token, s.body)
				moved := want[payapi.Payout](t, s.path, a, http.StatusOK)
				if moved.State != s.to || moved.ClaimToken != token || moved.ClaimTokenStr != token.String() || a.Header.Get(payapi.TokenHeader) != token.String() {
					t.Errorf("%s: %+v, header %q", s.path, moved, a.Header.Get(payapi.TokenHeader))
				}
			}
		}
		first := want[payapi.Posting](t, "post", b.post(t, payapi.PathPost, token, ref(p.PayoutID)), http.StatusOK)
		again := want[payapi.Posting](t, "post again", b.post(t, payapi.PathPost, token, ref(p.PayoutID)), http.StatusOK)
		if first.AlreadyPosted || !again.AlreadyPosted || first.DebitEntryID != again.DebitEntryID || first.TokenStr != token.String() || first.BalanceMinorStr != "999900" {
			t.Errorf("posted %+v, then %+v", first, again)
		}
		d := want[payapi.PayoutDetail](t, "show", b.get(t, payapi.PathPayout+"?payout_id="+p.PayoutID), http.StatusOK)
		if d.State != paystore.Posted || len(d.Legs) != 2 || len(d.Claims) != 1 || len(d.Attempts) != 1 || d.Legs[0].FenceStr != token.String() {
			t.Errorf("its record: %+v", d)
		}
	})
}

// The same key and content is the payout that stands; anything else under it is refused
// with what differs.
//
// Clauses: K-5.4
// Mutation: answer 201 whatever Create says.
func TestCreateAgain(t *testing.T) {
	t.Parallel()
	b := setup(t, 16)
	body := fmt.Sprintf(`{"account_id": %q, "amount_minor": 4711, "currency": "EUR", "idempotency_key": "k-1"}`, payer)
	first := want[payapi.Payout](t, "create", b.send(t, http.MethodPost, payapi.PathPayouts, 0, body), http.StatusCreated)
	for name, again := range map[string]string{"the same": body, "as digits": strings.Replace(body, "4711", `4711, "amount_minor_str": "4711"`, 1)} {
		if p := want[payapi.Payout](t, name, b.send(t, http.MethodPost, payapi.PathPayouts, 0, again), http.StatusOK); p.PayoutID != first.PayoutID {
			t.Errorf("%s: another payout, %s", name, p.PayoutID)
		}
	}
	for field, otherwise := range map[string]string{
		"amount_minor": strings.Replace(body, "4711", "4712", 1),
		"account_id":   strings.Replace(body, payer, other, 1),
		"payout_id":    strings.Replace(body, `"currency"`, fmt.Sprintf(`"payout_id": %q, "currency"`, uuid.NewString()), 1),
	} {
		err := refused(t, field, b.send(t, http.MethodPost, payapi.PathPayouts, 0, otherwise), http.StatusConflict, "idempotency_conflict").err
		if e, ok := errors.AsType[*paystore.ConflictError](err); !ok || e.Field != field || e.PayoutID != first.PayoutID {
			t.Errorf("another %s: %v", field, err)
		}
	}
}

// What a payout may not be is refused before anything is written.
//
// Clauses: K-5.4
// Mutation: drop the call of Amount, or put 0 in place of its error.
func TestCreateRefuses(t *testing.T) {
	t.Parallel()
	b := setup(t, 16)
	whole := fmt.Sprintf(`{"account_id": %q, "amount_minor": 1, "currency": "EUR", "idempotency_key": "k"}`, payer)
	with := func(old, otherwise string) string { return strings.Replace(whole, old, otherwise, 1) }
	for _, tt := range []struct {
		name, body string
		status     int
		code       string
	}{
		{"two amounts", with(": 1,", `: 1, "amount_minor_str": "2",`), 422, "invalid_argument"},
		{"no amount", with(`"amount_minor": 1, `, ""), 422, "invalid_argument"},
		{"nothing", with(": 1,", ": 0,"), 422, "invalid_argument"},
		{"less", with(": 1,", ": -1,"), 422, "invalid_argument"},
		{"above 2^53", with(": 1,", ": 9007199254740993,"), 422, "invalid_argument"},
		{"above 64 bits", with(`"amount_minor": 1`, `"amount_minor_str": "9223372036854775808"`), 422, "invalid_argument"},
		{"half a cent", with(": 1,", ": 1.5,"), 422, "usage"},
		{"text", with(": 1,", `: "1",`), 422, "usage"},
		{"lower case", with("EUR", "eur"), 422, "invalid_argument"},
		{"no key", with(`"k"`, `""`), 422, "invalid_argument"},
		{"a key that is left out", with(`, "idempotency_key": "k"`, ""), 422, "usage"},
		{"no account", with(payer, "x"), 422, "invalid_argument"},
		{"something else", with(`"currency"`, `"state": "POSTED", "currency"`), 422, "usage"},
		{"nobody's account", with(payer, nobody), 409, "rejected"},
		{"another currency", with("EUR", "USD"), 409, "rejected"},
		{"a clearing account", with(payer, clearing), 422, "invalid_argument"},
		{"no JSON", "{", 400, "usage"},
	} {
		refused(t, tt.name, b.send(t, http.MethodPost, payapi.PathPayouts, 0, tt.body), tt.status, tt.code)
	}
	list := want[payapi.PayoutList](t, "list", b.get(t, payapi.PathPayouts), http.StatusOK)
	if len(list.Payouts) != 0 {
		t.Errorf("made all the same: %+v", list.Payouts)
	}
}

// The largest amount there is goes through digit for digit; a clearing balance that
// would leave 64 bits is an error, and nothing is changed.
//
// Clauses: K-5.4
// Mutation: read amount_minor_str as a float.
func TestNearTheEndOfInt64(t *testing.T) {
	t.Parallel()
	b := setup(t, 16)
	b.exec(t, `UPDATE account SET balance_minor = $2 WHERE account_id = $1`, payer, int64(math.MaxInt64))
	p := want[payapi.Payout](t, "create", b.send(t, http.MethodPost, payapi.PathPayouts, 0,
		fmt.Sprintf(`{"account_id": %q, "amount_minor_str": "9223372036854775807", "currency": "EUR", "idempotency_key": "k"}`, payer)), http.StatusCreated)
	if p.AmountMinor != math.MaxInt64 || p.AmountMinorStr != "9223372036854775807" {
		t.Errorf("made: %+v", p)
	}
	token := b.token()
	b.bring(t, p.PayoutID, paystore.RailAcked, token)
	b.exec(t, `UPDATE account SET balance_minor = 1 WHERE account_id IN (SELECT account_id FROM clearing_account)`)
	refused(t, "one too many", b.post(t, payapi.PathPost, token, ref(p.PayoutID)), http.StatusConflict, "overflow")
	b.exec(t, `UPDATE account SET balance_minor = 0 WHERE account_id IN (SELECT account_id FROM clearing_account)`)
	posted := want[payapi.Posting](t, "all of it", b.post(t, payapi.PathPost, token, ref(p.PayoutID)), http.StatusOK)
	if posted.AmountMinorStr != "9223372036854775807" || posted.BalanceMinorStr != "0" {
		t.Errorf("posted: %+v", posted)
	}
}

// moves are the operations that take a payout and a token.
func moves(id string) map[string]any {
	evidence := map[string]any{"payout_id": id, "source": "operator", "verdict": "PAID", "evidence": map[string]int{"ticket": 1}, "operator": "erin", "reason": "asked"}
	return map[string]any{
		payapi.PathClaim:   payapi.ClaimPayout{PayoutID: id, Holder: "w"},
		payapi.PathRelease: ref(id), payapi.PathCheckFunds: ref(id), payapi.PathSubmit: ref(id), payapi.PathSettle: ref(id),
		payapi.PathPost: ref(id), payapi.PathReject: ref(id), payapi.PathResolve: evidence, payapi.PathAttest: evidence,
	}
}

// Every move refuses a payout that is not there, an id that is none, and a token that
// is none.
//
// Clauses: K-1.6
// Mutation: drop ParseToken from under.
func TestEveryMoveLooksAtPayoutAndToken(t *testing.T) {
	t.Parallel()
	b := setup(t, 16)
	for path, body := range moves(uuid.NewString()) {
		refused(t, path+" of nobody's payout", b.post(t, path, 7, body), http.StatusNotFound, "not_found")
		refused(t, path+" without a token", b.post(t, path, 0, body), http.StatusUnprocessableEntity, "invalid_argument")
		refused(t, path+" with a token above 2^53", b.post(t, path, paystore.MaxToken+1, body), http.StatusUnprocessableEntity, "invalid_argument")
	}
	for path, body := range moves("x") {
		refused(t, path+" of no id", b.post(t, path, 7, body), http.StatusUnprocessableEntity, "invalid_argument")
	}
}

// A body that names what the payout's row has is refused, at every move.
//
// Clauses: K-4.10
// Mutation: add account_id to payapi.PayoutRef.
func TestNoMoveTakesAccountOrAmountFromItsCaller(t *testing.T) {
	t.Parallel()
	b := setup(t, 16)
	token := b.token()
	id := b.at(t, payer, paystore.RailAcked, token)
	for path := range moves(id) {
		for field, value := range map[string]string{"account_id": `"` + other + `"`, "amount_minor": "1", "amount_minor_str": `"1"`, "currency": `"USD"`, "idempotency_key": `"k"`} {
			a := b.send(t, http.MethodPost, path, token, fmt.Sprintf(`{"payout_id": %q, %q: %s}`, id, field, value))
			if refused(t, path+" with "+field, a, http.StatusUnprocessableEntity, "usage"); !strings.Contains(string(a.Body), field) {
				t.Errorf("%s with %s: the answer does not name it: %s", path, field, a.Body)
			}
		}
	}
	if p := want[payapi.PayoutDetail](t, "show", b.get(t, payapi.PathPayout+"?payout_id="+id), http.StatusOK); p.State != paystore.RailAcked {
		t.Errorf("it moved: %s", p.State)
	}
}

// A move from a state without such an arrow is told where the payout stands; a move
// that a lower token's claim is in the way of, whose.
//
// Clauses: K-5.1
// Mutation: answer StateError with another status.
func TestWrongState(t *testing.T) {
	t.Parallel()
	b := setup(t, 16)
	token := b.token()
	for state, paths := range map[paystore.State][]string{
		paystore.Pending:       {payapi.PathSubmit, payapi.PathSettle, payapi.PathPost, payapi.PathReject, payapi.PathCheckFunds},
		paystore.Claimed:       {payapi.PathSettle, payapi.PathPost},
		paystore.RailSubmitted: {payapi.PathRelease, payapi.PathCheckFunds, payapi.PathPost},
		paystore.Posted:        {payapi.PathClaim, payapi.PathSubmit, payapi.PathReject},
	} {
		token = b.token()
		id := b.at(t, payer, state, token)
		for _, path := range paths {
			err := refused(t, string(state)+" "+path, b.post(t, path, token, moves(id)[path]), http.StatusConflict, "wrong_state").err
			if e, ok := errors.AsType[*paystore.StateError](err); !ok || e.Have != state || e.PayoutID != id {
				t.Errorf("%s %s: %v", state, path, err)
			}
		}
	}
	id := b.at(t, other, paystore.Claimed, token)
	err := refused(t, "another's", b.post(t, payapi.PathSubmit, token+1, ref(id)), http.StatusConflict, "claimed").err
	if e, ok := errors.AsType[*paystore.ClaimedError](err); !ok || e.By != "worker" || e.Token != token {
		t.Errorf("another's: %v", err)
	}
}

// What is not known of the rail is not guessed, and what the account cannot pay is
// rejected: before the rail, and after it.
//
// Clauses: K-4.9, K-5.3, K-5.5
// Mutation: answer EvidenceError or RejectedError with success.
func TestEvidenceAndRejection(t *testing.T) {
	t.Parallel()
	b := setup(t, 16)
	token := b.token()
	id := b.at(t, payer, paystore.RailSubmitted, token)
	refused(t, "no attempt", b.post(t, payapi.PathSettle, token, ref(id)), http.StatusConflict, "evidence")
	b.attempt(t, id, token, "")
	refused(t, "in flight", b.post(t, payapi.PathSettle, token, ref(id)), http.StatusConflict, "evidence")

	token = b.token()
	dear := b.create(t, other, "EUR", 100_000_000)
	b.bring(t, dear.PayoutID, paystore.Claimed, token)
	err := refused(t, "too dear", b.post(t, payapi.PathCheckFunds, token, ref(dear.PayoutID)), http.StatusConflict, "rejected").err
	if e, ok := errors.AsType[*paystore.RejectedError](err); !ok || e.Reason != paystore.ReasonInsufficientFunds || e.AmountMinor != 100_000_000 {
		t.Errorf("too dear: %v", err)
	}
	failed := want[payapi.Payout](t, "reject", b.post(t, payapi.PathReject, token, ref(dear.PayoutID)), http.StatusOK)
	if failed.State != paystore.Failed {
		t.Errorf("rejected: %+v", failed)
	}
	token = b.token()
	late := b.create(t, dollars, "USD", 500)
	b.bring(t, late.PayoutID, paystore.RailAcked, token)
	b.exec(t, `UPDATE account SET balance_minor = 0 WHERE account_id = $1`, dollars)
	refused(t, "the money went", b.post(t, payapi.PathPost, token, ref(late.PayoutID)), http.StatusConflict, "rejected")
}

// An unknown outcome is resolved by evidence, which is kept once; an attestation is kept and
// moves nothing.
//
// Clauses: K-5.3, K-7.9
// Mutation: exchange Resolve and Attest in Register.
func TestResolveAndAttest(t *testing.T) {
	t.Parallel()
	b := setup(t, 16)
	token := b.token()
	id := b.at(t, payer, paystore.RailAmbiguous, token)
	attested := want[payapi.Payout](t, "attest", b.post(t, payapi.PathAttest, token, moves(id)[payapi.PathAttest]), http.StatusOK)
	if attested.State != paystore.RailAmbiguous {
		t.Errorf("attested: %+v", attested)
	}
	unsettled := want[payapi.UnsettledList](t, "unsettled", b.get(t, payapi.PathUnsettled), http.StatusOK)
	if len(unsettled.Payouts) != 1 || unsettled.Payouts[0].PayoutID != id || unsettled.Payouts[0].HeldBack || unsettled.More {
		t.Errorf("unsettled: %+v", unsettled)
	}
	resolved := want[payapi.Payout](t, "resolve", b.post(t, payapi.PathResolve, token, moves(id)[payapi.PathResolve]), http.StatusOK)
	d := want[payapi.PayoutDetail](t, "show", b.get(t, payapi.PathPayout+"?payout_id="+id), http.StatusOK)
	if resolved.State != paystore.RailAcked || len(d.Resolutions) != 1 || d.Resolutions[0].Operator != "erin" || string(d.Resolutions[0].Evidence) != `{"ticket":1}` {
		t.Errorf("resolved: %+v, %+v", resolved, d.Resolutions)
	}
	bad := map[string]any{"payout_id": id, "source": "operator", "verdict": "PAID", "evidence": map[string]int{}, "operator": "erin", "reason": "asked"}
	refused(t, "evidence that says nothing", b.post(t, payapi.PathAttest, token, bad), http.StatusUnprocessableEntity, "invalid_argument")
	bad["verdict"] = "MAYBE"
	refused(t, "no verdict", b.post(t, payapi.PathAttest, token, bad), http.StatusUnprocessableEntity, "usage")
}

// Release forgets the claim; give-up fails a payout that nobody claimed without a
// token, and a claimed one with its token.
//
// Clauses: K-5.1
// Mutation: send the token 0 for a header that is there.
func TestReleaseAndGiveUp(t *testing.T) {
	t.Parallel()
	b := setup(t, 16)
	token := b.token()
	id := b.at(t, payer, paystore.Claimed, token)
	give := payapi.GiveUp{PayoutID: id, Operator: "erin", Reason: "not wanted"}
	refused(t, "give up what is claimed", b.post(t, payapi.PathGiveUp, 0, give), http.StatusConflict, "claimed")
	for _, released := range []bool{true, false} {
		if r := want[payapi.Released](t, "release", b.post(t, payapi.PathRelease, token, ref(id)), http.StatusOK); r.Released != released {
			t.Errorf("released: %t, want %t", r.Released, released)
		}
	}
	given := want[payapi.Payout](t, "give up", b.post(t, payapi.PathGiveUp, 0, give), http.StatusOK)
	if given.State != paystore.Failed || given.ClaimTokenStr != "" {
		t.Errorf("given up: %+v", given)
	}
	token = b.token()
	give.PayoutID = b.at(t, payer, paystore.Claimed, token)
	if p := want[payapi.Payout](t, "give up one's own", b.post(t, payapi.PathGiveUp, token, give), http.StatusOK); p.State != paystore.Failed {
		t.Errorf("given up: %+v", p)
	}
	give.Reason = " "
	refused(t, "no reason", b.post(t, payapi.PathGiveUp, token, give), http.StatusUnprocessableEntity, "invalid_argument")
}

package posting_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"

	"github.com/dlockctl/dlockctl/internal/paystore"
	"github.com/dlockctl/dlockctl/internal/paystore/posting"
)

// A higher token takes an open payout over in the state it is in; the stale holder is
// fenced out of every verb, and what is final is nobody's.
//
// Clauses: K-5.1, K-5.2, K-1.6
// Mutation: write "claim_token <= :token" in queries/take_over.sql, leave a state out
// of the table of Claim, or unclaimable's second case.
func TestTakeOver(t *testing.T) {
	t.Parallel()
	eachMajor(t, func(t *testing.T, b bundle) {
		ctx := t.Context()
		for _, state := range paystore.States() {
			old := b.token()
			id := b.at(t, payer, state, old)
			taken, err := b.Claim(ctx, id, "heir", b.token())
			if state.Final() {
				if wrong, ok := errors.AsType[*paystore.StateError](err); !ok || wrong.Have != state || len(wrong.Want) != 5 {
					t.Errorf("claim of %s: %v", state, err)
				}
				continue
			}
			heir := paystore.Token(b.last.Load())
			want := state
			if state == paystore.Pending {
				want = paystore.Claimed
			}
			if err != nil || taken.State != want || taken.ClaimedBy != "heir" || taken.ClaimToken != heir {
				t.Fatalf("claim of %s: %+v, %v", state, taken, err)
			}
			if again, err := b.Claim(ctx, id, "heir", heir); err != nil || again != taken {
				t.Errorf("the same claim again: %+v, %v", again, err)
			}
			_, err = b.Claim(ctx, id, "another", heir)
			if held, ok := errors.AsType[*paystore.ClaimedError](err); !ok || held.By != "heir" || held.Token != heir {
				t.Errorf("the same token under another name: %v", err)
			}
			for verb, err := range b.everyVerb(t, id, old) {
				fencedBy(t, verb+" by the stale holder of "+string(state), err, paystore.ResourcePayout, old, heir)
			}
			if released, err := b.Release(ctx, id, old); released || err != nil {
				t.Errorf("release by the stale holder: %t, %v", released, err)
			}
			if p := b.payout(t, id); p.Payout != taken {
				t.Errorf("the stale holder changed %s: %+v", state, p)
			}
		}
		b.balanced(t)
	})
}

// everyVerb tries what moves a payout, but for Release, which is always success.
func (b bundle) everyVerb(t *testing.T, id string, token paystore.Token) map[string]error {
	t.Helper()
	ctx := t.Context()
	errs := map[string]error{"check": b.CheckFunds(ctx, id, token)}
	_, errs["claim"] = b.Claim(ctx, id, "holder", token)
	_, errs["submit"] = b.Submit(ctx, id, token)
	_, errs["settle"] = b.Settle(ctx, id, token)
	_, errs["reject"] = b.Reject(ctx, id, token)
	_, errs["post"] = b.Post(ctx, id, token)
	_, errs["give up"] = b.GiveUp(ctx, id, token, "erin", "test")
	if b.payout(t, id).State == paystore.RailAmbiguous {
		_, errs["resolve"] = b.Resolve(ctx, resolution(id, token, paystore.VerdictNotFound))
	}
	return errs
}

// Who has a higher token but has not taken the payout over moves nothing of it.
//
// Clauses: K-5.1
// Mutation: write "claim_token <= :token" in queries/move.sql, submit.sql or release.sql,
// or leave the ClaimedError out of postable.
func TestHigherTokenTakesOverFirst(t *testing.T) {
	t.Parallel()
	b := setup(t, 16)
	for _, state := range []paystore.State{paystore.Claimed, paystore.RailSubmitted, paystore.RailAmbiguous, paystore.RailAcked} {
		fresh := b.at(t, payer, state, b.token())
		stands := b.payout(t, fresh).Payout
		above := b.token()
		for verb, do := range map[string]func() error{
			"check":   func() error { return b.CheckFunds(t.Context(), fresh, above) },
			"submit":  func() error { _, err := b.Submit(t.Context(), fresh, above); return err },
			"settle":  func() error { _, err := b.Settle(t.Context(), fresh, above); return err },
			"reject":  func() error { _, err := b.Reject(t.Context(), fresh, above); return err },
			"give up": func() error { _, err := b.GiveUp(t.Context(), fresh, above, "erin", "test"); return err },
		} {
			err := do()
			if held, ok := errors.AsType[*paystore.ClaimedError](err); !ok || held.Token != stands.ClaimToken || held.By != "holder" {
				t.Errorf("%s of %s: %v, want claimed", verb, state, err)
			}
		}
		if state == paystore.RailAcked {
			if _, err := b.Post(t.Context(), fresh, above); !is[*paystore.ClaimedError](err) {
				t.Errorf("post: %v, want claimed", err)
			}
		}
		if released, err := b.Release(t.Context(), fresh, above); released || err != nil {
			t.Errorf("release of %s: %t, %v", state, released, err)
		}
		if now := b.payout(t, fresh).Payout; now != stands {
			t.Errorf("%s was changed: %+v", state, now)
		}
	}
}

// A release forgets the claim on the row, and nobody below it may claim again: not
// 35 after 40, nor 40 itself.
//
// Clauses: K-5.2
// Mutation: drop the third case of unclaimable and the trigger payout_claim_order.
func TestReleaseIsRemembered(t *testing.T) {
	t.Parallel()
	eachMajor(t, func(t *testing.T, b bundle) {
		ctx := t.Context()
		id := b.at(t, payer, paystore.Claimed, 40)
		for _, want := range []bool{true, false} {
			if released, err := b.Release(ctx, id, 40); err != nil || released != want {
				t.Fatalf("release: %t, %v, want %t", released, err, want)
			}
		}
		for _, token := range []paystore.Token{35, 40} {
			_, err := b.Claim(ctx, id, "zombie", token)
			fencedBy(t, "claim after a release", err, paystore.ResourcePayout, token, 40)
		}
		p := b.payout(t, id)
		if p.State != paystore.Pending || p.ClaimToken != 0 || p.ClaimedBy != "" || len(p.Claims) != 1 || p.Claims[0].Token != 40 {
			t.Errorf("released: %+v", p)
		}
		if _, err := b.Claim(ctx, id, "heir", 41); err != nil {
			t.Errorf("41: %v", err)
		}
		// What has left for the rail is not given back.
		gone := b.at(t, payer, paystore.RailSubmitted, 42)
		if _, err := b.Release(ctx, gone, 42); !is[*paystore.StateError](err) {
			t.Errorf("release from the rail: %v", err)
		}
		if _, err := b.Release(ctx, nobody, 42); !errors.Is(err, paystore.ErrNotFound) {
			t.Errorf("release of nothing: %v", err)
		}
	})
}

// The trigger alone holds the history against a claim that races: the statement
// changes no row, and with the trigger off it does (negative control).
//
// Clauses: K-5.2
// Mutation: disable payout_claim_order.
func TestClaimStatementAloneIsHeld(t *testing.T) {
	t.Parallel()
	b := setup(t, 16)
	id := b.at(t, payer, paystore.Claimed, 40)
	if _, err := b.Release(t.Context(), id, 40); err != nil {
		t.Fatal(err)
	}
	claim := func() int64 {
		t.Helper()
		tag, err := b.super.Exec(t.Context(), posting.Queries()["claim"], id, "zombie", 35)
		if err != nil {
			t.Fatal(err)
		}
		return tag.RowsAffected()
	}
	if n := claim(); n != 0 {
		t.Errorf("35 after 40 changed %d rows", n)
	}
	b.exec(t, `ALTER TABLE payout DISABLE TRIGGER payout_claim_order`)
	if n := claim(); n != 1 {
		t.Errorf("without the guard 35 changed %d rows: it is not what holds it", n)
	}
}

// Whatever order they come in, the highest token has the payout in the end, and each
// one that was told so had it for a while.
//
// Clauses: K-5.2
// Mutation: claim without starting over, or take over with "<=".
func TestClaimsAtOnce(t *testing.T) {
	t.Parallel()
	b := setup(t, 16)
	for range 5 {
		id := b.create(t, payer, 100)
		const n = 16
		told := make([]bool, n+1)
		base := paystore.Token(b.last.Add(n)) - n
		group, ctx := errgroup.WithContext(t.Context())
		for i := 1; i <= n; i++ {
			group.Go(func() error {
				_, err := b.Claim(ctx, id, "holder", base+paystore.Token(i))
				told[i] = err == nil
				if is[*paystore.FencedError](err) {
					return nil
				}
				return err
			})
		}
		if err := group.Wait(); err != nil {
			t.Fatal(err)
		}
		p := b.payout(t, id)
		var recorded, answered []paystore.Token
		for _, c := range p.Claims {
			recorded = append(recorded, c.Token)
		}
		for i, yes := range told {
			if yes {
				answered = append(answered, base+paystore.Token(i))
			}
		}
		if p.ClaimToken != base+n || !cmp.Equal(recorded, answered) {
			t.Errorf("it ended with %s; claimed by %v, told so %v", p.ClaimToken, recorded, answered)
		}
	}
}

// A token from before a restore claims, checks and posts nothing, on any account.
//
// Clauses: K-4.12
// Mutation: drop the floor from unclaimable and claimedOtherwise, and payout_floor.
func TestFloorRefuses(t *testing.T) {
	t.Parallel()
	b := setup(t, 16)
	ctx := t.Context()
	pending, claimed, acked := b.create(t, payer, 100), b.at(t, payer, paystore.Claimed, 7), b.at(t, other, paystore.RailAcked, 8)
	b.exec(t, `UPDATE fence_floor SET floor_token = 100`)
	_, err := b.Claim(ctx, pending, "holder", 100)
	fencedBy(t, "claim", err, paystore.ResourceFloor, 100, 100)
	_, err = b.Claim(ctx, claimed, "holder", 7)
	fencedBy(t, "the same claim again", err, paystore.ResourceFloor, 7, 100)
	fencedBy(t, "check", b.CheckFunds(ctx, claimed, 7), paystore.ResourceFloor, 7, 100)
	_, err = b.Post(ctx, acked, 8)
	fencedBy(t, "post", err, paystore.ResourceFloor, 8, 100)
	if _, err := b.Claim(ctx, acked, "heir", 101); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Post(ctx, acked, 101); err != nil {
		t.Errorf("above the floor: %v", err)
	}
	b.balanced(t)
}

// A closed gate stops claims, says what to do, and lets what was acknowledged post.
//
// Clauses: K-7.9
// Mutation: drop the pay_gate case of paystore's classify.
func TestClosedGate(t *testing.T) {
	t.Parallel()
	b := setup(t, 16)
	id, acked := b.create(t, payer, 100), b.at(t, payer, paystore.RailAcked, 7)
	b.exec(t, `ALTER TABLE pay_gate DISABLE TRIGGER USER`)
	for _, tt := range []struct{ shut, says, hint string }{
		{`UPDATE pay_gate SET closed_by = 'erin', closed_at = now(), closed_reason = 'drill'`, "drill", "dlockctl thaw"},
		{`UPDATE pay_gate SET timeline_id = 99, closed_by = NULL, closed_at = NULL, closed_reason = NULL`, "restored", "dlockctl restore plan"},
	} {
		b.exec(t, tt.shut)
		_, err := b.Claim(t.Context(), id, "holder", 9)
		closed, ok := errors.AsType[*paystore.GateClosedError](err)
		if !ok || !strings.Contains(closed.Message, tt.says) || !strings.Contains(closed.Hint, tt.hint) {
			t.Errorf("%s: %v (%+v)", tt.shut, err, closed)
		}
	}
	if _, err := b.Post(t.Context(), acked, 7); err != nil {
		t.Errorf("post behind a closed gate: %v", err)
	}
}

// What the account's next holder finishes first: claimed, not final, oldest first, and
// not the one in hand.
//
// Clauses: K-5.2
// Mutation: leave a state out of queries/open_on_account.sql, its order, or what it goes
// on behind.
func TestOpenOnAccount(t *testing.T) {
	t.Parallel()
	b := setup(t, 16)
	var want []string
	for _, state := range paystore.States() {
		id := b.at(t, payer, state, b.token())
		if state != paystore.Pending && !state.Final() {
			want = append(want, id)
		}
	}
	b.at(t, other, paystore.Claimed, b.token())
	mine := b.at(t, payer, paystore.Claimed, b.token())
	ids := func(except string) (ids []string) {
		var last *paystore.Payout
		for {
			open, err := b.OpenOnAccount(t.Context(), payer, except, last, 2)
			if err != nil || len(open) > 2 {
				t.Fatal(len(open), err)
			}
			if len(open) == 0 {
				return ids
			}
			for _, p := range open {
				ids = append(ids, p.PayoutID)
			}
			last = &open[len(open)-1]
		}
	}
	if got := ids(mine); !cmp.Equal(got, want) {
		t.Errorf("open: %v, want %v", got, want)
	}
	if got := ids(""); !cmp.Equal(got, append(want, mine)) {
		t.Errorf("with the one in hand: %v, want %v", got, append(want, mine))
	}
	for _, bad := range [][2]string{{"x", ""}, {payer, "x"}} {
		if _, err := b.OpenOnAccount(t.Context(), bad[0], bad[1], nil, 1); !errors.Is(err, paystore.ErrInvalid) {
			t.Errorf("%v: %v", bad, err)
		}
	}
}

// What is no id, no name and no token is refused before anything is sent.
//
// Clauses: K-1.6
// Mutation: leave ValidToken out of validClaim.
func TestClaimRefusesArguments(t *testing.T) {
	t.Parallel()
	b := setup(t, 16)
	id := uuid.NewString()
	for _, tt := range []struct {
		id, holder string
		token      paystore.Token
	}{{"7", "w", 1}, {id, "", 1}, {id, "\t", 1}, {id, "w", 0}, {id, "w", -1}, {id, "w", paystore.MaxToken + 1}} {
		if _, err := b.Claim(t.Context(), tt.id, tt.holder, tt.token); !errors.Is(err, paystore.ErrInvalid) {
			t.Errorf("%+v: %v", tt, err)
		}
		if tt.holder != "w" {
			continue
		}
		for verb, err := range map[string]error{
			"check": b.CheckFunds(t.Context(), tt.id, tt.token),
			"post":  func() error { _, err := b.Post(t.Context(), tt.id, tt.token); return err }(),
		} {
			if !errors.Is(err, paystore.ErrInvalid) {
				t.Errorf("%s %+v: %v", verb, tt, err)
			}
		}
	}
	if _, err := b.Claim(t.Context(), id, "w", paystore.MaxToken); !errors.Is(err, paystore.ErrNotFound) {
		t.Errorf("the highest token: %v", err)
	}
}

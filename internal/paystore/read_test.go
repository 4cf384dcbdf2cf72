package paystore_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/jackc/pgx/v5"

	"github.com/dlockctl/dlockctl/internal/paystore"
	"github.com/dlockctl/dlockctl/internal/pgtest"
)

const (
	payer = "00000000-0000-4000-8000-000000000001"
	other = "00000000-0000-4000-8000-000000000002"
	shard = "00000000-0000-4000-9000-000000000000"
)

// payoutID is the n-th payout of lifeStory.
func payoutID(n int) string { return fmt.Sprintf("00000000-0000-4000-a000-%012d", n) }

// lifeStory is payout 1, PENDING; 2, taken over, resolved and posted; 3, CLAIMED on
// the other account, a day later. Ids 1 and 2 are of one moment.
const lifeStory = `
	SET session_replication_role = replica;
	INSERT INTO payout (payout_id, account_id, amount_minor, currency, state, claimed_by, claim_token, idempotency_key, attempt_count, created_at, updated_at) VALUES
	  ('00000000-0000-4000-a000-000000000001', '00000000-0000-4000-8000-000000000001', 1, 'EUR', 'PENDING', NULL, NULL, 'k1', 0, '2026-01-01 00:00:00Z', '2026-01-01 00:00:00Z'),
	  ('00000000-0000-4000-a000-000000000002', '00000000-0000-4000-8000-000000000001', 9223372036854775807, 'EUR', 'POSTED', 'w', 9007199254740992, 'k2', 1, '2026-01-01 00:00:00Z', '2026-01-01 00:00:00.123456Z'),
	  ('00000000-0000-4000-a000-000000000003', '00000000-0000-4000-8000-000000000002', 3, 'EUR', 'CLAIMED', 'v', 3, 'k3', 0, '2026-01-02 00:00:00Z', now());
	INSERT INTO payout_claim VALUES ('00000000-0000-4000-a000-000000000002', 9007199254740992, 'w', '2026-01-01 00:00:02Z') ON CONFLICT (payout_id, claim_token) DO UPDATE SET claimed_at = EXCLUDED.claimed_at;`

func lived(t *testing.T, major int) pgtest.Databases {
	t.Helper()
	dbs := pgtest.Migrated(t, major)
	super := dbs.Pay.Conn(t, "super")
	// As a restore would write it, with the guards of evidence off for the dates.
	for _, sql := range []string{
		`ALTER TABLE payout_claim DISABLE TRIGGER payout_claim_append_only`, lifeStory,
		`INSERT INTO payout_claim VALUES ('` + payoutID(2) + `', 5, 'v', '2026-01-01 00:00:01Z')`,
		`INSERT INTO rail_submission VALUES
		   ('00000000-0000-4000-b000-000000000001', '` + payoutID(2) + `', 'k2', 4, 'FENCED', NULL, '2026-01-01 00:00:00Z', '2026-01-01 00:00:00Z'),
		   ('00000000-0000-4000-b000-000000000002', '` + payoutID(2) + `', 'k2', 5, NULL, NULL, '2026-01-01 00:00:01Z', NULL)`,
		`INSERT INTO ledger_entry VALUES
		   ('00000000-0000-4000-c000-000000000002', '` + payoutID(2) + `', '` + shard + `', 'CREDIT', 9223372036854775807, 9007199254740992, '2026-01-01 00:00:03Z'),
		   ('00000000-0000-4000-c000-000000000001', '` + payoutID(2) + `', '` + payer + `', 'DEBIT', 9223372036854775807, 9007199254740992, '2026-01-01 00:00:03Z')`,
		`INSERT INTO payout_resolution (payout_id, source, verdict, evidence, operator, reason) VALUES ('` + payoutID(2) + `', 'rail', 'PAID', '{"reference": "r-1"}', 'erin', 'asked')`,
	} {
		if _, err := super.Exec(t.Context(), sql); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
	return dbs
}

// A payout is shown with all that was recorded of it, 64 bits whole and times in UTC.
//
// Clauses: K-5.4, K-5.2
// Mutation: leave an ORDER BY or a column out of queries/show_payout.sql.
func TestPayout(t *testing.T) {
	t.Parallel()
	for _, major := range pgtest.Majors() {
		t.Run(fmt.Sprint(major), func(t *testing.T) {
			t.Parallel()
			dbs := lived(t, major)
			at := func(seconds int) time.Time { return time.Date(2026, 1, 1, 0, 0, seconds, 0, time.UTC) }
			const most, top = paystore.Minor(1<<63 - 1), paystore.MaxToken
			id := payoutID(2)
			want := paystore.PayoutDetail{
				Payout: paystore.Payout{
					PayoutID: id, AccountID: payer, AmountMinor: most, Currency: "EUR", State: paystore.Posted, ClaimedBy: "w", ClaimToken: top,
					IdempotencyKey: "k2", AttemptCount: 1, CreatedAt: at(0), UpdatedAt: at(0).Add(123456 * time.Microsecond),
				},
				Claims: []paystore.ClaimRecord{{Token: 5, ClaimedBy: "v", ClaimedAt: at(1)}, {Token: top, ClaimedBy: "w", ClaimedAt: at(2)}},
				Attempts: []paystore.Attempt{
					{SubmissionID: "00000000-0000-4000-b000-000000000001", PayoutID: id, IdempotencyKey: "k2", PresentedToken: 4, Outcome: paystore.OutcomeFenced, SubmittedAt: at(0), ResolvedAt: at(0)},
					{SubmissionID: "00000000-0000-4000-b000-000000000002", PayoutID: id, IdempotencyKey: "k2", PresentedToken: 5, SubmittedAt: at(1)},
				},
				Legs: []paystore.Leg{
					{EntryID: "00000000-0000-4000-c000-000000000001", PayoutID: id, AccountID: payer, Direction: paystore.Debit, AmountMinor: most, Fence: top, CreatedAt: at(3)},
					{EntryID: "00000000-0000-4000-c000-000000000002", PayoutID: id, AccountID: shard, Direction: paystore.Credit, AmountMinor: most, Fence: top, CreatedAt: at(3)},
				},
				Resolutions: []paystore.Resolution{{
					Source: paystore.SourceRail, Verdict: paystore.VerdictPaid, Evidence: json.RawMessage(`{"reference": "r-1"}`),
					Operator: "erin", Reason: "asked", LoginRole: "postgres", ClientAddress: "127.0.0.1",
				}},
			}
			for _, login := range []string{"t_resource", "t_operator", "t_auditor"} {
				got, err := open(t, paystore.Options{Config: dbs.Pay.Config(t, login)}).Payout(t.Context(), id)
				diff := cmp.Diff(want, got, cmpopts.IgnoreFields(paystore.Resolution{}, "ResolutionID", "RecordedAt"), cmpopts.EquateApproxTime(0))
				if diff != "" || err != nil {
					t.Errorf("%s: %v (-want +got):\n%s", login, err, diff)
				}
			}
			db := open(t, paystore.Options{Config: dbs.Pay.Config(t, "t_auditor")})
			if bare, err := db.Payout(t.Context(), payoutID(1)); err != nil || bare.Claims == nil || bare.Legs == nil || bare.ClaimToken != 0 || bare.ClaimedBy != "" {
				t.Errorf("a new one: %+v, %v", bare, err)
			}
			if _, err := db.Payout(t.Context(), payer); !errors.Is(err, paystore.ErrNotFound) {
				t.Errorf("an account's id: %v", err)
			}
			if _, err := db.Payout(t.Context(), "p1"); !errors.Is(err, paystore.ErrInvalid) {
				t.Errorf("no id: %v", err)
			}
		})
	}
}

// Each filter narrows, together and alone.
//
// Mutation: leave a predicate out of queries/list_payouts.sql or list_accounts.sql.
func TestLists(t *testing.T) {
	t.Parallel()
	dbs := lived(t, 16)
	db := open(t, paystore.Options{Config: dbs.Pay.Config(t, "t_auditor")})
	for name, tt := range map[string]struct {
		filter paystore.PayoutFilter
		want   []int
	}{
		"all":          {paystore.PayoutFilter{}, []int{3, 2, 1}},
		"oldest first": {paystore.PayoutFilter{OldestFirst: true}, []int{1, 2, 3}},
		"one":          {paystore.PayoutFilter{OldestFirst: true, Limit: 1}, []int{1}},
		"account":      {paystore.PayoutFilter{AccountID: payer}, []int{2, 1}},
		"shouted":      {paystore.PayoutFilter{AccountID: strings.ToUpper(other)}, []int{3}},
		"states":       {paystore.PayoutFilter{States: []paystore.State{paystore.Pending, paystore.Claimed}}, []int{3, 1}},
		"holder":       {paystore.PayoutFilter{ClaimedBy: "v"}, []int{3}},
		"key":          {paystore.PayoutFilter{IdempotencyKey: "k2"}, []int{2}},
		"still":        {paystore.PayoutFilter{OlderThan: time.Hour}, []int{2, 1}},
		"none":         {paystore.PayoutFilter{AccountID: other, States: []paystore.State{paystore.Pending}}, nil},
	} {
		got, err := db.Payouts(t.Context(), tt.filter)
		var ids, want []string
		for _, p := range got {
			ids = append(ids, p.PayoutID)
		}
		for _, n := range tt.want {
			want = append(want, payoutID(n))
		}
		if diff := cmp.Diff(want, ids); diff != "" || err != nil || got == nil {
			t.Errorf("%s: %v (-want +got):\n%s", name, err, diff)
		}
	}
	for name, tt := range map[string]struct {
		filter paystore.AccountFilter
		want   int
	}{
		"all": {paystore.AccountFilter{}, 32}, "dollars": {paystore.AccountFilter{Currency: "USD"}, 10}, "clearing": {paystore.AccountFilter{Clearing: true}, 12},
		"clearing pounds": {paystore.AccountFilter{Clearing: true, Currency: "GBP"}, 4}, "after": {paystore.AccountFilter{After: payer}, 31}, "two": {paystore.AccountFilter{Limit: 2}, 2},
	} {
		if got, err := db.Accounts(t.Context(), tt.filter); err != nil || len(got) != tt.want {
			t.Errorf("%s: %d accounts, %v, want %d", name, len(got), err, tt.want)
		}
	}
	a, err := db.Account(t.Context(), payer)
	if err != nil || a.BalanceMinor != 1_000_000 || a.OpeningMinor == nil || *a.OpeningMinor != 1_000_000 || a.OpenPayouts != 1 || a.Clearing || a.Currency != "EUR" {
		t.Errorf("%+v, %v", a, err)
	}
	for name, err := range map[string]error{
		"currency": func() error { _, err := db.Accounts(t.Context(), paystore.AccountFilter{Currency: "eur"}); return err }(),
		"after":    func() error { _, err := db.Accounts(t.Context(), paystore.AccountFilter{After: "x"}); return err }(),
		"account":  func() error { _, err := db.Payouts(t.Context(), paystore.PayoutFilter{AccountID: "x"}); return err }(),
		"id":       func() error { _, err := db.Account(t.Context(), "x"); return err }(),
	} {
		if !errors.Is(err, paystore.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := db.Account(t.Context(), payoutID(1)); !errors.Is(err, paystore.ErrNotFound) {
		t.Errorf("a payout's id: %v", err)
	}
}

// Every statement is one that PostgreSQL accepts on the migrated schema, and every
// file in queries/ is used.
//
// Mutation: misspell a column in queries/*.sql.
func TestQueriesPrepare(t *testing.T) {
	t.Parallel()
	onMajors(t, func(t *testing.T, conn *pgx.Conn) {
		for name, sql := range paystore.Queries() {
			if _, err := conn.Prepare(t.Context(), name, sql); err != nil {
				t.Errorf("queries/%s.sql: %v", name, err)
			}
		}
	})
	files, err := filepath.Glob("queries/*.sql")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if _, used := paystore.Queries()[strings.TrimSuffix(filepath.Base(file), ".sql")]; !used {
			t.Errorf("%s is used by nothing", file)
		}
	}
	if _, err := os.Stat("queries"); err != nil || len(files) == 0 {
		t.Error("no queries", err)
	}
}

// Each error says what is wrong in one line, with the values that matter.
//
// Mutation: leave a value out of an Error method.
func TestErrorsSayWhatIsWrong(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		err  error
		says string
	}{
		{&paystore.FencedError{Resource: paystore.ResourceAccount, AccountID: "A", Presented: 7, Stored: 9}, "fenced out: token 7 is too old, account A stands at 9"},
		{&paystore.FencedError{Resource: paystore.ResourcePayout, PayoutID: "P", Presented: 7, Stored: 9}, "fenced out: token 7 is too old, payout P stands at 9"},
		{&paystore.FencedError{Resource: paystore.ResourceRail, AccountID: "A", Presented: 7, Stored: 9}, "fenced out: token 7 is too old, the rail's mark of account A stands at 9"},
		{&paystore.FencedError{Resource: paystore.ResourceFloor, Presented: 7, Stored: 9}, "fenced out: token 7 is too old, the floor, below which every token is from before a restore, stands at 9"},
		{&paystore.RejectedError{Reason: paystore.ReasonNoAccount, AccountID: "A"}, "account A does not exist"},
		{&paystore.RejectedError{Reason: paystore.ReasonCurrencyMismatch, AccountID: "A", Currency: "USD", AccountCurrency: "EUR"}, "account A holds EUR, not USD"},
		{&paystore.RejectedError{Reason: paystore.ReasonInsufficientFunds, AccountID: "A", AmountMinor: 5, BalanceMinor: 3, Currency: "EUR"}, "account A has 3 minor units of EUR, and 5 are needed"},
		{&paystore.StateError{PayoutID: "P", Have: paystore.Posted, Want: []paystore.State{paystore.Claimed, paystore.Pending}}, "payout P is POSTED, not CLAIMED or PENDING"},
		{&paystore.ConflictError{IdempotencyKey: "k", PayoutID: "P", Field: "amount_minor", Have: "1", Given: "2"}, `payout P with idempotency key "k" has amount_minor 1, not 2`},
		{&paystore.ClaimedError{PayoutID: "P", By: "w", Token: 7}, `payout P is claimed by "w" with token 7`},
		{&paystore.BlockedError{PIDs: []int32{1, 2}}, "blocked by the open transaction of server process 1 2"},
		{&paystore.BlockedError{}, "blocked by another open transaction"},
		{&paystore.GateClosedError{Message: "closed"}, "closed"},
		{&paystore.EvidenceError{Message: "in flight"}, "in flight"},
		{&paystore.UnsafeError{Clause: "K-4.10", Problem: "no guard"}, "no guard (K-4.10)"},
		{&paystore.SchemaError{IsLockdb: true}, "the address given for paydb is that of lockdb"},
		{&paystore.SchemaError{Have: 3, Min: 4, Max: 5}, "paydb's schema is at version 3, older than the 4 this program needs"},
		{&paystore.SchemaError{Have: 6, Min: 4, Max: 5}, "paydb's schema is at version 6, newer than the 5 this program knows"},
		{&paystore.UnknownOutcomeError{Doing: "post", Err: errors.New("EOF")}, "post: outcome unknown: EOF"},
	} {
		if got := tt.err.Error(); got != tt.says {
			t.Errorf("%T: %q, want %q", tt.err, got, tt.says)
		}
	}
}

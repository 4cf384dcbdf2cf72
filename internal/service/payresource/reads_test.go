package payresource_test

import (
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/dlockctl/dlockctl/internal/paystore"
	"github.com/dlockctl/dlockctl/internal/pgtest"
	"github.com/dlockctl/dlockctl/internal/service/payapi"
	"github.com/dlockctl/dlockctl/internal/service/payresource"
)

// Every statement is one that PostgreSQL accepts on the migrated schema, and that the
// service's role may run.
//
// Clauses: K-4.6
// Mutation: read rail_high_water in queries/highest.sql.
func TestQueriesPrepare(t *testing.T) {
	t.Parallel()
	files := pgtest.QueryTexts(t, payresource.QueryFiles())
	pgtest.LeavesNoState(t, payresource.Queries())
	for _, major := range pgtest.Majors() {
		t.Run(fmt.Sprint(major), func(t *testing.T) {
			t.Parallel()
			conn := pgtest.Migrated(t, major).Pay.Conn(t, "t_resource")
			pgtest.Prepares(t, conn, payresource.Queries(), files)
			for name, sql := range payresource.Queries() {
				// PREPARE does not look at rights; EXPLAIN does.
				nulls := regexp.MustCompile(`\$\d+`).ReplaceAllString(sql, "NULL")
				if _, err := conn.Exec(t.Context(), "EXPLAIN "+nulls); err != nil {
					t.Errorf("queries/%s.sql: %v", name, err)
				}
			}
		})
	}
}

// Pages cover everything once, in either order, while new payouts come.
//
// Mutation: leave the place out of a list's query, or ask for no more than the limit.
func TestPages(t *testing.T) {
	t.Parallel()
	b := setup(t, 16)
	var made []string
	for range 7 {
		made = append(made, b.create(t, payer, "EUR", 100).PayoutID)
	}
	// The same instant: the id decides.
	b.exec(t, `UPDATE payout SET updated_at = updated_at`)
	for _, order := range []string{"oldest", "newest"} {
		var seen []string
		after := ""
		for page := range 10 {
			list := want[payapi.PayoutList](t, order, b.get(t, payapi.PathPayouts+"?limit=3&order="+order+"&after="+url.QueryEscape(after)), http.StatusOK)
			for _, p := range list.Payouts {
				seen = append(seen, p.PayoutID)
			}
			if page == 0 { // comes after everything in one order, before it in the other
				late := b.create(t, payer, "EUR", 100).PayoutID
				if order == "oldest" {
					made = append(made, late)
				}
			}
			if after = list.Next; after == "" {
				break
			}
		}
		want := slices.Clone(made)
		if order == "newest" {
			slices.Reverse(want)
		}
		if !slices.Equal(seen, want) {
			t.Errorf("%s: seen %v, want %v", order, seen, want)
		}
	}
	a := want[payapi.AccountList](t, "accounts", b.get(t, payapi.PathAccounts+"?limit=2&currency=EUR"), http.StatusOK)
	next := want[payapi.AccountList](t, "accounts", b.get(t, payapi.PathAccounts+"?limit=2&currency=EUR&after="+a.Next), http.StatusOK)
	if len(a.Accounts) != 2 || len(next.Accounts) == 0 || next.Accounts[0].AccountID <= a.Accounts[1].AccountID {
		t.Errorf("accounts: %+v, then %+v", a, next)
	}
}

// What every worker asks for all the time, the oldest pending payouts, is read from their
// index, however many others there are.
//
// Mutation: order by the CASE of paystore's list, or compare the state with a column.
func TestPendingOnesComeFromTheirIndex(t *testing.T) {
	t.Parallel()
	for _, major := range pgtest.Majors() {
		t.Run(fmt.Sprint(major), func(t *testing.T) {
			t.Parallel()
			dbs := pgtest.Migrated(t, major)
			super := dbs.Pay.Conn(t, "super")
			for _, sql := range []string{
				`INSERT INTO payout (payout_id, account_id, amount_minor, currency, idempotency_key)
				 SELECT gen_random_uuid(), '` + payer + `', 1, 'EUR', 'k-' || n FROM generate_series(1, 3000) n`,
				`UPDATE payout SET state = 'FAILED' WHERE idempotency_key NOT LIKE '%0'`,
				`ANALYZE payout`,
			} {
				if _, err := super.Exec(t.Context(), sql); err != nil {
					t.Fatal(err)
				}
			}
			conn := dbs.Pay.Conn(t, "t_resource")
			rows, err := conn.Query(t.Context(), "EXPLAIN "+payresource.Queries()["list_oldest"], nil, []string{"PENDING"}, nil, nil, 0.0, nil, nil, 21)
			if err != nil {
				t.Fatal(err)
			}
			plan, err := pgx.CollectRows(rows, pgx.RowTo[string])
			if err != nil || !strings.Contains(strings.Join(plan, "\n"), "payout_pending_idx") {
				t.Errorf("%v\n%s", err, strings.Join(plan, "\n"))
			}
		})
	}
}

// Mutation: pass a filter in another's place.
func TestFilters(t *testing.T) {
	t.Parallel()
	b := setup(t, 16)
	pending := b.create(t, payer, "EUR", 100)
	claimed := b.at(t, other, paystore.Claimed, 7)
	posted := b.at(t, payer, paystore.Posted, 8)
	for query, want := range map[string][]string{
		"state=PENDING":                             {pending.PayoutID},
		"state=pending,CLAIMED&order=oldest":        {pending.PayoutID, claimed},
		"account_id=" + other:                       {claimed},
		"claimed_by=worker&order=oldest":            {claimed, posted},
		"idempotency_key=" + pending.IdempotencyKey: {pending.PayoutID},
		"older_than_ms=3600000":                     nil,
	} {
		list := wantList(t, b, query)
		if !slices.Equal(list, want) {
			t.Errorf("%s: %v, want %v", query, list, want)
		}
	}
	open := want[payapi.PayoutList](t, "open", b.get(t, payapi.PathOpen+"?account_id="+other), http.StatusOK)
	but := want[payapi.PayoutList](t, "open but one", b.get(t, payapi.PathOpen+"?account_id="+other+"&except="+claimed), http.StatusOK)
	if len(open.Payouts) != 1 || open.Payouts[0].PayoutID != claimed || len(but.Payouts) != 0 {
		t.Errorf("open: %+v, but one: %+v", open, but)
	}
}

func wantList(t *testing.T, b bundle, query string) (ids []string) {
	t.Helper()
	list := want[payapi.PayoutList](t, query, b.get(t, payapi.PathPayouts+"?"+query), http.StatusOK)
	for _, p := range list.Payouts {
		ids = append(ids, p.PayoutID)
	}
	return ids
}

// Mutation: take a check of args or parsePlace out.
func TestReadsRefuse(t *testing.T) {
	t.Parallel()
	b := setup(t, 16)
	for path, code := range map[string]string{
		payapi.PathPayouts + "?limit=0":                       "usage",
		payapi.PathPayouts + "?limit=1001":                    "usage",
		payapi.PathPayouts + "?state=DONE":                    "invalid_argument",
		payapi.PathPayouts + "?account_id=x":                  "invalid_argument",
		payapi.PathPayouts + "?after=x":                       "invalid_argument",
		payapi.PathPayouts + "?after=2026-01-01T00:00:00Z,x":  "invalid_argument",
		payapi.PathPayouts + "?order=any":                     "usage",
		payapi.PathPayout + "?payout_id=x":                    "invalid_argument",
		payapi.PathPayout:                                     "usage",
		payapi.PathAccounts + "?currency=eur":                 "invalid_argument",
		payapi.PathAccounts + "?after=x":                      "invalid_argument",
		payapi.PathOpen + "?account_id=x":                     "invalid_argument",
		payapi.PathOpen + "?account_id=" + payer + "&except=": "",
	} {
		a := b.get(t, path)
		if status := map[bool]int{true: http.StatusOK, false: http.StatusUnprocessableEntity}[code == ""]; a.Status != status || a.Problem().Code != code {
			t.Errorf("%s: %d %s, want %d %s", path, a.Status, a.Body, status, code)
		}
	}
	refused(t, "nobody's payout", b.get(t, payapi.PathPayout+"?payout_id="+nobody), http.StatusNotFound, "not_found")
	refused(t, "nobody's account", b.get(t, payapi.PathAccount+"?account_id="+nobody), http.StatusNotFound, "not_found")
}

// The highest token is that of whatever holds it, 0 in a paydb that never saw one, and
// unknown when a floor is missing: that is not 0.
//
// Clauses: K-7.6, K-7.2
// Mutation: leave a source out of queries/highest.sql, or the count of the floors.
func TestHighestToken(t *testing.T) {
	t.Parallel()
	eachMajor(t, func(t *testing.T, b bundle) {
		highest := func(token paystore.Token, source string) {
			t.Helper()
			h := want[payapi.Highest](t, source, b.get(t, payapi.PathHighest), http.StatusOK)
			if h.Token != token || h.TokenStr != token.String() || h.Source != source {
				t.Errorf("%+v, want %s in %q", h, token, source)
			}
		}
		h := want[payapi.Highest](t, "a new one", b.get(t, payapi.PathHighest), http.StatusOK)
		if h.Token != 0 {
			t.Errorf("a new paydb: %+v", h)
		}
		id := b.at(t, payer, paystore.Claimed, 11)
		highest(11, "payout.claim_token")
		want[payapi.Released](t, "release", b.post(t, payapi.PathRelease, 11, ref(id)), http.StatusOK)
		highest(11, "payout_claim.claim_token")
		b.exec(t, `UPDATE account SET fence = 21 WHERE account_id = $1`, payer)
		highest(21, "account.fence")
		b.exec(t, `INSERT INTO rail_submission (submission_id, payout_id, idempotency_key, presented_token, outcome, resolved_at)
			SELECT gen_random_uuid(), payout_id, idempotency_key, 31, 'FENCED', now() FROM payout`)
		highest(31, "rail_submission.presented_token")
		b.exec(t, `INSERT INTO account_fence_raise (account_id, raised_from, raised_to, operator, reason) VALUES ($1, 1, 41, 'erin', 'revoked')`, payer)
		highest(41, "account_fence_raise.raised_to")
		b.exec(t, `UPDATE fence_floor SET floor_token = 51, raised_by = 'erin', reason = 'restored' WHERE point = 'rail'`)
		highest(51, "fence_floor.floor_token")
		posted := b.at(t, other, paystore.RailAcked, 61)
		b.exec(t, `ALTER TABLE ledger_entry DISABLE TRIGGER USER`)
		b.exec(t, `INSERT INTO ledger_entry (entry_id, payout_id, account_id, direction, amount_minor, fence)
			SELECT gen_random_uuid(), payout_id, account_id, 'DEBIT', amount_minor, 71 FROM payout WHERE payout_id = $1`, posted)
		highest(71, "ledger_entry.fence")
		// payapp_resource has no business there (K-4.6): rail-proxy tells of it.
		b.exec(t, `INSERT INTO rail_high_water (account_id, highest_token) VALUES ($1, 81) ON CONFLICT (account_id) DO UPDATE SET highest_token = 81`, payer)
		highest(71, "ledger_entry.fence")

		b.exec(t, `ALTER TABLE fence_floor DISABLE TRIGGER USER`)
		b.exec(t, `DELETE FROM fence_floor WHERE point = 'rail'`)
		refused(t, "a missing floor", b.get(t, payapi.PathHighest), http.StatusServiceUnavailable, "unsafe_database")
		b.exec(t, `DELETE FROM fence_floor`)
		if a := b.get(t, "/readyz"); a.Status != http.StatusServiceUnavailable || !strings.Contains(string(a.Body), "floor of account is missing") {
			t.Errorf("readiness without a floor: %d %s", a.Status, a.Body)
		}
	})
}

package railproxy_test

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/dlockctl/dlockctl/internal/paystore"
	"github.com/dlockctl/dlockctl/internal/pgtest"
	"github.com/dlockctl/dlockctl/internal/service/httpdtest"
	"github.com/dlockctl/dlockctl/internal/service/payapi"
	"github.com/dlockctl/dlockctl/internal/service/paydb"
	"github.com/dlockctl/dlockctl/internal/service/railproxy"
	"github.com/dlockctl/dlockctl/internal/telemetry"
)

func options(login *pgx.ConnConfig) railproxy.Options {
	return railproxy.Options{
		Database: paystore.Options{Config: login}, Log: slog.New(slog.DiscardHandler), Metrics: telemetry.NewMetrics("rail-proxy"),
	}
}

// Clauses: K-4.6
// Mutation: read ledger_entry in queries/highest.sql.
func TestQueriesPrepare(t *testing.T) {
	t.Parallel()
	files := pgtest.QueryTexts(t, railproxy.QueryFiles())
	pgtest.LeavesNoState(t, railproxy.Queries())
	for _, major := range pgtest.Majors() {
		t.Run(fmt.Sprint(major), func(t *testing.T) {
			t.Parallel()
			conn := pgtest.Migrated(t, major).Pay.Conn(t, "t_rail")
			pgtest.Prepares(t, conn, railproxy.Queries(), files)
			for name, sql := range railproxy.Queries() {
				// PREPARE does not look at rights; EXPLAIN does.
				if _, err := conn.Exec(t.Context(), "EXPLAIN "+regexp.MustCompile(`\$\d+`).ReplaceAllString(sql, "NULL")); err != nil {
					t.Errorf("queries/%s.sql: %v", name, err)
				}
			}
		})
	}
}

// The DSN of payment-resource, of an operator or of a superuser is refused at start, by
// name; so is one that leads to lockdb.
//
// Clauses: K-4.6, K-12.1
// Mutation: drop the check of the other's rights, or the whole checkRole.
func TestStartRefusesAnothersLogin(t *testing.T) {
	t.Parallel()
	dbs := pgtest.Migrated(t, 16)
	for _, login := range []string{"t_resource", "super", "t_operator", "t_owner"} {
		_, err := railproxy.New(t.Context(), options(dbs.Pay.Config(t, login)))
		role, ok := errors.AsType[*paydb.RoleError](err)
		if !ok || role.Role != paydb.Rail || !strings.Contains(err.Error(), "it may write accounts, payouts and the ledger") {
			t.Errorf("%s: %v", login, err)
		}
	}
	_, err := railproxy.New(t.Context(), options(dbs.Pay.Config(t, "t_auditor")))
	if role, ok := errors.AsType[*paydb.RoleError](err); !ok || !strings.Contains(role.Problem, "lacks") {
		t.Errorf("t_auditor: %v", err)
	}
	_, err = railproxy.New(t.Context(), options(dbs.Lock.Config(t, "t_lockapp")))
	if e, ok := errors.AsType[*paystore.SchemaError](err); !ok || !e.IsLockdb {
		t.Errorf("the address of lockdb: %v", err)
	}
}

// Mutation: return every error of DB in paydb.Open.
func TestPaydbDownAtStart(t *testing.T) {
	t.Parallel()
	dbs := pgtest.Migrated(t, 16)
	login := dbs.Pay.Config(t, "t_rail")
	login.Port, login.Fallbacks = 1, nil
	b := serve(t, dbs, simulate(t), login, railproxy.Options{})
	for path, body := range map[string]any{
		payapi.PathRailSubmit: ref(nobody), payapi.PathRailAsk: ref(nobody), payapi.PathRailAdopt: ref(nobody),
		payapi.PathRaiseMark: payapi.RaiseMark{AccountID: account, TokenStr: "7"},
	} {
		refused(t, path, b.post(t, path, 7, body), http.StatusServiceUnavailable, "unreachable")
	}
	for _, path := range []string{payapi.PathRailLookup + "?payout_id=" + nobody, payapi.PathHighest} {
		refused(t, path, b.get(t, path), http.StatusServiceUnavailable, "unreachable")
	}
	if a := b.get(t, "/readyz"); a.Status != http.StatusServiceUnavailable || !strings.Contains(string(a.Body), "down: paydb does not answer") {
		t.Errorf("readiness: %d %s", a.Status, a.Body)
	}
}

// An operator raises the mark once; a rerun finds it, and a token below it is fenced.
//
// Clauses: K-3.2
// Mutation: send From in place of To.
func TestRaiseMark(t *testing.T) {
	t.Parallel()
	b := setup(t, 16)
	to := int64(42)
	raise := payapi.RaiseMark{AccountID: account, Token: &to}
	first := want[payapi.Raised](t, "raise", b.post(t, payapi.PathRaiseMark, 0, raise))
	again := want[payapi.Raised](t, "again", b.post(t, payapi.PathRaiseMark, 0, raise))
	if !first.Raised || first.ToStr != "42" || first.FromStr != "0" || again.Raised || again.From != 42 {
		t.Errorf("%+v, then %+v", first, again)
	}
	id := b.payout(t, account, 7)
	fenced(t, "below it", b.post(t, payapi.PathRailSubmit, 7, ref(id)), paystore.ResourceRail, 7, 42)
	raise.AccountID = nobody
	refused(t, "nobody's", b.post(t, payapi.PathRaiseMark, 0, raise), http.StatusNotFound, "not_found")
	raise.Token = nil
	refused(t, "no token", b.post(t, payapi.PathRaiseMark, 0, raise), http.StatusUnprocessableEntity, "invalid_argument")
}

// The highest token is that of whatever holds it, the mark before all.
//
// Clauses: K-7.6, K-7.2
// Mutation: leave a source out of queries/highest.sql, or the count of the floors.
func TestHighestToken(t *testing.T) {
	t.Parallel()
	eachMajor(t, func(t *testing.T, b bundle) {
		highest := func(token paystore.Token, source string) {
			t.Helper()
			h := want[payapi.Highest](t, source, b.get(t, payapi.PathHighest))
			if h.Token != token || h.TokenStr != token.String() || h.Source != source {
				t.Errorf("%+v, want %s in %q", h, token, source)
			}
		}
		id := b.claimed(t, account, 11)
		highest(11, "payout.claim_token")
		b.exec(t, `UPDATE payout SET state = 'PENDING', claimed_by = NULL, claim_token = NULL WHERE payout_id = $1`, id)
		highest(11, "payout_claim.claim_token")
		b.exec(t, `UPDATE account SET fence = 21 WHERE account_id = $1`, account)
		highest(21, "account.fence")
		b.exec(t, `INSERT INTO rail_submission (submission_id, payout_id, idempotency_key, presented_token, outcome, resolved_at)
			SELECT gen_random_uuid(), payout_id, idempotency_key, 31, 'FENCED', now() FROM payout`)
		highest(31, "rail_submission.presented_token")
		to := int64(41)
		want[payapi.Raised](t, "raise", b.post(t, payapi.PathRaiseMark, 0, payapi.RaiseMark{AccountID: another, Token: &to}))
		highest(41, "rail_high_water.highest_token")
		b.exec(t, `UPDATE fence_floor SET floor_token = 51, raised_by = 'erin', reason = 'restored' WHERE point = 'account'`)
		highest(51, "fence_floor.floor_token")
		b.exec(t, `ALTER TABLE fence_floor DISABLE TRIGGER USER`)
		b.exec(t, `DELETE FROM fence_floor WHERE point = 'account'`)
		refused(t, "a missing floor", b.get(t, payapi.PathHighest), http.StatusServiceUnavailable, "unsafe_database")
	})
}

// A closed gate refuses the attempt, and says what to run.
//
// Clauses: K-7.9
// Mutation: answer GateClosedError with 409.
func TestClosedGate(t *testing.T) {
	t.Parallel()
	b := setup(t, 16)
	id := b.payout(t, account, 7)
	b.exec(t, `UPDATE pay_gate SET closed_by = 'erin', closed_at = now(), closed_reason = 'restored from a copy'`)
	err := refused(t, "submit", b.post(t, payapi.PathRailSubmit, 7, ref(id)), http.StatusServiceUnavailable, "pay_gate_closed").err
	if e, ok := errors.AsType[*paystore.GateClosedError](err); !ok || !strings.Contains(e.Hint, "dlockctl") || b.reached(t, id) != "0 0" {
		t.Errorf("submit: %v; the rail counts %s", err, b.reached(t, id))
	}
}

// Every operation refuses who has no credential, a wrong one, or too small a scope, and
// each has the scope of the design.
//
// Clauses: K-12.2
// Mutation: give an operation another scope, or none.
func TestScopes(t *testing.T) {
	t.Parallel()
	service, err := railproxy.New(t.Context(), options(pgtest.Migrated(t, 16).Pay.Config(t, "t_rail")))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(service.Close)
	httpdtest.RefusesStrangers(t, service.Register)
	text, err := os.ReadFile("testdata/scopes.txt")
	if err != nil {
		t.Fatal(err)
	}
	if got := setup(t, 16).scopes(); got != string(text) {
		t.Errorf("testdata/scopes.txt says\n%s\nand the service has\n%s", text, got)
	}
}

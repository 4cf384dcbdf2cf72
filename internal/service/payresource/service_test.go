package payresource_test

import (
	"errors"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/dlockctl/dlockctl/internal/paystore"
	"github.com/dlockctl/dlockctl/internal/pgtest"
	"github.com/dlockctl/dlockctl/internal/service/httpdtest"
	"github.com/dlockctl/dlockctl/internal/service/payapi"
	"github.com/dlockctl/dlockctl/internal/service/paydb"
	"github.com/dlockctl/dlockctl/internal/service/payresource"
	"github.com/dlockctl/dlockctl/internal/telemetry"
)

func options(login *pgx.ConnConfig) payresource.Options {
	return payresource.Options{
		Database: paystore.Options{Config: login}, RailDeadline: 10 * time.Second,
		Log: slog.New(slog.DiscardHandler), Metrics: telemetry.NewMetrics("payment-resource"),
	}
}

// The DSN of the other service, of an operator or of a superuser is refused at start,
// by name; so is one that leads to lockdb.
//
// Clauses: K-4.6, K-12.1
// Mutation: drop the check of the other's rights, or the whole checkRole.
func TestStartRefusesAnothersLogin(t *testing.T) {
	t.Parallel()
	dbs := pgtest.Migrated(t, 16)
	for login, says := range map[string]string{
		"t_rail":     "it may write the rail's marks and attempts",
		"super":      "it may write the rail's marks and attempts",
		"t_operator": "it lacks the rights of that role",
		"t_owner":    "it may write the rail's marks and attempts",
	} {
		_, err := payresource.New(t.Context(), options(dbs.Pay.Config(t, login)))
		role, ok := errors.AsType[*paydb.RoleError](err)
		if !ok || role.Role != paydb.Resource || !strings.Contains(err.Error(), says) || !strings.Contains(err.Error(), "payapp_resource") {
			t.Errorf("%s: %v, want %q", login, err, says)
		}
	}
	_, err := payresource.New(t.Context(), options(dbs.Lock.Config(t, "t_lockapp")))
	if e, ok := errors.AsType[*paystore.SchemaError](err); !ok || !e.IsLockdb {
		t.Errorf("the address of lockdb: %v", err)
	}
}

// A paydb that is down when the service starts is no reason to end: it says so, and no
// more than that it is down.
//
// Clauses: K-6.1
// Mutation: return every error of DB in paydb.Open, or answer Unreachable with 500.
func TestPaydbDownAtStart(t *testing.T) {
	t.Parallel()
	dbs := pgtest.Migrated(t, 16)
	login := dbs.Pay.Config(t, "t_resource")
	login.Port, login.Fallbacks = 1, nil
	b := serve(t, dbs, login, payresource.Options{})
	for path, body := range moves(nobody) {
		a := b.post(t, path, 7, body)
		if refused(t, path, a, http.StatusServiceUnavailable, "unreachable"); a.Header.Get("Retry-After") == "" || strings.Contains(string(a.Body), "127.0.0.1") {
			t.Errorf("%s: %v %s", path, a.Header, a.Body)
		}
	}
	for _, path := range []string{
		payapi.PathPayouts, payapi.PathPayout + "?payout_id=" + nobody, payapi.PathUnsettled, payapi.PathOpen + "?account_id=" + payer,
		payapi.PathAccounts, payapi.PathAccount + "?account_id=" + payer, payapi.PathHighest,
	} {
		refused(t, path, b.get(t, path), http.StatusServiceUnavailable, "unreachable")
	}
	if a := b.get(t, "/readyz"); a.Status != http.StatusServiceUnavailable || !strings.Contains(string(a.Body), "down: paydb does not answer") {
		t.Errorf("readiness: %d %s", a.Status, a.Body)
	}
	if a := b.get(t, "/livez"); a.Status != http.StatusOK {
		t.Errorf("the process lives: %d %s", a.Status, a.Body)
	}
}

// A COMMIT whose answer is lost is 500 outcome_unknown; the same call again tells, and
// what is there is there once.
//
// Clauses: K-2.9, K-4.3
// Mutation: classify UnknownOutcomeError after the others in payapi.Problem, or answer 503.
func TestUnknownOutcome(t *testing.T) {
	t.Parallel()
	dbs := pgtest.Migrated(t, 16)
	cutter := pgtest.NewCutter(t, dbs.Pay.Server)
	// One connection, its statements described by a posting before.
	cut := serve(t, dbs, cutter.Config(dbs.Pay.Config(t, "t_resource")), payresource.Options{Database: paystore.Options{Pooled: true}})
	b := serve(t, dbs, dbs.Pay.Config(t, "t_resource"), payresource.Options{})
	want[payapi.Posting](t, "a posting before", cut.post(t, payapi.PathPost, 3, ref(b.at(t, payer, paystore.RailAcked, 3))), http.StatusOK)
	for i, where := range []pgtest.Cut{pgtest.BeforeCommit, pgtest.AfterCommit} {
		token := paystore.Token(10 + i)
		id := b.at(t, payer, paystore.RailAcked, token)
		cutter.Cut(where)
		err := refused(t, "cut", cut.post(t, payapi.PathPost, token, ref(id)), http.StatusInternalServerError, "outcome_unknown").err
		if e, ok := errors.AsType[*paystore.UnknownOutcomeError](err); !ok || e.Doing != "post payout "+id || cutter.Cuts() != int64(i+1) {
			t.Errorf("cut at %d: %v", where, err)
		}
		again := want[payapi.Posting](t, "again", cut.post(t, payapi.PathPost, token, ref(id)), http.StatusOK)
		if again.AlreadyPosted != (where == pgtest.AfterCommit) {
			t.Errorf("cut at %d, again: %+v", where, again)
		}
		if d := want[payapi.PayoutDetail](t, "show", b.get(t, payapi.PathPayout+"?payout_id="+id), http.StatusOK); len(d.Legs) != 2 {
			t.Errorf("cut at %d: %d legs", where, len(d.Legs))
		}
	}
}

// A closed gate is told in readiness, and a claim hears what to run; what was claimed
// before is posted all the same.
//
// Clauses: K-7.9
// Mutation: answer GateClosedError with 409, or drop the gate from Ready.
func TestClosedGate(t *testing.T) {
	t.Parallel()
	b := setup(t, 16)
	token := b.token()
	acked, pending := b.at(t, payer, paystore.RailAcked, token), b.at(t, other, paystore.Pending, 0)
	if a := b.get(t, "/readyz"); a.Status != http.StatusOK || strings.Contains(string(a.Body), "closed") {
		t.Errorf("readiness before: %d %s", a.Status, a.Body)
	}
	b.exec(t, `UPDATE pay_gate SET closed_by = 'erin', closed_at = now(), closed_reason = 'restored from a copy'`)
	err := refused(t, "claim", b.post(t, payapi.PathClaim, b.token(), payapi.ClaimPayout{PayoutID: pending, Holder: "w"}), http.StatusServiceUnavailable, "pay_gate_closed").err
	if e, ok := errors.AsType[*paystore.GateClosedError](err); !ok || !strings.Contains(e.Hint, "dlockctl") {
		t.Errorf("claim: %v", err)
	}
	want[payapi.Posting](t, "post", b.post(t, payapi.PathPost, token, ref(acked)), http.StatusOK)
	unsettled := want[payapi.UnsettledList](t, "unsettled", b.get(t, payapi.PathUnsettled), http.StatusOK)
	if len(unsettled.Payouts) != 1 || unsettled.Payouts[0].PayoutID != pending || !unsettled.Payouts[0].HeldBack {
		t.Errorf("unsettled: %+v", unsettled)
	}
	pgtest.Eventually(t, "readiness says so", askReady(b, "closed by erin: restored from a copy"))
}

// A row that another transaction keeps is 409 blocked, with its processes.
//
// Clauses: K-2.11
// Mutation: leave the pids out of the details.
func TestBlocked(t *testing.T) {
	t.Parallel()
	dbs := pgtest.Migrated(t, 16)
	b := serve(t, dbs, dbs.Pay.Config(t, "t_resource"), payresource.Options{Database: paystore.Options{LockTimeout: 50 * time.Millisecond}})
	token := b.token()
	id := b.at(t, payer, paystore.RailAcked, token)
	conn := dbs.Pay.Conn(t, "super")
	if _, err := conn.Exec(t.Context(), `BEGIN`); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Exec(t.Context(), `SELECT FROM payout WHERE payout_id = $1 FOR UPDATE`, id); err != nil {
		t.Fatal(err)
	}
	err := refused(t, "post", b.post(t, payapi.PathPost, token, ref(id)), http.StatusConflict, "blocked").err
	if e, ok := errors.AsType[*paystore.BlockedError](err); !ok || len(e.PIDs) != 1 || e.PIDs[0] != int32(conn.PgConn().PID()) {
		t.Errorf("post: %v, want process %d", err, conn.PgConn().PID())
	}
}

// A paydb that keeps an operation waiting past its time is 503, and a read that waits for a
// lock longer than one may is blocked: no request hangs.
//
// Clauses: K-2.11
// Mutation: drop the timeout from add, or the 55P03 of payapi.Problem.
func TestNoRequestHangs(t *testing.T) {
	t.Parallel()
	dbs := pgtest.Migrated(t, 16)
	login := dbs.Pay.Config(t, "t_resource")
	hasty := serve(t, dbs, login, payresource.Options{Timeout: 300 * time.Millisecond, Database: paystore.Options{LockTimeout: time.Hour}})
	patient := serve(t, dbs, login, payresource.Options{Timeout: time.Hour, Database: paystore.Options{LockTimeout: 50 * time.Millisecond}})
	conn := dbs.Pay.Conn(t, "super")
	for _, sql := range []string{`BEGIN`, `LOCK TABLE payout IN ACCESS EXCLUSIVE MODE`} {
		if _, err := conn.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	refused(t, "out of time", hasty.get(t, payapi.PathPayouts), http.StatusServiceUnavailable, "unreachable")
	refused(t, "behind a lock", patient.get(t, payapi.PathPayouts), http.StatusConflict, "blocked")
}

// Every operation refuses who has no credential, a wrong one, or too small a scope.
//
// Clauses: K-12.2
// Mutation: give an operation another scope's name, or none.
func TestScopes(t *testing.T) {
	t.Parallel()
	service, err := payresource.New(t.Context(), options(pgtest.Migrated(t, 16).Pay.Config(t, "t_resource")))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(service.Close)
	httpdtest.RefusesStrangers(t, service.Register)
}

// The operations and their scopes, one by one: what the table of the design says.
//
// Clauses: K-12.2
// Mutation: let audit create, or pay raise a fence.
func TestScopeOfEachOperation(t *testing.T) {
	t.Parallel()
	b := setup(t, 16)
	got := b.scopes()
	text, err := os.ReadFile("testdata/scopes.txt")
	if err != nil {
		t.Fatal(err)
	}
	if got != string(text) {
		t.Errorf("testdata/scopes.txt says\n%s\nand the service has\n%s", text, got)
	}
}

package runbook_test

import (
	"encoding/json"
	"errors"
	"math"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/dlockctl/dlockctl/internal/paystore"
	"github.com/dlockctl/dlockctl/internal/paystore/posting"
)

// account is the one that the pages about one account are about.
const account = "00000000-0000-4000-8000-000000000003"

// operated does what has happened when a runbook of the operator's day is opened,
// and returns what must be so at its end.
func operated() map[string]func(*testing.T, *stage) (after func()) {
	return map[string]func(*testing.T, *stage) func(){
		"stuck-lock.md":          blockAndLeave,
		"revoke-and-fence.md":    strayWorker,
		"holder-will-not-die.md": comeBackAgain,
		"contended-hot-key.md":   crowd,
		"rail-silent.md":         silence,
		"rotate-credentials.md":  serveUnderOldPassword,
		"upgrade-schema.md":      workOnOldSchema,
		"game-day.md":            func(*testing.T, *stage) func() { return func() {} },
	}
}

// Every runbook of the operator's day leads out of what was planted, by its own words,
// and ends with doctor, reconcile or a verify that finds nothing.
//
// Clauses: K-2.11, K-3.2, K-3.5, K-5.3
// Mutation: leave the terminate, the revoke, --fence-account, NOLOGIN, resolve or up out of a page.
func TestRunbooksOfTheDay(t *testing.T) {
	t.Parallel()
	for name, happens := range operated() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := stageOf(t, name)
			after := happens(t, s)
			s.run(t, filepath.Join(folder, name))
			after()
		})
	}
}

// stageOf is a healthy world, on the schema that the page begins with.
func stageOf(t *testing.T, name string) *stage {
	t.Helper()
	if name == "upgrade-schema.md" {
		return newStageOn(t, lackingTheLast(t))
	}
	return newStage(t)
}

// blockAndLeave has a holder that is gone, with most of its lease, and somebody's
// forgotten transaction on its row.
func blockAndLeave(t *testing.T, s *stage) (after func()) {
	t.Helper()
	s.env = append(s.env, "KEY=batch:nightly", "WATCH=1")
	s.shows(t, "dlockctl acquire batch:nightly --owner batch-7 --ttl 20h")
	forgotten := s.dbs.Lock.Conn(t, "t_lockapp")
	tx, err := forgotten.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), `SELECT FROM lock_entry WHERE lock_key = 'batch:nightly' FOR UPDATE`); err != nil {
		t.Fatal(err)
	}
	return func() {
		t.Helper()
		if err := forgotten.Ping(t.Context()); err == nil {
			t.Error("the forgotten transaction is still there")
		}
	}
}

// strayWorker holds an account's lock and has claimed a payout of it. Afterwards it
// goes on, and is refused at the account and at the rail.
func strayWorker(t *testing.T, s *stage) (after func()) {
	t.Helper()
	s.env = append(s.env, "ACCOUNT="+account)
	var grant struct{ Token paystore.Token }
	s.answers(t, "dlockctl acquire account:"+account+" --owner worker-7 --ttl 1h -o json", &grant)
	var payout struct {
		ID string `json:"payout_id"`
	}
	s.answers(t, "dlockctl payout create --account "+account+" --amount-minor 70 --currency EUR --idempotency-key stray -o json", &payout)
	db, err := paystore.Open(t.Context(), paystore.Options{Config: s.dbs.Pay.Config(t, "t_resource"), Purpose: paystore.Changing})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	worker := posting.New(db, posting.Options{})
	if _, err := worker.Claim(t.Context(), payout.ID, "worker-7", grant.Token); err != nil {
		t.Fatal(err)
	}
	if err := worker.CheckFunds(t.Context(), payout.ID, grant.Token); err != nil {
		t.Fatalf("the worker could not write before: %v", err)
	}
	return func() {
		t.Helper()
		err := worker.CheckFunds(t.Context(), payout.ID, grant.Token)
		if _, fenced := errors.AsType[*paystore.FencedError](err); !fenced {
			t.Errorf("the worker goes on at the account: %v", err)
		}
		var mark paystore.Token
		err = s.dbs.Pay.Conn(t, "super").QueryRow(t.Context(), `SELECT highest_token FROM rail_high_water WHERE account_id = $1`, account).Scan(&mark)
		if err != nil || mark <= grant.Token {
			t.Errorf("the rail's mark stands at %d, the worker has %d: %v", mark, grant.Token, err)
		}
	}
}

// silence is a rail that says nothing until the page has asked it once, and knows then
// what was paid. The executors have been stopped.
func silence(t *testing.T, s *stage) (after func()) {
	t.Helper()
	super := s.dbs.Pay.Conn(t, "super")
	s.shows(t, `dlockctl revoke --prefix account: --expect-count "$(dlockctl lock list --prefix account: -o name | wc -l)" --reason 'executors are stopped' --yes`)
	var unknown []string
	err := super.QueryRow(t.Context(), `SELECT array_agg(idempotency_key) FROM payout WHERE state IN ('RAIL_SUBMITTED', 'RAIL_AMBIGUOUS')`).Scan(&unknown)
	if err != nil || len(unknown) == 0 {
		t.Fatalf("payouts that the rail knows: %v, %v", unknown, err)
	}
	paying, err := url.Parse(payingRail(t, unknown))
	if err != nil {
		t.Fatal(err)
	}
	speaking := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: paying.Scheme, Host: paying.Host})
	var asked, silentUntil atomic.Int64
	silentUntil.Store(math.MaxInt64)
	rail := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if asked.Add(1) <= silentUntil.Load() {
			http.Error(w, "no answer", http.StatusGatewayTimeout)
			return
		}
		speaking.ServeHTTP(w, r)
	}))
	t.Cleanup(rail.Close)
	s.env = append(s.env, "DLOCKCTL_RAIL_URL="+rail.URL+"/v1")
	// What one run asks before it gives up is what the page's first one will ask.
	if out, err := s.shell(t, "dlockctl payout resolve --all --from-rail --reason 'ask once' --yes"); err == nil || asked.Load() == 0 {
		t.Fatalf("a silent rail was asked %d times and settled everything:\n%s", asked.Load(), out)
	}
	silentUntil.Store(2 * asked.Load())
	return func() {
		t.Helper()
		var posted int
		err := super.QueryRow(t.Context(), `SELECT count(*) FROM payout WHERE state = 'POSTED' AND idempotency_key = ANY($1)`, unknown).Scan(&posted)
		if err != nil || posted != len(unknown) {
			t.Errorf("%d of the %d payouts that the rail has paid are posted: %v", posted, len(unknown), err)
		}
	}
}

// answers runs a command, and takes its JSON down.
func (s *stage) answers(t *testing.T, command string, into any) {
	t.Helper()
	out, err := s.shell(t, command+" 2>/dev/null")
	if err == nil {
		err = json.Unmarshal([]byte(out), into)
	}
	if err != nil {
		t.Fatalf("%s: %v\n%s", command, err, out)
	}
}

package railsim_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/dlockctl/dlockctl/internal/leaktest"
	"github.com/dlockctl/dlockctl/internal/paystore"
	"github.com/dlockctl/dlockctl/internal/paystore/rail"
	"github.com/dlockctl/dlockctl/internal/paystore/rail/httprail"
	"github.com/dlockctl/dlockctl/internal/pgtest"
	"github.com/dlockctl/dlockctl/internal/service/httpd"
	"github.com/dlockctl/dlockctl/internal/service/httpdtest"
	"github.com/dlockctl/dlockctl/internal/service/railsim"
)

func TestMain(m *testing.M) {
	m.Run()
	// The client's idle connections are the test's, not the service's.
	leaktest.Exit(goleak.IgnoreAnyFunction("net/http.(*persistConn).readLoop"), goleak.IgnoreAnyFunction("net/http.(*persistConn).writeLoop"))
}

// bundle is a running simulator, and the client that rail-proxy has.
type bundle struct {
	*httpdtest.Service

	sim    *railsim.Simulator
	client *httprail.Client
}

func setup(t *testing.T, opts railsim.Options) bundle {
	t.Helper()
	sim, err := railsim.Open(opts)
	if err != nil {
		t.Fatal(err)
	}
	s := httpdtest.Start(t, httpd.Options{Name: "rail-sim", Ready: sim.Ready}, sim.Register)
	t.Cleanup(func() {
		s.Stop()
		<-s.Stopped
		if err := sim.Close(); err != nil {
			t.Error(err)
		}
	})
	client, err := httprail.New(s.URL, httprail.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return bundle{s, sim, client}
}

func (b bundle) put(t *testing.T, mood string) {
	t.Helper()
	if a := b.Do(t, http.MethodPut, railsim.PathSimMood, "", mood); a.Status != http.StatusOK {
		t.Fatalf("put it into the mood %s: %d %s", mood, a.Status, a.Body)
	}
}

func payment(key string) rail.Request {
	return rail.Request{Key: key, PayoutID: "p-" + key, AccountID: "a", AmountMinor: 9007199254740993, Currency: "EUR", SendBy: time.Now().Add(time.Minute)}
}

// seen is what the simulator counted of a key, as "requests paid outcome".
func (b bundle) seen(t *testing.T, key string) string {
	t.Helper()
	list := b.list(t, "?idempotency_key="+key)
	if len(list.Payments) != 1 {
		return fmt.Sprintf("%d payments", len(list.Payments))
	}
	p := list.Payments[0]
	return fmt.Sprintf("%d %d %s", p.Requests, p.Paid, p.Outcome)
}

func (b bundle) list(t *testing.T, query string) railsim.PaymentList {
	t.Helper()
	a := b.Do(t, http.MethodGet, railsim.PathSimPayments+query, "", "")
	var list railsim.PaymentList
	if err := json.Unmarshal(a.Body, &list); err != nil || a.Status != http.StatusOK {
		t.Fatalf("list: %d %s, %v", a.Status, a.Body, err)
	}
	return list
}

// Each mood as the client of rail-proxy hears it, and what the rail did meanwhile.
//
// Clauses: K-5.3
// Mutation: pay in Silent, or answer in LoseAnswer.
func TestMoods(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    railsim.Name
		delayMS int64
		outcome paystore.Outcome // "" for an answer that does not count
		seen    string
		known   paystore.Outcome
		hangs   bool
	}{
		{railsim.Ack, 0, paystore.OutcomeAcked, "1 1 ACKED", paystore.OutcomeAcked, false},
		{railsim.Reject, 0, paystore.OutcomeRejected, "1 0 REJECTED", paystore.OutcomeRejected, false},
		{railsim.Delay, 50, paystore.OutcomeAcked, "1 1 ACKED", paystore.OutcomeAcked, false},
		{railsim.Delay, 3_600_000, "", "1 1 ACKED", paystore.OutcomeAcked, true},
		{railsim.Silent, 0, "", "1 0 ", rail.NotFound, true},
		{railsim.AnswerTwice, 0, "", "1 1 ACKED", paystore.OutcomeAcked, false},
		{railsim.LoseAnswer, 0, "", "1 1 ACKED", paystore.OutcomeAcked, false},
		{railsim.Broken, 0, paystore.OutcomeAcked, "1 1 ACKED", paystore.OutcomeAcked, false},
	} {
		t.Run(fmt.Sprint(tt.name, tt.delayMS), func(t *testing.T) {
			t.Parallel()
			b := setup(t, railsim.Options{Mood: &railsim.Mood{Name: tt.name, DelayMS: tt.delayMS}})
			ctx, hangUp := context.WithCancel(t.Context())
			defer hangUp()
			heard := make(chan answer, 1)
			go func() {
				said, err := b.client.Submit(ctx, payment("k"))
				heard <- answer{said, err}
			}()
			eventually(t, func() bool { return b.seen(t, "k") == tt.seen })
			if tt.hangs {
				hangUp()
			}
			got := <-heard
			if _, failed := errors.AsType[*httprail.Error](got.err); failed != (tt.outcome == "") || got.said.Outcome != tt.outcome {
				t.Errorf("%+v, want %q", got, tt.outcome)
			}
			b.put(t, `{"name": "ack"}`)
			known, err := b.client.Status(t.Context(), "k")
			if err != nil || known.Outcome != tt.known || tt.known == paystore.OutcomeAcked && (known.AmountMinor != 9007199254740993 || known.Reference == "") {
				t.Errorf("asked afterwards: %+v, %v, want %s", known, err, tt.known)
			}
		})
	}
}

// A request that lay unread until after its time, while whoever asked was told
// NOT_FOUND, is not paid: neither then nor when it is sent again.
//
// Clauses: K-4.11, K-5.3
// Mutation: drop the comparison with notAfter in request.
func TestReadTooLate(t *testing.T) {
	t.Parallel()
	b := setup(t, railsim.Options{Mood: &railsim.Mood{Name: railsim.Ack}})
	send := func(notAfter time.Time) string {
		t.Helper()
		a := b.Do(t, http.MethodPost, railsim.PathPayments, "", fmt.Sprintf(
			`{"idempotency_key": "k", "payout_id": "p", "account_id": "a", "amount_minor": 1, "amount_minor_str": "1", "currency": "EUR", "not_after": %q}`,
			notAfter.UTC().Format(time.RFC3339Nano)))
		var said struct{ Outcome string }
		if err := json.Unmarshal(a.Body, &said); err != nil || a.Status != http.StatusOK {
			t.Fatalf("%d %s: %v", a.Status, a.Body, err)
		}
		return said.Outcome
	}
	if got := send(time.Now().Add(-time.Millisecond)); got != string(paystore.OutcomeRejected) || b.seen(t, "k") != "1 0 REJECTED" {
		t.Errorf("read too late: %s, %s", got, b.seen(t, "k"))
	}
	if got := send(time.Now().Add(time.Minute)); got != string(paystore.OutcomeRejected) || b.seen(t, "k") != "2 0 REJECTED" {
		t.Errorf("sent again in time: %s, %s", got, b.seen(t, "k"))
	}
}

// answer is what the client heard.
type answer struct {
	said rail.Answer
	err  error
}

// A rail that has gone silent answers no question either.
func TestSilentToQuestions(t *testing.T) {
	t.Parallel()
	b := setup(t, railsim.Options{Mood: &railsim.Mood{Name: railsim.Silent}})
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	if said, err := b.client.Status(ctx, "k"); err == nil {
		t.Errorf("%+v", said)
	}
}

// One key is paid once, by whatever mood it is asked for again; only broken pays it
// twice, which shows in the totals.
//
// Mutation: drop the case of a known key in request.
func TestOneKeyIsPaidOnce(t *testing.T) {
	t.Parallel()
	b := setup(t, railsim.Options{})
	first, err := b.client.Submit(t.Context(), payment("k"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"ack", "reject", "delay"} {
		b.put(t, fmt.Sprintf(`{"name": %q, "delay_ms": 1}`, name))
		again, err := b.client.Submit(t.Context(), payment("k"))
		if diff := cmp.Diff(first, again); err != nil || diff != "" {
			t.Errorf("%s answers otherwise: %v\n%s", name, err, diff)
		}
	}
	if got := b.seen(t, "k"); got != "4 1 ACKED" {
		t.Errorf("the rail counts %q", got)
	}
	if totals := b.list(t, "").Totals; totals != (railsim.Totals{Keys: 1, Requests: 4, Paid: 1}) {
		t.Errorf("%+v", totals)
	}
	b.put(t, `{"name": "broken"}`)
	twice, err := b.client.Submit(t.Context(), payment("k"))
	if err != nil || twice.Reference == first.Reference {
		t.Errorf("broken: %+v, %v", twice, err)
	}
	if totals := b.list(t, "").Totals; totals != (railsim.Totals{Keys: 1, Requests: 5, Paid: 2, PaidTwice: 1}) {
		t.Errorf("%+v", totals)
	}
}

// The same seed and keys meet the same moods again, whatever the order; another seed
// meets others, and the shares are about what was asked for.
//
// Mutation: draw from a generator that requests share.
func TestFlakyIsDrawnFromItsSeed(t *testing.T) {
	t.Parallel()
	outcomes := func(seed int64, backwards bool) (drawn [40]railsim.Name) {
		for i := range drawn {
			if backwards {
				i = len(drawn) - 1 - i
			}
			drawn[i] = railsim.Mood{Name: railsim.Flaky, Seed: seed}.Drawn(fmt.Sprint("key-", i), 1)
		}
		return drawn
	}
	once := outcomes(7, false)
	if diff := cmp.Diff(once, outcomes(7, true)); diff != "" {
		t.Errorf("the order of the requests counts:\n%s", diff)
	}
	if once == outcomes(8, false) {
		t.Error("the seed does not count")
	}
	count := map[railsim.Name]int{}
	m := railsim.Mood{Name: railsim.Flaky, Seed: 1, RejectP: 0.25, LoseAnswerP: 0.25}
	for i := range 4000 {
		count[m.Drawn(fmt.Sprint(i), 1)]++
	}
	if len(count) != 3 || count[railsim.Reject] < 900 || count[railsim.Reject] > 1100 || count[railsim.LoseAnswer] < 900 || count[railsim.LoseAnswer] > 1100 {
		t.Errorf("of 4000: %v", count)
	}
}

// A simulator that is started again on its state file knows every payment, every
// count and the mood, also after a crash in the middle of a line.
//
// Mutation: answer before the journal has the line, or leave the mood out of it.
func TestRestartForgetsNothing(t *testing.T) {
	t.Parallel()
	state := filepath.Join(t.TempDir(), "rail.jsonl")
	b := setup(t, railsim.Options{StateFile: state})
	for _, key := range []string{"k1", "k2", "k1"} {
		if _, err := b.client.Submit(t.Context(), payment(key)); err != nil {
			t.Fatal(err)
		}
	}
	b.put(t, `{"name": "reject"}`)
	if _, err := b.client.Submit(t.Context(), payment("k3")); err != nil {
		t.Fatal(err)
	}
	before := b.list(t, "")
	f, err := os.OpenFile(state, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString(`{"request":{"idempotency_key":"torn`); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}

	again := setup(t, railsim.Options{StateFile: state})
	if diff := cmp.Diff(before, again.list(t, "")); diff != "" {
		t.Errorf("(-before +after):\n%s", diff)
	}
	said, err := again.client.Submit(t.Context(), payment("k4"))
	if err != nil || said.Outcome != paystore.OutcomeRejected {
		t.Errorf("the mood was forgotten: %+v, %v", said, err)
	}
	// The line after the torn one is whole.
	third := setup(t, railsim.Options{StateFile: state, Mood: &railsim.Mood{Name: railsim.Ack}})
	if got := third.seen(t, "k4"); got != "1 0 REJECTED" {
		t.Errorf("after the torn line: %q", got)
	}
	if known, err := third.client.Submit(t.Context(), payment("k5")); err != nil || known.Outcome != paystore.OutcomeAcked || known.Reference != "SIM-000003" {
		t.Errorf("a reference is given twice: %+v, %v", known, err)
	}
}

// A state file that is something else is refused, and left as it is.
func TestStateFileOfSomethingElse(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "notes")
	if err := os.WriteFile(path, []byte("hello\nworld\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := railsim.Open(railsim.Options{StateFile: path})
	if err == nil || !strings.Contains(err.Error(), "line 1") || !strings.Contains(err.Error(), path) {
		t.Errorf("%v", err)
	}
	if text, _ := os.ReadFile(path); string(text) != "hello\nworld\n" {
		t.Errorf("it was changed to %q", text)
	}
}

// What is not the protocol is refused, and counts as nothing.
//
// Mutation: drop the check of the twin, or a bound of paymentBody.
func TestNotTheProtocol(t *testing.T) {
	t.Parallel()
	b := setup(t, railsim.Options{})
	whole := `{"idempotency_key": "k", "payout_id": "p", "account_id": "a", "amount_minor": 1, "amount_minor_str": "1", "currency": "EUR"}`
	for name, body := range map[string]string{
		"no key":         strings.Replace(whole, `"k"`, `""`, 1),
		"another twin":   strings.Replace(whole, `"1"`, `"2"`, 1),
		"no amount":      strings.Replace(whole, `"amount_minor": 1, `, "", 1),
		"nothing at all": strings.NewReplacer(`: 1,`, `: 0,`, `"1"`, `"0"`).Replace(whole),
		"something else": strings.Replace(whole, `"currency"`, `"sum": 3, "currency"`, 1),
	} {
		if a := b.Do(t, http.MethodPost, railsim.PathPayments, "", body); a.Status != http.StatusUnprocessableEntity || a.Problem().Code == "" {
			t.Errorf("%s: %d %s", name, a.Status, a.Body)
		}
	}
	if totals := b.list(t, "").Totals; totals != (railsim.Totals{}) {
		t.Errorf("%+v", totals)
	}
	if a := b.Do(t, http.MethodPost, railsim.PathPayments, "", whole); a.Status != http.StatusOK {
		t.Errorf("the protocol: %d %s", a.Status, a.Body)
	}
}

// A mood that is none is refused, at start and over HTTP, and the one before stays.
//
// Mutation: drop a refusal of valid.
func TestMoodsThatAreNone(t *testing.T) {
	t.Parallel()
	for _, m := range []railsim.Mood{
		{},
		{Name: "happy"},
		{Name: railsim.Delay, DelayMS: -1},
		{Name: railsim.Delay, DelayMS: 7_200_000},
		{Name: railsim.Flaky, RejectP: 2},
		{Name: railsim.Flaky, SilentP: -0.1},
		{Name: railsim.Flaky, RejectP: math.NaN()},
		{Name: railsim.Flaky, RejectP: 0.6, SilentP: 0.6},
	} {
		if _, err := railsim.Open(railsim.Options{Mood: &m}); !errors.Is(err, paystore.ErrInvalid) {
			t.Errorf("%+v: %v", m, err)
		}
	}
	b := setup(t, railsim.Options{})
	if a := b.Do(t, http.MethodPut, railsim.PathSimMood, "", `{"name": "flaky", "reject_p": 0.6, "silent_p": 0.6}`); a.Status != http.StatusUnprocessableEntity {
		t.Errorf("%d %s", a.Status, a.Body)
	}
	if a := b.Do(t, http.MethodGet, railsim.PathSimMood, "", ""); !strings.Contains(string(a.Body), `"ack"`) {
		t.Errorf("the mood is %s", a.Body)
	}
	// flaky as it comes is flaky.
	if a := b.Do(t, http.MethodPut, railsim.PathSimMood, "", `{"name": "flaky"}`); a.Status != http.StatusOK || !strings.Contains(string(a.Body), `"reject_p":0.1`) {
		t.Errorf("%d %s", a.Status, a.Body)
	}
}

// Clauses: K-12.2
// Mutation: leave a scope out of Register.
func TestScopes(t *testing.T) {
	t.Parallel()
	sim, err := railsim.Open(railsim.Options{})
	if err != nil {
		t.Fatal(err)
	}
	httpdtest.RefusesStrangers(t, sim.Register)
}

// A silent rail does not keep the process: who waits is cut off when it drains.
//
// Mutation: drop Draining from wait.
func TestDrain(t *testing.T) {
	t.Parallel()
	b := setup(t, railsim.Options{Mood: &railsim.Mood{Name: railsim.Silent}})
	cut := make(chan error, 1)
	go func() {
		_, err := b.client.Submit(t.Context(), payment("k"))
		cut <- err
	}()
	eventually(t, func() bool { return b.seen(t, "k") == "1 0 " })
	b.Stop()
	<-b.Stopped
	if err := <-cut; err == nil {
		t.Error("a silent rail answered")
	}
	if strings.Contains(b.Log.String(), "cut off") {
		t.Errorf("it waited until it was cut off:\n%s", b.Log)
	}
}

func eventually(t *testing.T, ask func() bool) {
	t.Helper()
	pgtest.Eventually(t, "the rail has the request", func(context.Context) (bool, error) { return ask(), nil })
}

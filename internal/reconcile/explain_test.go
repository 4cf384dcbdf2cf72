package reconcile_test

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dlockctl/dlockctl/internal/pgtest"
	"github.com/dlockctl/dlockctl/internal/reconcile"
)

// A finding is found again by its id, and told over both databases in order of time:
// the lease, what was done under it, how it ended, and which of that is the break.
//
// Clauses: K-8.2
// Mutation: leave the sort of inOrder out, take lock_grant out of explain_lock, or the
// legs out of explain_pay, or mark nothing.
func TestExplainTellsTheStory(t *testing.T) {
	t.Parallel()
	for _, major := range pgtest.Majors() {
		w := healthy(t, major)
		fault, err := w.Plant(t.Context(), "B12")
		if err != nil {
			t.Fatal(err)
		}
		found := findingOf(t, w.run(t).Findings, "B12", payerOf(t, w, fault.Token))
		e, err := reconcile.Explain(t.Context(), w.options(t), found.ID)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(found, e.Finding); diff != "" || e.Pending || e.Rule == "" || e.Lock == nil {
			t.Errorf("the finding on PostgreSQL %d (-run +explain):\n%s%+v", major, diff, e)
		}
		var kinds []string
		marked := 0
		for i, m := range e.Timeline.Events {
			if i > 0 && m.At.Before(e.Timeline.Events[i-1].At) {
				t.Errorf("%s comes before %s", e.Timeline.Events[i-1].At, m.At)
			}
			if m.Token == fault.Token {
				kinds = append(kinds, m.Source+" "+string(m.Kind))
				if m.Holder != found.Attribution.Holder {
					t.Errorf("the holder of %d is %q, not %q", m.Token, found.Attribution.Holder, m.Holder)
				}
			}
			if m.Finding != "" {
				marked++
				if m.Finding != found.ID || m.Kind != reconcile.MomentPosted {
					t.Errorf("%+v is marked", m)
				}
			}
		}
		want := []string{
			"lock_grant granted", "payout_claim claimed", "rail_submission submitted", "rail_submission answered",
			"lock_revocation revoked", "ledger_entry leg", "ledger_entry leg",
		}
		// The grant was released before it was revoked, as the fault is planted.
		kinds = slices.DeleteFunc(kinds, func(k string) bool { return k == "lock_grant released" })
		if diff := cmp.Diff(want, kinds); diff != "" || marked != 2 {
			t.Errorf("what token %d did on PostgreSQL %d, %d moments marked (-want +got):\n%s", fault.Token, major, marked, diff)
		}
	}
}

// payerOf is the account whose payout the token claims.
func payerOf(t *testing.T, w world, token int64) (account string) {
	t.Helper()
	if err := w.pay.QueryRow(t.Context(), "SELECT account_id::text FROM payout WHERE claim_token = $1", token).Scan(&account); err != nil {
		t.Fatal(err)
	}
	return account
}

// What is not there any more is a typed error, and so is what is no id; a rule that
// could not be checked does not say that nothing is there.
//
// Clauses: K-8.2
// Mutation: leave Unchecked empty.
func TestExplainWhatIsNotThere(t *testing.T) {
	t.Parallel()
	w := healthy(t, pgtest.Majors()[0])
	_, err := reconcile.Explain(t.Context(), w.options(t), "A01-0123456789abcdef")
	var gone *reconcile.NoFindingError
	if !errors.As(err, &gone) || gone.ID != "A01-0123456789abcdef" || gone.Unchecked != nil {
		t.Errorf("a finding that is gone: %v", err)
	}
	o := w.options(t)
	o.Lock = nil
	if _, err = reconcile.Explain(t.Context(), o, "B05-0123456789abcdef"); !errors.As(err, &gone) || len(gone.Unchecked) == 0 {
		t.Errorf("a rule that was not checked: %v", err)
	}
	for _, id := range []string{"", "A01", "Z99-0123456789abcdef", "A01-0123456789", "A01-0123456789abcde", "A01-0123456789abcdex"} {
		var scope *reconcile.ScopeError
		if _, err = reconcile.Explain(t.Context(), w.options(t), id); !errors.As(err, &scope) || scope.Field != "finding" || scope.Value != id {
			t.Errorf("%q: %v", id, err)
		}
	}
}

// What was found beside the rail's statement or an earlier run is explained beside it,
// and without it the rule is said to be unchecked.
//
// Clauses: K-8.2
// Mutation: leave Statement or Previous out of families, or a class out of ExplainedWith.
func TestExplainBesideWhatTheRunComparedWith(t *testing.T) {
	t.Parallel()
	w := healthy(t, pgtest.Majors()[0])
	var text bytes.Buffer
	if _, err := w.Statement(t.Context(), &text, "S03"); err != nil {
		t.Fatal(err)
	}
	text.WriteString("R-nobody,nobody-knows,5,EUR,PAID,2026-11-29T17:30:00Z\n")
	statement, err := reconcile.ReadStatement(&text)
	if err != nil {
		t.Fatal(err)
	}
	earlier := since(t, w.seal(t))
	exec(t, w.pay, loose+"UPDATE opening_balance SET amount_minor = amount_minor + 1; UPDATE account SET balance_minor = balance_minor + 1")
	beside := func(o *reconcile.Options) {
		o.Statement = statement
		earlier(o)
	}
	report := w.run(t, beside)
	for _, class := range []string{"S01", "S03", "A03"} {
		i := slices.IndexFunc(report.Findings, func(f reconcile.Finding) bool { return f.Class == class })
		if i < 0 {
			t.Fatalf("no %s among %v", class, classes(report.Findings))
		}
		found := report.Findings[i]
		o := w.options(t)
		var gone *reconcile.NoFindingError
		if _, err := reconcile.Explain(t.Context(), o, found.ID); !errors.As(err, &gone) || len(gone.Unchecked) == 0 || len(reconcile.ExplainedWith(class)) != 2 {
			t.Errorf("%s without what it was found beside: %v, %v", class, err, reconcile.ExplainedWith(class))
		}
		beside(&o)
		e, err := reconcile.Explain(t.Context(), o, found.ID)
		if diff := cmp.Diff(found, e.Finding); err != nil || diff != "" {
			t.Errorf("%s: %v (-run +explain):\n%s", class, err, diff)
		}
		if told := len(e.Timeline.Events) > 0; class != "A03" && told != (class == "S03") { // a clearing account has none
			t.Errorf("%s: %d events", class, len(e.Timeline.Events))
		}
	}
	if with := reconcile.ExplainedWith("B12"); with != nil {
		t.Errorf("B12 is explained with %v", with)
	}
}

// What is in flight can be explained too; and without lockdb what paydb knows is told,
// with what is missing.
//
// Clauses: K-8.2, K-8.3
// Mutation: leave the pending ones out of pick, or the gaps out of tell.
func TestExplainWhatIsPendingAndWithoutLockdb(t *testing.T) {
	t.Parallel()
	w := healthy(t, pgtest.Majors()[0])
	if err := w.NearMiss(t.Context(), "C04"); err != nil {
		t.Fatal(err)
	}
	pending := w.run(t, rules("C04")).Pending
	if len(pending) == 0 {
		t.Fatal("nothing is pending")
	}
	o := w.options(t)
	o.Lock = nil
	e, err := reconcile.Explain(t.Context(), o, pending[0].ID)
	if err != nil {
		t.Fatal(err)
	}
	if !e.Pending || len(e.Timeline.Events) == 0 || e.Lock != nil || !strings.Contains(strings.Join(e.Unknown, "\n"), "lockdb was not read") {
		t.Errorf("%+v", e)
	}
	for _, m := range e.Timeline.Events {
		if strings.HasPrefix(m.Source, "lock_") {
			t.Errorf("%+v is from lockdb", m)
		}
	}
}

// A report has the timelines of the accounts worst hit, each with its break marked,
// and the long ones cut around it.
//
// Clauses: K-8.2
// Mutation: take the cut or what was fenced out of timeline, or MostTimelines out of
// worstHit.
func TestTimelinesOfTheWorst(t *testing.T) {
	t.Parallel()
	w := healthy(t, pgtest.Majors()[0])
	exec(t, w.pay, loose)
	scene := w.scenes(t, 1)[0]
	// A long life, the break in the middle of it.
	exec(t, w.pay, scene.Replace(`INSERT INTO payout_claim SELECT '$Q', 100000 + n, 'long', now() - interval '40 days' + n * interval '1 s' FROM generate_series(1, 60) n;
		INSERT INTO payout_claim SELECT '$P', 200000 + n, 'long', now() + n * interval '1 s' FROM generate_series(1, 60) n;
		UPDATE ledger_entry SET amount_minor = amount_minor + 7 WHERE payout_id = '$P' AND direction = 'DEBIT';
		INSERT INTO rail_submission (submission_id, payout_id, idempotency_key, presented_token, outcome, submitted_at, resolved_at)
		SELECT gen_random_uuid(), payout_id, 'k', $U, 'FENCED', updated_at, updated_at FROM payout WHERE payout_id = '$P';
		UPDATE account SET balance_minor = balance_minor + 1 WHERE account_id NOT IN (SELECT account_id FROM clearing_account) AND account_id <> '$A'`))
	exec(t, w.lock, loose+scene.Replace(`INSERT INTO lock_grant SELECT k + n, 'account:$A', 'long', gen_random_uuid(), now() + (k - 100000) / 2 * interval '1 s', now() + k * interval '1 s', 'released'
		FROM generate_series(1, 60) n, (VALUES (100000), (200000)) v (k)`))
	report := w.run(t, rules("A01", "A06"))
	if n := len(report.Timelines); n == 0 || n > reconcile.MostTimelines {
		t.Fatalf("%d timelines", n)
	}
	worst := report.Timelines[0]
	if worst.AccountID != scene.Replace("$A") || len(worst.Events) > 40 || worst.LeftOut < 40 || len(worst.Findings) != 2 {
		t.Errorf("the worst: account %s, %d events, %d left out, %v", worst.AccountID, len(worst.Events), worst.LeftOut, worst.Findings)
	}
	i := slices.IndexFunc(worst.Events, func(m reconcile.Moment) bool { return m.Finding == worst.Findings[0] })
	if i < 5 || worst.Events[i].Kind != reconcile.MomentPosted || worst.Events[i].PayoutID != scene.Replace("$P") {
		t.Errorf("the break is moment %d of %+v", i, worst.Events)
	}
	refused := func(m reconcile.Moment) bool {
		return m.Kind == reconcile.MomentRefused && m.PayoutID == scene.Replace("$P")
	}
	if !slices.ContainsFunc(worst.Events, refused) {
		t.Errorf("what was refused at the rail is not told: %+v", worst.Events)
	}
}

// All that paydb knows of a token is told, and of one that it does not know, nothing.
//
// Clauses: K-8.2
// Mutation: take a table out of explain_token.
func TestStoryOfToken(t *testing.T) {
	t.Parallel()
	for _, major := range pgtest.Majors() {
		w := healthy(t, major)
		exec(t, w.pay, loose)
		scene := w.scenes(t, 1)[0]
		exec(t, w.pay, scene.Replace(`INSERT INTO account_fence_raise (account_id, raised_from, raised_to, operator, reason) VALUES ('$A', 1, $T, 'oncall', 'hangs');
			UPDATE fence_floor SET floor_token = $T; UPDATE payout SET claim_token = $T, claimed_by = 'ghost' WHERE payout_id = '$Q';
			INSERT INTO rail_submission (submission_id, payout_id, idempotency_key, presented_token, outcome, submitted_at, resolved_at)
			VALUES (gen_random_uuid(), '$P', 'k', $T, 'FENCED', now(), now())`))
		var token int64
		if err := w.pay.QueryRow(t.Context(), "SELECT max(raised_to) FROM account_fence_raise WHERE operator = 'oncall'").Scan(&token); err != nil {
			t.Fatal(err)
		}
		story, err := reconcile.StoryOf(t.Context(), w.options(t).Pay, token)
		if err != nil {
			t.Fatal(err)
		}
		told := map[string]int{}
		last := time.Time{}
		for _, m := range story.Events {
			told[m.Source+" "+string(m.Kind)]++
			if m.At.Before(last) || m.Token != token || m.TokenStr == "" {
				t.Errorf("%+v after %s", m, last)
			}
			last = m.At
		}
		want := map[string]int{
			"payout_claim claimed": 1, "payout claimed": 1, "rail_submission submitted": 1, "rail_submission answered": 1, "rail_submission fenced_out": 1,
			"ledger_entry leg": 2, "account fence": 1, "account_fence_raise fence": 1, "rail_high_water fence": 1, "fence_floor fence": 2,
		}
		if diff := cmp.Diff(want, told); diff != "" || story.Cut != nil {
			t.Errorf("token %d on PostgreSQL %d, cut %v (-want +got):\n%s", token, major, story.Cut, diff)
		}
		if story, err = reconcile.StoryOf(t.Context(), w.options(t).Pay, 1); err != nil || len(story.Events) != 0 {
			t.Errorf("a token that nobody used: %+v, %v", story, err)
		}
	}
}

// Every statement that attributes or explains fits the migrated schema, and the
// auditor's rights.
//
// Clauses: K-12.1
// Mutation: name a column that is none.
func TestStoryStatementsPrepare(t *testing.T) {
	t.Parallel()
	queries, err := reconcile.StoryQueries(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, major := range pgtest.Majors() {
		dbs := pgtest.Migrated(t, major)
		pay, lock := dbs.Pay.Conn(t, "t_auditor"), dbs.Lock.Conn(t, "t_auditor")
		for _, q := range queries {
			conn := pay
			if q.Lock {
				conn = lock
			}
			if _, err := conn.Prepare(t.Context(), q.Name, q.Text); err != nil {
				t.Errorf("%s on PostgreSQL %d: %v", q.Name, major, err)
			}
		}
	}
}

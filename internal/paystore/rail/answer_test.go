package rail_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dlockctl/dlockctl/internal/paystore"
	"github.com/dlockctl/dlockctl/internal/paystore/rail"
	"github.com/dlockctl/dlockctl/internal/pgtest"
)

// A rail that answers after the deadline: the attempt is TIMEOUT, and the late answer
// is taken down all the same. One that says otherwise later does not change it.
//
// Clauses: K-5.3
// Mutation: return from attend after giveUp; or write `outcome IS NULL` alone in answer.sql.
func TestLateAnswerIsRecorded(t *testing.T) {
	t.Parallel()
	for name, late := range map[string]rail.Answer{
		"5 ACKED ref-1":    {Outcome: paystore.OutcomeAcked, Reference: "ref-1"},
		"5 REJECTED ref-2": {Outcome: paystore.OutcomeRejected, Reference: "ref-2", Text: "account closed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			eachMajor(t, func(t *testing.T, b bundle) {
				p := b.proxy(t, rail.Options{Timeout: patience})
				id := b.payout(t, account, 5)
				speak := make(chan struct{})
				b.rail.submit = func(ctx context.Context, _ rail.Request) (rail.Answer, error) {
					select {
					case <-speak:
						return late, nil
					case <-ctx.Done():
						return rail.Answer{}, ctx.Err()
					}
				}
				got, err := p.Submit(t.Context(), id, 5)
				if err != nil || got.Outcome != paystore.OutcomeTimeout || got.Trouble == "" {
					t.Fatalf("no answer: %+v, %v", got, err)
				}
				b.becomes(t, id, "5 TIMEOUT")
				close(speak)
				b.becomes(t, id, name)

				b.rail.answerStatus(rail.Answer{Outcome: paystore.OutcomeAcked, Reference: "ref-9"}, nil)
				if got, err := p.Ask(t.Context(), id); err != nil || got.RailReference != late.Reference || b.rail.questions() != 0 {
					t.Errorf("asked about a settled attempt: %+v, %v, %d questions", got, err, b.rail.questions())
				}
			})
		})
	}
}

// A rail that says two things: the first stands, and somebody hears of the second.
//
// Clauses: K-5.3
// Mutation: drop the WHERE on outcome in answer.sql, or the case of EventContradicted.
func TestFirstAnswerStands(t *testing.T) {
	t.Parallel()
	eachMajor(t, func(t *testing.T, b bundle) {
		p := b.proxy(t, rail.Options{Timeout: patience})
		id := b.payout(t, account, 5)
		speak := make(chan struct{})
		b.rail.submit = func(context.Context, rail.Request) (rail.Answer, error) {
			<-speak
			return rail.Answer{Outcome: paystore.OutcomeAcked, Reference: "ref-1"}, nil
		}
		if got, err := p.Submit(t.Context(), id, 5); err != nil || got.Outcome != paystore.OutcomeTimeout {
			t.Fatalf("no answer: %+v, %v", got, err)
		}
		b.rail.answerStatus(rail.Answer{Outcome: paystore.OutcomeRejected}, nil)
		if got, err := p.Ask(t.Context(), id); err != nil || got.Outcome != paystore.OutcomeRejected {
			t.Fatalf("asked: %+v, %v", got, err)
		}
		close(speak)
		pgtest.Eventually(t, "the second answer is observed", func(context.Context) (bool, error) {
			return cmp.Equal(b.seen.lines(), []string{rail.EventContradicted + " 5 0"}), nil
		})
		if diff := cmp.Diff([]string{"5 REJECTED"}, b.attempts(t, id)); diff != "" {
			t.Error(diff)
		}
	})
}

// Rejected is recorded, and so is an acknowledgement with a reference that no database
// holds; a cut connection and an answer that decides nothing are
// unknown, not before the deadline, and are never forwarded again.
//
// Clauses: K-4.11, K-5.3
// Mutation: take `<-patience.C` out of attend, return its error instead of giving up, or
// take recordable out of record.
func TestWhatIsNotKnownIsTimeout(t *testing.T) {
	t.Parallel()
	cut := errors.New("connection reset by peer")
	for name, tc := range map[string]struct {
		answer  rail.Answer
		err     error
		want    string
		trouble string
	}{
		"rejected":  {rail.Answer{Outcome: paystore.OutcomeRejected, Reference: "r"}, nil, "5 REJECTED r", ""},
		"hostile":   {rail.Answer{Outcome: paystore.OutcomeAcked, Reference: "a\x00b\xff"}, nil, "5 ACKED a\uFFFDb\uFFFD", ""},
		"cut":       {rail.Answer{}, cut, "5 TIMEOUT", "connection reset by peer"},
		"undecided": {rail.Answer{Text: "queued"}, nil, "5 TIMEOUT", `the rail has not decided: "queued"`},
		"not found": {rail.Answer{Outcome: rail.NotFound, Text: "?"}, nil, "5 TIMEOUT", `the rail has not decided: "?"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t, 16)
			p := b.proxy(t, rail.Options{Timeout: patience})
			id := b.payout(t, account, 5, 6)
			b.rail.submit = func(context.Context, rail.Request) (rail.Answer, error) { return tc.answer, tc.err }
			var began time.Time // by the clock that resolved_at is of
			if err := b.super.QueryRow(t.Context(), `SELECT clock_timestamp()`).Scan(&began); err != nil {
				t.Fatal(err)
			}
			got, err := p.Submit(t.Context(), id, 5)
			if err != nil || got.Trouble != tc.trouble {
				t.Errorf("submit: %+v, %v, want trouble %q", got, err, tc.trouble)
			}
			for _, token := range []paystore.Token{5, 6} {
				if again, err := p.Submit(t.Context(), id, token); err != nil || again.Outcome != got.Outcome {
					t.Errorf("again with %s: %+v, %v", token, again, err)
				}
			}
			if diff := cmp.Diff([]string{tc.want}, b.attempts(t, id)); diff != "" || b.rail.calls() != 1 {
				t.Errorf("%d calls, attempts:\n%s", b.rail.calls(), diff)
			}
			var early bool
			err = b.super.QueryRow(t.Context(), `SELECT outcome = 'TIMEOUT' AND resolved_at < $1
				FROM rail_submission WHERE payout_id = $2`, began.Add(patience*9/10), id).Scan(&early)
			if err != nil || early {
				t.Errorf("TIMEOUT before the deadline: %t, %v", early, err)
			}
		})
	}
}

// An attempt whose proxy died is in flight until the deadline, whatever the rail does
// not know of it, and TIMEOUT after it. What the rail does know is recorded at once.
//
// Clauses: K-4.11, K-5.3
// Mutation: take the interval out of overdue.sql; or record NOT_FOUND as REJECTED.
func TestAskSettlesWhatADeadProxyLeft(t *testing.T) {
	t.Parallel()
	eachMajor(t, func(t *testing.T, b bundle) {
		p := b.proxy(t, rail.Options{})
		young, old, known := b.left(t, 5, "1 second"), b.left(t, 6, "1 hour"), b.left(t, 7, "1 second")
		got, err := p.Ask(t.Context(), young)
		if err != nil || got.Outcome != "" || got.Said.Outcome != rail.NotFound {
			t.Errorf("before the deadline: %+v, %v", got, err)
		}
		b.becomes(t, young, "5 in flight")
		got, err = p.Ask(t.Context(), old)
		if err != nil || got.Outcome != paystore.OutcomeTimeout || got.Said.Outcome != rail.NotFound {
			t.Errorf("after the deadline: %+v, %v", got, err)
		}
		b.becomes(t, old, "6 TIMEOUT")

		b.rail.answerStatus(rail.Answer{}, errors.New("no route to host"))
		if got, err := p.Ask(t.Context(), old); err == nil || got.Outcome != paystore.OutcomeTimeout {
			t.Errorf("the rail is away: %+v, %v", got, err)
		}
		b.rail.answerStatus(rail.Answer{Outcome: paystore.OutcomeAcked, Reference: "ref-7"}, nil)
		for id, want := range map[string]string{known: "7 ACKED ref-7", old: "6 ACKED ref-7"} {
			if got, err := p.Ask(t.Context(), id); err != nil || got.RailReference != "ref-7" {
				t.Errorf("the rail knows: %+v, %v", got, err)
			}
			b.becomes(t, id, want)
		}
		if b.rail.calls() != 0 {
			t.Errorf("asking forwarded %d times", b.rail.calls())
		}
	})
}

// left is a payout whose attempt is in flight since age ago, and nobody waits for it.
func (b bundle) left(t *testing.T, token paystore.Token, age string) string {
	t.Helper()
	id := b.payout(t, account, token)
	b.exec(t, rail.Queries()["mark"], account, int64(token))
	b.exec(t, `INSERT INTO rail_submission (submission_id, payout_id, idempotency_key, presented_token, submitted_at)
		SELECT gen_random_uuid(), payout_id, idempotency_key, claim_token, now() - $2::interval FROM payout WHERE payout_id = $1`, id, age)
	return id
}

// Clauses: K-5.3
// Mutation: return the zero attempt where there is none.
func TestAskNeedsAnAttempt(t *testing.T) {
	t.Parallel()
	b := setup(t, 16)
	p := b.proxy(t, rail.Options{})
	for _, id := range []string{b.payout(t, account, 5), account} {
		if _, err := p.Ask(t.Context(), id); !errors.Is(err, paystore.ErrNotFound) {
			t.Errorf("%s: %v", id, err)
		}
	}
	if _, err := p.Ask(t.Context(), "x"); !errors.Is(err, paystore.ErrInvalid) {
		t.Errorf("no id: %v", err)
	}
}

// A caller that goes away hears that the outcome is unknown; the proxy hears the rail
// out, and a proxy that closes waits until the answer is recorded.
//
// Clauses: K-5.3
// Mutation: pass the caller's context to attend, or take p.open.Wait out of Close.
func TestCallerGoesAway(t *testing.T) {
	t.Parallel()
	eachMajor(t, func(t *testing.T, b bundle) {
		p := b.proxy(t, rail.Options{})
		id := b.payout(t, account, 5)
		ctx, cancel := context.WithCancel(t.Context())
		speak := make(chan struct{})
		b.rail.submit = func(ctx context.Context, req rail.Request) (rail.Answer, error) {
			cancel()
			select {
			case <-speak:
				return acked(req.Key), nil
			case <-ctx.Done():
				return rail.Answer{}, ctx.Err()
			}
		}
		got, err := p.Submit(ctx, id, 5)
		if !isUnknown(err) || got.Outcome != "" || got.SubmissionID == "" {
			t.Errorf("the caller hears %+v, %v", got, err)
		}

		reader := bundle{super: b.dbs.Pay.Conn(t, "super")}
		blocker := b.dbs.Pay.Conn(t, "super")
		if _, err := blocker.Exec(t.Context(), `BEGIN; SELECT FROM rail_submission FOR UPDATE`); err != nil {
			t.Fatal(err)
		}
		close(speak)
		atClose := make(chan []string, 1)
		go func() {
			p.Close()
			lines, err := reader.read(t.Context(), id)
			if err != nil {
				lines = []string{err.Error()}
			}
			atClose <- lines
		}()
		b.waits(t, "the answer waits to be recorded", 0)
		if _, err := blocker.Exec(t.Context(), `ROLLBACK`); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{"5 ACKED " + acked("key-"+id).Reference}, <-atClose); diff != "" {
			t.Errorf("when the proxy is closed (-want +got):\n%s", diff)
		}
	})
}

// waits returns when a transaction that began so long ago waits for a lock.
func (b bundle) waits(t *testing.T, what string, since time.Duration) {
	t.Helper()
	pgtest.Eventually(t, what, func(ctx context.Context) (waits bool, err error) {
		err = b.super.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database()
			AND wait_event_type = 'Lock' AND xact_start + make_interval(secs => $1) < now())`, since.Seconds()).Scan(&waits)
		return waits, err
	})
}

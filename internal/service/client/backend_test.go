package client_test

import (
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/service/lockapi"
	"github.com/dlockctl/dlockctl/internal/service/problem"
)

// A lock-server that is too old to say what keeps its locks keeps them in lockdb; one
// that says so is believed; one that does not answer is asked once, and changes nothing.
//
// Mutation: return the error of a path that is not there from Learn, or repeat it.
func TestLearn(t *testing.T) {
	t.Parallel()
	lockdb := lockstore.Capabilities{Backend: "postgres", Sessions: true, GlobalTokens: true, OwnTTL: true, Batches: true, Journal: true}
	other := lockstore.Capabilities{Backend: "etcd", Sessions: true, LeaseStep: time.Second, EndsUntimed: true, BulkLimit: 100}
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		want   lockstore.Capabilities
		fails  bool
	}{
		"too old":      {says(problem.New(http.StatusNotFound, problem.Usage, "there is no such path")), lockdb, false},
		"another":      {answers(t, lockapi.NewBackend(other)), other, false},
		"another page": {answers(t, map[string]string{}), lockdb, false},
		"away":         {hangUp, lockdb, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, c.answer)
			l := s.locks(t)
			if err := l.Learn(t.Context()); (err != nil) != c.fails {
				t.Errorf("learn: %v", err)
			}
			if got := l.Capabilities(); got != c.want || s.asked() != 1 {
				t.Errorf("asked %d times, it is %+v, want %+v", s.asked(), got, c.want)
			}
		})
	}
}

// A session that is made by a request that had to be repeated is counted from the first
// one: that may have made it.
//
// Clauses: K-2.10
// Mutation: read the clock before each try of CreateSession.
func TestSessionIsCountedFromTheFirstTry(t *testing.T) {
	t.Parallel()
	arrived := make(chan time.Time, 10)
	made := answers(t, lockapi.NewSession(lockstore.Session{ID: sessionID, Owner: "a", Remaining: time.Minute}, true))
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		arrived <- time.Now()
		if len(arrived) == 1 {
			hangUp(w, r)
		}
		made(w, r)
	})
	session, err := s.locks(t).CreateSession(t.Context(), "a", time.Minute)
	if err != nil || len(arrived) != 2 {
		t.Fatalf("%d requests, %v", len(arrived), err)
	}
	if first := <-arrived; session.Sent.After(first) {
		t.Errorf("counted from %s, and the first request had arrived %s before", session.Sent, session.Sent.Sub(first))
	}
}

// answers is a service that answers everything with the same body.
func answers(t *testing.T, body any) http.HandlerFunc {
	t.Helper()
	text, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	return func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(text) }
}

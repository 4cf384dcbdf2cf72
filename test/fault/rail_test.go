package fault_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/dlockctl/dlockctl/internal/paystore"
	"github.com/dlockctl/dlockctl/internal/paystore/rail"
)

// railServer is a payment rail that pays whatever it is asked to, as often as it is
// asked, and counts. A rail that told duplicates apart would hide the fault.
type railServer struct {
	*httptest.Server
	mu       sync.Mutex
	received map[string]int
	paid     map[string]rail.Answer
	// hold, while it is not nil, keeps the answer to a payment back, which is made all
	// the same.
	hold chan struct{}
}

func newRailServer(t *testing.T) *railServer {
	t.Helper()
	s := &railServer{received: map[string]int{}, paid: map[string]rail.Answer{}}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /payments", s.pay)
	mux.HandleFunc("GET /payments/{key}", s.status)
	s.Server = httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s
}

func (s *railServer) pay(w http.ResponseWriter, r *http.Request) {
	var req rail.Request
	if err := json.NewDecoder(r.Body).Decode(&req); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	s.mu.Lock()
	s.received[req.Key]++
	answer := rail.Answer{Outcome: paystore.OutcomeAcked, Reference: fmt.Sprintf("rail-%s-%d", req.Key, s.received[req.Key])}
	s.paid[req.Key] = answer
	hold := s.hold
	s.mu.Unlock()
	if hold != nil {
		select {
		case <-hold:
		case <-r.Context().Done():
			return
		}
	}
	_ = json.NewEncoder(w).Encode(answer)
}

func (s *railServer) status(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	answer, found := s.paid[r.PathValue("key")]
	s.mu.Unlock()
	if !found {
		answer.Outcome = rail.NotFound
	}
	_ = json.NewEncoder(w).Encode(answer)
}

// requests counts the payments that were asked for under a key.
func (s *railServer) requests(key string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.received[key]
}

// holdAnswers keeps answers back until the function returned is called.
func (s *railServer) holdAnswers() (release func()) {
	hold := make(chan struct{})
	s.mu.Lock()
	s.hold = hold
	s.mu.Unlock()
	return func() {
		s.mu.Lock()
		s.hold = nil
		s.mu.Unlock()
		close(hold)
	}
}

// railClient is a rail.Rail over HTTP.
type railClient struct {
	url string
	// before is called where a payment is about to leave.
	before func()
}

// Submit lets nothing leave after the deadline, and waits longer for an answer.
func (c railClient) Submit(ctx context.Context, req rail.Request) (rail.Answer, error) {
	c.before()
	body, err := json.Marshal(req)
	if err != nil {
		return rail.Answer{}, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	late := time.AfterFunc(req.Left(), cancel)
	defer late.Stop()
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteRequest: func(httptrace.WroteRequestInfo) { late.Stop() }})
	return c.call(ctx, http.MethodPost, "/payments", body)
}

func (c railClient) Status(ctx context.Context, key string) (rail.Answer, error) {
	return c.call(ctx, http.MethodGet, "/payments/"+url.PathEscape(key), nil)
}

func (c railClient) call(ctx context.Context, method, path string, body []byte) (answer rail.Answer, err error) {
	req, err := http.NewRequestWithContext(ctx, method, c.url+path, bytes.NewReader(body))
	if err != nil {
		return answer, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return answer, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return answer, fmt.Errorf("%s %s: %s", method, path, resp.Status)
	}
	return answer, json.NewDecoder(resp.Body).Decode(&answer)
}

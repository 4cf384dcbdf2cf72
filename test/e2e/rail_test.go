package e2e_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"

	"github.com/rogpeppe/go-internal/testscript"
)

// paymentRail is a payment rail that speaks docs/rail.md. It pays whatever it is asked
// to, as often as it is asked, and counts: one that told duplicates apart would hide
// the fault.
type paymentRail struct {
	mu       sync.Mutex
	record   map[string]map[string]string
	payments int
	broken   bool
}

func (p *paymentRail) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	key := r.FormValue("idempotency_key")
	if r.Method == http.MethodPost {
		var payment struct {
			Key string `json:"idempotency_key"`
		}
		if err := json.NewDecoder(r.Body).Decode(&payment); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		key = payment.Key
		p.payments++
		p.record[key] = map[string]string{"outcome": "ACKED", "reference": fmt.Sprintf("R-%d", p.payments)}
	}
	answer := map[string]string{"outcome": "NOT_FOUND"}
	if known, found := p.record[key]; found {
		answer = known
	}
	if p.broken || r.URL.Path != "/v1/payments" {
		http.Error(w, "out of order", http.StatusServiceUnavailable)
		return
	}
	_ = json.NewEncoder(w).Encode(map[string]string{"idempotency_key": key, "outcome": answer["outcome"], "reference": answer["reference"]})
}

// runRail gives the script a payment rail, once, and a line to its record.
func runRail(ts *testscript.TestScript, s *stage, args []string) {
	if s.rail == nil {
		s.rail = &paymentRail{record: map[string]map[string]string{}}
		server := httptest.NewServer(s.rail)
		s.t.Cleanup(server.Close)
		ts.Setenv("DLOCKCTL_RAIL_URL", server.URL+"/v1")
	}
	s.rail.mu.Lock()
	defer s.rail.mu.Unlock()
	s.rail.broken = len(args) == 1
	if len(args) >= 2 {
		reference := ""
		if len(args) == 3 {
			reference = args[2]
		}
		s.rail.record[args[0]] = map[string]string{"outcome": args[1], "reference": reference}
	}
}

// runPayments wants the rail to have been asked to pay so often.
func runPayments(ts *testscript.TestScript, s *stage, args []string) {
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	if s.rail == nil {
		ts.Fatalf("there is no rail; call rail first")
	}
	s.rail.mu.Lock()
	defer s.rail.mu.Unlock()
	if s.rail.payments != want {
		ts.Fatalf("the rail was asked to pay %d times, want %d", s.rail.payments, want)
	}
}

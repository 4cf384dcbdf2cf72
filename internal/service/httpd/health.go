package httpd

import (
	"context"
	"encoding/json"
	"net/http"
	"sync"
	"time"

	"github.com/dlockctl/dlockctl/internal/service/problem"
)

// The paths of the frame itself.
const (
	livePath    = "/livez"
	readyPath   = "/readyz"
	metricsPath = "/metrics"
	jsonPath    = "/openapi.json"
	yamlPath    = "/openapi.yaml"
)

// Health is the answer of /readyz.
type Health struct {
	Service    string      `json:"service"`
	Ready      bool        `json:"ready"`
	Conditions []Condition `json:"conditions"`
}

// readiness keeps an answer for a moment: everybody may ask, and each asking may
// go to the database.
type readiness struct {
	mu   sync.Mutex
	at   time.Time
	last []Condition
}

// The bounds of asking a service whether it is ready.
const (
	readyFor    = 500 * time.Millisecond
	readyWithin = 3 * time.Second
)

// conditions are the service's own and the frame's.
func (s *Server) conditions(ctx context.Context) []Condition {
	s.readiness.mu.Lock()
	defer s.readiness.mu.Unlock()
	if time.Since(s.readiness.at) > readyFor {
		s.readiness.last = append(s.ask(ctx), s.own()...)
		s.readiness.at = time.Now()
	}
	return s.readiness.last
}

// ask asks the service. One that does not answer in time is not ready.
func (s *Server) ask(ctx context.Context) []Condition {
	if s.opts.Ready == nil {
		return nil
	}
	// Whoever hangs up does not decide what the next one is told.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), readyWithin)
	defer cancel()
	answer := make(chan []Condition, 1)
	go func() { answer <- s.told(ctx) }()
	select {
	case conditions := <-answer:
		return conditions
	case <-ctx.Done():
		return []Condition{{Name: "answer", State: Failed, Reason: "the service did not say within " + readyWithin.String() + " how it is"}}
	}
}

// told is what the service says. It says it in a goroutine of its own, where a panic
// would end the process: it is recovered as an operation's is.
func (s *Server) told(ctx context.Context) (conditions []Condition) {
	defer func() {
		if broken := recover(); broken != nil {
			s.logPanic(RequestID(ctx), broken)
			conditions = []Condition{{Name: "answer", State: Failed, Reason: "unexpected error; the service's log has it"}}
		}
	}()
	return s.opts.Ready(ctx)
}

// own are the conditions of the frame.
func (s *Server) own() []Condition {
	var own []Condition
	if s.tls != nil {
		own = append(own, s.tls.get().condition(time.Now()))
		if err := s.tls.failed(); err != nil {
			own = append(own, Condition{Name: "certificate_reload", State: Warning, Reason: "the one before stays in force: " + err.Error()})
		}
	}
	if s.keys != nil {
		if err := s.keys.failed(); err != nil {
			own = append(own, Condition{Name: "keys_reload", State: Warning, Reason: "those before stay in force: " + err.Error()})
		}
	}
	return own
}

// Health tells how the service is, as /readyz does.
func (s *Server) Health(ctx context.Context) Health {
	health := Health{Service: s.opts.Name, Ready: true, Conditions: []Condition{}}
	select {
	case <-s.drain:
		health.Conditions = append(health.Conditions, Condition{Name: "draining", State: Failed, Reason: "the service is stopping"})
	default:
	}
	health.Conditions = append(health.Conditions, s.conditions(ctx)...)
	for _, c := range health.Conditions {
		health.Ready = health.Ready && c.State != Failed
	}
	return health
}

func (s *Server) live(w http.ResponseWriter, _ *http.Request) {
	write(w, http.StatusOK, map[string]any{"service": s.opts.Name, "live": true})
}

func (s *Server) ready(w http.ResponseWriter, r *http.Request) {
	health := s.gauged(r.Context())
	status := http.StatusOK
	if !health.Ready {
		status = http.StatusServiceUnavailable
	}
	write(w, status, health)
}

// gauged is Health, which the metrics show from then on.
func (s *Server) gauged(ctx context.Context) Health {
	health := s.Health(ctx)
	if health.Ready {
		s.http.Ready.Set(1)
	} else {
		s.http.Ready.Set(0)
	}
	return health
}

// metrics are for who may look: they tell how much business there is. Whether the
// service is ready is asked anew, for nobody else may ask.
func (s *Server) metrics(w http.ResponseWriter, r *http.Request) {
	x := exchangeOf(r.Context())
	if scopes := []Scope{Audit}; !s.openToAll() && !x.caller.may(scopes) {
		x.refuse(forbidden(scopes))
		return
	}
	s.gauged(r.Context())
	s.opts.Metrics.Handler().ServeHTTP(w, r)
}

// document serves the OpenAPI document in one form.
func (s *Server) document(text func() ([]byte, error), mediaType string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body, err := text()
		if err != nil {
			exchangeOf(r.Context()).refuse(problem.New(http.StatusInternalServerError, problem.Unexpected, "the document cannot be made"))
			return
		}
		w.Header().Set("Content-Type", mediaType)
		_, _ = w.Write(body) // the client has gone: the log line says the rest
	}
}

func write(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // the client has gone: the log line says the rest
}

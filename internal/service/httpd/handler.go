package httpd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/dlockctl/dlockctl/internal/service/problem"
)

// handler is what every request goes through, in this order: it is written down
// whatever becomes of it, refused where it comes from the wrong place, caller or
// too often, read whole, and then answered.
func (s *Server) handler() http.Handler {
	s.mux.HandleFunc("GET "+livePath, s.live)
	s.mux.HandleFunc("GET "+readyPath, s.ready)
	s.mux.HandleFunc("GET "+metricsPath, s.metrics)
	s.mux.HandleFunc("GET "+jsonPath, s.document(s.openAPIJSON, "application/openapi+json"))
	s.mux.HandleFunc("GET "+yamlPath, s.document(s.openAPIYAML, "application/openapi+yaml"))
	s.mux.HandleFunc("/", s.elsewhere)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		within, traced := s.opts.Trace.Request(r)
		s.serve(w, within, traced)
	})
}

// serve answers a request, and says when it is answered.
func (s *Server) serve(w http.ResponseWriter, r *http.Request, traced func(status int)) {
	x := &exchange{ResponseWriter: w, server: s, id: s.requestID(r), started: time.Now(), operation: "none", traced: traced}
	s.http.InFlight.Inc()
	defer s.finish(x, r)
	headers(w.Header(), x.id)
	// Until it has come whole, a request has so long to come; nothing else bounds
	// a body that trickles, refused callers' included.
	// net/http takes the deadline off again at the body's end.
	if r.ContentLength != 0 {
		_ = http.NewResponseController(w).SetReadDeadline(x.started.Add(s.limits.ReadBody))
	}
	// What was left of the answer before is none of this one's.
	if r.ProtoMajor == 1 {
		_ = x.SetWriteDeadline(time.Time{})
	}
	if refusal := s.admit(x, r); refusal != nil {
		x.refuse(refusal)
		return
	}
	if r.ContentLength != 0 {
		if refusal := s.readBody(x, r); refusal != nil {
			x.refuse(refusal)
			return
		}
	}
	s.mux.ServeHTTP(x, r.WithContext(context.WithValue(r.Context(), contextKey{}, x)))
}

// admit decides whether a request is looked at.
func (s *Server) admit(x *exchange, r *http.Request) *problem.Problem {
	if refusal := s.sameSite(r); refusal != nil {
		return refusal
	}
	if public(r.URL.Path) || r.URL.Path == metricsPath {
		x.operation = r.URL.Path[1:]
	}
	if public(r.URL.Path) {
		return nil
	}
	caller, refusal := s.authenticate(r)
	if refusal != nil {
		return refusal
	}
	x.caller = caller
	if after := s.rates.wait(caller, x.started); after > 0 {
		return problem.New(http.StatusTooManyRequests, problem.RateLimited, "this caller asks too often").WithRetryAfter(after)
	}
	return nil
}

// readBody reads the body whole, before an operation holds anything for it, and
// puts it back for the operation to read.
func (s *Server) readBody(x *exchange, r *http.Request) *problem.Problem {
	most := int64(s.limits.BodyBytes)
	if r.ContentLength > most {
		x.Header().Set("Connection", "close")
		return tooLarge(most)
	}
	body, err := io.ReadAll(http.MaxBytesReader(x.ResponseWriter, r.Body, most))
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		return tooLarge(most)
	case isTimeout(err):
		x.Header().Set("Connection", "close")
		return problem.Newf(http.StatusRequestTimeout, problem.TooSlow, "the body did not come within %s", s.limits.ReadBody)
	case err != nil:
		return problem.New(http.StatusBadRequest, problem.Usage, "the body broke off")
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	return nil
}

func tooLarge(most int64) *problem.Problem {
	return problem.Newf(http.StatusRequestEntityTooLarge, problem.TooLarge, "the body is larger than %d bytes", most)
}

func isTimeout(err error) bool {
	var timeout net.Error
	return errors.As(err, &timeout) && timeout.Timeout()
}

// headers are those of every answer: it is for programs, no page may use it, and
// nobody keeps it.
func headers(h http.Header, id string) {
	h["X-Request-Id"] = []string{id}
	h["Cache-Control"] = []string{"no-store"}
	h["X-Content-Type-Options"] = []string{"nosniff"}
	h["Content-Security-Policy"] = []string{"default-src 'none'; frame-ancestors 'none'"}
	h["Cross-Origin-Resource-Policy"] = []string{"same-origin"}
}

// refuse answers with a problem outside an operation.
func (x *exchange) refuse(p *problem.Problem) {
	p.Instance = "urn:dlockctl:request:" + x.id
	x.code = p.Code
	if p.Status == http.StatusUnauthorized {
		x.Header().Set("WWW-Authenticate", "Bearer")
	}
	_ = p.Write(x) // the client has gone: the log line says the rest
}

// elsewhere answers for paths and methods that no operation has.
func (s *Server) elsewhere(w http.ResponseWriter, r *http.Request) {
	x := exchangeOf(r.Context())
	item := s.api.OpenAPI().Paths[r.URL.Path]
	if item == nil {
		x.refuse(problem.New(http.StatusNotFound, problem.Usage, "there is no such path; GET "+jsonPath+" lists them"))
		return
	}
	var allowed []string
	for _, op := range operations(item) {
		allowed = append(allowed, op.Method)
	}
	slices.Sort(allowed)
	w.Header().Set("Allow", strings.Join(allowed, ", "))
	x.refuse(problem.New(http.StatusMethodNotAllowed, problem.Usage, fmt.Sprintf("this path takes %s, not %s", strings.Join(allowed, ", "), r.Method)))
}

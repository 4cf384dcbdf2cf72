package httpd

import (
	"errors"
	"log/slog"
	"net/http"
	"os"
	"regexp"
	"runtime/debug"
	"strconv"
	"syscall"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/dlockctl/dlockctl/internal/service/problem"
)

// givenID is a request id that is taken over from the caller.
var givenID = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)

// requestID is the caller's X-Request-Id, so that one id goes through all
// services, or else a new one.
func (s *Server) requestID(r *http.Request) string {
	if id := r.Header.Get("X-Request-Id"); id != "" && givenID.MatchString(id) {
		return id
	}
	return s.idPrefix + strconv.FormatUint(s.requests.Add(1), 36)
}

// finish writes a request down: what was asked, by whom, what was answered. Not
// the query and not the body: there are keys of locks in them and session ids.
func (s *Server) finish(x *exchange, r *http.Request) {
	abort := false
	if broken := recover(); broken != nil {
		abort = !s.recovered(x, broken)
	}
	s.http.InFlight.Dec()
	took := time.Since(x.started)
	status := x.status
	if status == 0 {
		status = http.StatusOK
	}
	x.traced(status)
	s.http.Duration.WithLabelValues(x.operation, strconv.Itoa(status)).Observe(took.Seconds())
	level := slog.LevelInfo
	switch {
	case status >= http.StatusInternalServerError && r.URL.Path != readyPath:
		level = slog.LevelError
	case public(r.URL.Path), r.URL.Path == metricsPath:
		level = slog.LevelDebug
	}
	if s.opts.Log.Enabled(r.Context(), level) {
		attrs := []slog.Attr{
			slog.String("request_id", x.id), slog.String("method", r.Method), slog.String("path", r.URL.Path),
			slog.Int("status", status), slog.Float64("duration_ms", float64(took.Microseconds())/1000),
			slog.Int64("bytes", x.bytes), slog.String("caller", x.caller.Name), slog.String("remote", r.RemoteAddr),
		}
		if token := r.Header.Get("X-Fencing-Token"); token != "" {
			attrs = append(attrs, slog.String("token", token))
		}
		if x.code != "" {
			attrs = append(attrs, slog.String("code", x.code))
		}
		s.opts.Log.LogAttrs(r.Context(), level, "request", attrs...)
	}
	if abort {
		panic(http.ErrAbortHandler) // half an answer went out, or none: the client must not take it for one
	}
}

// recovered answers for an operation that panicked, and logs where. It tells
// whether it could: not to a client that has gone or has half an answer.
func (s *Server) recovered(x *exchange, broken any) bool {
	if gone(broken) {
		return false
	}
	s.logPanic(x.id, broken)
	if x.status != 0 {
		return false
	}
	x.refuse(unexpected(http.StatusInternalServerError))
	return true
}

// logPanic says what panicked, and where.
func (s *Server) logPanic(id string, broken any) {
	s.opts.Log.Error("panic", slog.String("request_id", id), slog.Any("panic", broken), slog.String("stack", string(debug.Stack())))
}

// unexpected is all that a caller hears of an error nobody foresaw.
func unexpected(status int) *problem.Problem {
	return problem.New(status, problem.Unexpected, "unexpected error; the service's log has it under this request's id")
}

// gone tells that a panic only says that the client did not take its answer.
func gone(broken any) bool {
	err, isError := broken.(error)
	return isError && (errors.Is(err, http.ErrAbortHandler) || errors.Is(err, os.ErrDeadlineExceeded) ||
		errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, http.ErrHandlerTimeout))
}

// logUnexpected keeps what an error says that is not for the caller.
func logUnexpected(x *exchange, e *huma.ErrorModel) {
	if x == nil || e.Status < http.StatusInternalServerError {
		return
	}
	for _, detail := range e.Errors {
		if detail != nil {
			x.server.opts.Log.Error("unexpected error", slog.String("request_id", x.id), slog.String("error", detail.Message))
		}
	}
}

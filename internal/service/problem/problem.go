// Package problem is how every service says no: RFC 9457 problem details with
// the stable code strings of docs/exit-codes.md, so that a client turns an answer
// back into the error it stands for. It knows no store.
package problem

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/jackc/pgerrcode"
)

// ContentType is the media type of a problem.
const ContentType = "application/problem+json"

// Problem is an RFC 9457 problem detail. It is an error, and a handler that
// returns one (or an error that wraps one) answers with it.
type Problem struct { //nolint:errname // RFC 9457 calls it a problem
	Type     string `json:"type" doc:"urn:dlockctl:problem:<code>" example:"urn:dlockctl:problem:fenced"`
	Title    string `json:"title" doc:"The status in words" example:"Conflict"`
	Status   int    `json:"status" doc:"The HTTP status" example:"409"`
	Detail   string `json:"detail,omitempty" doc:"What happened, for a person"`
	Instance string `json:"instance,omitempty" doc:"urn:dlockctl:request:<id>, as the service's log names the request"`
	// Code is what programs decide by; Detail may change its wording.
	Code    string          `json:"code" doc:"What programs decide by" example:"fenced"`
	Hint    string          `json:"hint,omitempty" doc:"What to do next, for a person"`
	Details json.RawMessage `json:"details,omitempty" doc:"What the code is about, by code"`
	// RetryAfter is when to ask again; 0 for no advice. On the wire it is the
	// Retry-After header, whole seconds, rounded up.
	RetryAfter time.Duration `json:"-"`
}

// New makes a problem of a status and a code. The detail is for a person.
func New(status int, code, detail string) *Problem {
	return &Problem{
		Type: "urn:dlockctl:problem:" + code, Title: http.StatusText(status),
		Status: status, Code: code, Detail: detail,
	}
}

// Newf is New with a format.
func Newf(status int, code, format string, args ...any) *Problem {
	return New(status, code, fmt.Sprintf(format, args...))
}

// Refused is what a database refused with an error of its own, which is therefore no
// unknown outcome. The SQLSTATE tells a right that is missing from all else.
func Refused(database, sqlstate, message string) *Problem {
	code := Database
	if sqlstate == pgerrcode.InsufficientPrivilege {
		code = PermissionDenied
	}
	return Newf(http.StatusInternalServerError, code, "%s refused: %s (SQLSTATE %s)", database, message, sqlstate)
}

// WithHint says what to do next, and returns the problem.
func (p *Problem) WithHint(hint string) *Problem {
	p.Hint = hint
	return p
}

// WithDetails adds what the code is about, as JSON, and returns the problem.
// Details that are no JSON are left out: they may not hide the problem.
func (p *Problem) WithDetails(details any) *Problem {
	if text, err := json.Marshal(details); err == nil {
		p.Details = text
	}
	return p
}

// WithRetryAfter says when to ask again, and returns the problem.
func (p *Problem) WithRetryAfter(after time.Duration) *Problem {
	p.RetryAfter = after
	return p
}

// Error returns the detail, or the title where there is none.
func (p *Problem) Error() string {
	if p.Detail == "" {
		return p.Title
	}
	return p.Detail
}

// GetStatus returns the HTTP status.
func (p *Problem) GetStatus() int { return p.Status }

// ContentType returns the media type of a problem, whatever was asked for.
func (p *Problem) ContentType(string) string { return ContentType }

// GetHeaders returns the headers that go with the problem.
func (p *Problem) GetHeaders() http.Header {
	headers := http.Header{}
	if p.RetryAfter > 0 {
		seconds := (p.RetryAfter + time.Second - 1) / time.Second
		headers.Set("Retry-After", strconv.FormatInt(int64(seconds), 10))
	}
	return headers
}

// Write answers a request with the problem, where no operation is in charge:
// a refused connection, an unknown path, a panic.
func (p *Problem) Write(w http.ResponseWriter) error {
	for name, values := range p.GetHeaders() {
		w.Header()[name] = values
	}
	w.Header().Set("Content-Type", ContentType)
	w.WriteHeader(p.Status)
	if err := json.NewEncoder(w).Encode(p); err != nil {
		return fmt.Errorf("write problem: %w", err)
	}
	return nil
}

// Read makes a problem of an answer's status, header and body. A body that is
// no problem, a proxy's page for example, gives one of the code "unexpected".
func Read(status int, header http.Header, body []byte) *Problem {
	var p Problem
	if err := json.Unmarshal(body, &p); err != nil || p.Code == "" {
		p = *New(status, Unexpected, "the answer is no problem detail: status "+strconv.Itoa(status))
	}
	p.Status = status
	p.RetryAfter = retryAfter(header)
	return &p
}

// retryAfter reads the header's whole seconds; the form with a date is not
// written by any of these services.
func retryAfter(header http.Header) time.Duration {
	seconds, err := strconv.ParseInt(header.Get("Retry-After"), 10, 32)
	if err != nil || seconds < 0 {
		return 0
	}
	return time.Duration(seconds) * time.Second
}

// From finds the problem in an error.
func From(err error) (*Problem, bool) {
	return errors.AsType[*Problem](err)
}

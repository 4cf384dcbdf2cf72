package httpd

import (
	"context"
	"net/http"
	"time"
)

// exchange is one request and what becomes of it: what the log line says, and
// what an operation may ask about.
type exchange struct {
	http.ResponseWriter

	server *Server
	// traced ends the request's span.
	traced  func(status int)
	id      string
	started time.Time
	caller  Caller

	// operation is the operation's id, code the problem's, once they are known.
	operation, code string
	status          int
	bytes           int64
	// until is the write deadline that stands, zero for none.
	until time.Time
}

type contextKey struct{}

func exchangeOf(ctx context.Context) *exchange {
	x, _ := ctx.Value(contextKey{}).(*exchange)
	return x
}

// CallerOf returns who sent the request that the context is of.
func CallerOf(ctx context.Context) Caller {
	if x := exchangeOf(ctx); x != nil {
		return x.caller
	}
	return Caller{}
}

// Draining returns a channel that is closed when the service begins to stop: a
// long wait answers then, and a stream of events ends. Outside a request it is
// nil, which never ends a select.
func Draining(ctx context.Context) <-chan struct{} {
	if x := exchangeOf(ctx); x != nil {
		return x.server.drain
	}
	return nil
}

// RequestID returns the id of the request, as it stands in the log and in a
// problem's instance; "" outside a request.
func RequestID(ctx context.Context) string {
	if x := exchangeOf(ctx); x != nil {
		return x.id
	}
	return ""
}

// Unwrap gives http.ResponseController the connection's own writer.
func (x *exchange) Unwrap() http.ResponseWriter { return x.ResponseWriter }

// WriteHeader keeps the status, and begins to count the client's time.
func (x *exchange) WriteHeader(status int) {
	if x.status == 0 && status >= http.StatusOK {
		x.status = status
	}
	x.extend()
	x.ResponseWriter.WriteHeader(status)
}

// Write gives the client its time for this piece anew.
func (x *exchange) Write(piece []byte) (int, error) {
	if x.status == 0 {
		x.status = http.StatusOK
	}
	x.extend()
	n, err := x.ResponseWriter.Write(piece)
	x.bytes += int64(n)
	return n, err //nolint:wrapcheck // a ResponseWriter hands on what the connection says
}

// extend sets the write deadline, unless one of the last second stands. It counts
// from the first piece of the answer: how long an operation waits is no matter of
// the client's speed.
func (x *exchange) extend() {
	until := time.Now().Add(x.server.limits.Write)
	if until.Sub(x.until) > time.Second {
		_ = x.SetWriteDeadline(until) // a writer without deadlines is a test's
	}
}

// SetWriteDeadline sets the deadline and remembers it.
func (x *exchange) SetWriteDeadline(until time.Time) error {
	x.until = until
	return http.NewResponseController(x.ResponseWriter).SetWriteDeadline(until) //nolint:wrapcheck // hands on what the connection says
}

// Flush sends what there is of a stream, and stops the clock until the next event:
// over HTTP/2 a deadline that passes ends a stream even when nothing is written.
func (x *exchange) Flush() {
	if err := http.NewResponseController(x.ResponseWriter).Flush(); err != nil {
		return // the next Write says so
	}
	_ = x.SetWriteDeadline(time.Time{})
}

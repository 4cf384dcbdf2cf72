// Package httpd is the frame that every HTTP service stands in: who may call, how
// much and how slowly, what is logged, how it ends. A service registers its
// operations at API and has nothing else to do with HTTP.
package httpd

import (
	"context"
	"log/slog"
	"time"

	"github.com/dlockctl/dlockctl/internal/telemetry"
)

// Options say how a service is framed. Zero values are the defaults.
type Options struct {
	// Name is the service: "lock-server", … . Version stands in its OpenAPI document.
	Name, Version string
	// Listen is host:port; port 0 takes any. Any other host than a loopback one
	// needs mutual TLS or API keys (K-12.2).
	Listen string
	TLS    TLSFiles
	// KeysFile names the callers (docs/security.md): a line each of a name, its
	// scopes, and the hash of its key or the word cert. It is read again when it
	// changes.
	KeysFile string
	// Log and Metrics are required; Trace is nil where nobody traces.
	Log     *slog.Logger
	Metrics *telemetry.Metrics
	Trace   *telemetry.Tracing
	// Ready tells the truth about the service, each time anew; it is given a few
	// seconds. nil means always ready.
	Ready  func(context.Context) []Condition
	Limits Limits
	// Drain is how long requests in flight have to end once the service stops
	// (default 20 s).
	Drain time.Duration
}

// TLSFiles are PEM files, read again when they change. With ClientCAFile each
// caller needs a certificate of that authority: mutual TLS.
type TLSFiles struct {
	CertFile, KeyFile, ClientCAFile string
}

// Limits bound what one caller can take. Zero values are the defaults.
type Limits struct {
	// BodyBytes is the most a request's body may have (64 KiB), HeaderBytes its
	// header (16 KiB).
	BodyBytes, HeaderBytes int
	// ReadHeader and ReadBody bound how slowly a request may come (5 s, 10 s),
	// Write how long the client may take for a piece of the answer (10 s), Idle how
	// long a connection may do nothing between requests (2 min). There is none on
	// how long a request may wait: that is the operation's matter.
	ReadHeader, ReadBody, Write, Idle time.Duration
	// Rate and Burst bound one caller's requests per second; 0 for no bound. It
	// counts for callers with a credential.
	Rate, Burst int
	// Connections is how many may be open at once (4096).
	Connections int
}

// State is how a condition stands.
type State string

// The states of a condition.
const (
	// Good is as it should be.
	Good State = "ok"
	// Warning must be seen, and the service works: fencing is off, for example.
	Warning State = "warning"
	// Failed means that the service cannot do its work.
	Failed State = "failed"
)

// Condition is one thing that /readyz tells. One that Failed makes it answer 503.
type Condition struct {
	Name   string `json:"name"`
	State  State  `json:"state"`
	Reason string `json:"reason,omitempty"`
	// Database is what a condition about a database found there.
	Database *Database `json:"database,omitempty"`
}

// Database is one that a service works on. doctor compares it with the one that it
// looks at itself.
type Database struct {
	// Identity names it (instance.Identity), by no address and no name.
	Identity string `json:"identity"`
	// MinSchema and MaxSchema are the versions of its schema that the service's program
	// works with.
	MinSchema int `json:"min_schema"`
	MaxSchema int `json:"max_schema"`
}

// Scope is what a credential may do.
type Scope string

// The scopes.
const (
	// Acquire takes, renews and releases locks of one's own sessions.
	Acquire Scope = "acquire"
	// Operate does what an operator does: revoke, prune, reap, raise a fence.
	Operate Scope = "operate"
	// Audit looks, and changes nothing.
	Audit Scope = "audit"
	// Pay makes, claims and settles payouts.
	Pay Scope = "pay"
	// Rail submits payouts to the rail and asks it about them.
	Rail Scope = "rail"
)

// Scopes lists them all.
func Scopes() []Scope { return []Scope{Acquire, Operate, Audit, Pay, Rail} }

// Caller is who sent a request.
type Caller struct {
	// Name is the credential's; "" on loopback without keys, where there is none
	// and everything is allowed.
	Name   string
	Scopes []Scope
}

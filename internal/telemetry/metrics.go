package telemetry

import (
	"net/http"
	"sync"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Metrics are what one service process exports. Each group registers when it is
// first asked for, so that a service exports what it can know and nothing else.
type Metrics struct {
	registry *prometheus.Registry
	service  string

	http     func() *HTTPMetrics
	locks    func() *LockMetrics
	payments func() *PaymentMetrics
	executor func() *ExecutorMetrics
	// lost is counted by two groups.
	lost func() prometheus.Counter
}

// NewMetrics returns the metrics of one service: a registry of its own, with the
// process's and Go's own figures in it.
func NewMetrics(service string) *Metrics {
	m := &Metrics{registry: prometheus.NewRegistry(), service: service}
	m.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	m.lost = sync.OnceValue(func() prometheus.Counter {
		return m.counter("lock_session_lost_total", "Sessions found to be gone.")
	})
	m.http = sync.OnceValue(m.newHTTP)
	m.locks = sync.OnceValue(m.newLocks)
	m.payments = sync.OnceValue(m.newPayments)
	m.executor = sync.OnceValue(m.newExecutor)
	return m
}

// Handler serves the metrics in Prometheus' format.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{Registry: m.registry})
}

// Pool exports the statistics of a connection pool under a name, such as "lockdb".
// stat returns nil while there is no pool.
func (m *Metrics) Pool(name string, stat func() *pgxpool.Stat) {
	m.registry.MustRegister(&poolCollector{name: name, stat: stat})
}

// Gatherer reads the metrics in the process itself.
func (m *Metrics) Gatherer() prometheus.Gatherer { return m.registry }

// HTTP are the figures of the frame that every service stands in.
func (m *Metrics) HTTP() *HTTPMetrics { return m.http() }

// Locks are those of lock-server.
func (m *Metrics) Locks() *LockMetrics { return m.locks() }

// Payments are those of payment-resource and rail-proxy.
func (m *Metrics) Payments() *PaymentMetrics { return m.payments() }

// Executor are those of payout-executor.
func (m *Metrics) Executor() *ExecutorMetrics { return m.executor() }

// HTTPMetrics are counted by the frame, not by a service.
type HTTPMetrics struct {
	// Duration is in seconds, by service, operation and status.
	Duration *prometheus.HistogramVec
	InFlight prometheus.Gauge
	// Connections are those that are open, ConnectionsRefused those turned away
	// because too many were.
	Connections        prometheus.Gauge
	ConnectionsRefused prometheus.Counter
	// Ready is 1 when the service was ready the last time /readyz or /metrics was asked.
	Ready prometheus.Gauge
	// Reloads counts certificates and keys read again, by what and outcome (ok,
	// failed: the ones before stay in force).
	Reloads *prometheus.CounterVec
}

// LockMetrics are lock-server's.
type LockMetrics struct {
	// SessionLost counts calls and grants that found their session gone (K-4.4).
	SessionLost prometheus.Counter
	// Grants, Contended, Renewed, Released and Lost count answers; Released counts
	// those that deleted a row, Lost the renewals that came too late.
	Grants, Contended, Renewed, Released, Lost prometheus.Counter
	// Refused counts grants refused, by reason: frozen, restored, standby,
	// floor_unknown, … .
	Refused *prometheus.CounterVec
	// Expired counts leases seen to have lapsed (log event lease_expired).
	Expired prometheus.Counter
	// Reaped counts sessions that the reaper ended.
	Reaped prometheus.Counter
	// Queue is how many calls wait for a batch, Waiters how many wait for a held
	// key.
	Queue, Waiters prometheus.Gauge
	// BatchSize is in keys, BatchWait in seconds from a call's arrival to its
	// batch's start.
	BatchSize, BatchWait prometheus.Histogram
	// HandOff is in seconds from a release's arrival to the grant of the next in the
	// queue.
	HandOff prometheus.Histogram
}

// PaymentMetrics are those of the two enforcement points.
type PaymentMetrics struct {
	// FencedOut counts writes refused by the fence, by resource: account, ledger,
	// rail (K-4.4).
	FencedOut *prometheus.CounterVec
	// DuplicateRail counts submissions that found the payout's attempt already
	// made, and were not forwarded (K-4.4).
	DuplicateRail prometheus.Counter
	// FencingEnabled is 0 when a switch of K-4.5 is off.
	FencingEnabled prometheus.Gauge
	// Attempts counts what the rail answered, by outcome.
	Attempts *prometheus.CounterVec
}

// ExecutorMetrics are payout-executor's.
type ExecutorMetrics struct {
	// SessionLost counts sessions that lapsed under the executor (K-4.4).
	SessionLost prometheus.Counter
	// LeaseLost counts payouts broken off because the lease was gone.
	LeaseLost prometheus.Counter
	// Payouts counts payouts by outcome: posted, failed, ambiguous, fenced, … .
	Payouts *prometheus.CounterVec
	// Running is how many payouts are being worked on.
	Running prometheus.Gauge
}

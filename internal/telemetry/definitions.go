package telemetry

import "github.com/prometheus/client_golang/prometheus"

// counter, gauge and histogram register what they make.
func (m *Metrics) counter(name, help string) prometheus.Counter {
	return register(m, prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help}))
}

func (m *Metrics) counters(name, help string, labels ...string) *prometheus.CounterVec {
	return register(m, prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels))
}

func (m *Metrics) gauge(name, help string) prometheus.Gauge {
	return register(m, prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: help}))
}

func (m *Metrics) histogram(name, help string, buckets []float64) prometheus.Histogram {
	return register(m, prometheus.NewHistogram(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}))
}

func register[C prometheus.Collector](m *Metrics, c C) C {
	m.registry.MustRegister(c)
	return c
}

// seconds reach from an answer out of memory to a wait for a lock.
func seconds() []float64 {
	return []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60}
}

func (m *Metrics) newHTTP() *HTTPMetrics {
	duration := register(m, prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "dlockctl_request_duration_seconds", Help: "Time to answer a request.", Buckets: seconds(),
	}, []string{"service", "operation", "status"}))
	return &HTTPMetrics{
		Duration:           duration.MustCurryWith(prometheus.Labels{"service": m.service}).(*prometheus.HistogramVec),
		InFlight:           m.gauge("dlockctl_requests_in_flight", "Requests being answered."),
		Connections:        m.gauge("dlockctl_connections", "Open connections."),
		ConnectionsRefused: m.counter("dlockctl_connections_refused_total", "Connections turned away because too many were open."),
		Ready:              m.gauge("dlockctl_ready", "1 when the service was ready the last time it was asked."),
		Reloads:            m.counters("dlockctl_reloads_total", "Certificates and keys read again, by what and outcome.", "what", "outcome"),
	}
}

func (m *Metrics) newLocks() *LockMetrics {
	return &LockMetrics{
		SessionLost: m.lost(),
		Grants:      m.counter("dlockctl_grants_total", "Locks granted."),
		Contended:   m.counter("dlockctl_contended_total", "Tries that found the key held."),
		Renewed:     m.counter("dlockctl_renewed_total", "Leases renewed."),
		Released:    m.counter("dlockctl_released_total", "Locks released."),
		Lost:        m.counter("dlockctl_lost_total", "Renewals that came too late."),
		Refused:     m.counters("dlockctl_grants_refused_total", "Grants refused, by reason.", "reason"),
		Expired:     m.counter("dlockctl_leases_expired_total", "Leases that lapsed."),
		Reaped:      m.counter("dlockctl_sessions_reaped_total", "Sessions ended because they had lapsed."),
		Queue:       m.gauge("dlockctl_queue_length", "Calls waiting for a batch."),
		Waiters:     m.gauge("dlockctl_waiters", "Calls waiting for a held key."),
		BatchSize:   m.histogram("dlockctl_batch_size", "Keys in a batch.", []float64{1, 2, 4, 8, 16, 32, 64}),
		BatchWait:   m.histogram("dlockctl_batch_wait_seconds", "Time from a call's arrival to its batch's start.", seconds()),
		HandOff:     m.histogram("dlockctl_hand_off_seconds", "Time from a release's arrival to the grant of the next in the queue.", seconds()),
	}
}

func (m *Metrics) newPayments() *PaymentMetrics {
	p := &PaymentMetrics{
		FencedOut:      m.counters("lock_fenced_out_total", "Writes refused by the fence, by resource.", "resource"),
		DuplicateRail:  m.counter("rail_duplicate_attempted_total", "Submissions of a payout already submitted; not forwarded."),
		FencingEnabled: m.gauge("dlockctl_fencing_enabled", "0 when fencing is switched off for a negative control."),
		Attempts:       m.counters("dlockctl_rail_attempts_total", "Attempts at the rail, by outcome.", "outcome"),
	}
	// What has not happened yet is 0, not absent: the first time is seen as a rise.
	for _, resource := range m.resources() {
		p.FencedOut.WithLabelValues(resource)
	}
	return p
}

// resources are those that the service guards (K-4.4).
func (m *Metrics) resources() []string {
	switch m.service {
	case "payment-resource":
		return []string{"account", "ledger"}
	case "rail-proxy":
		return []string{"rail"}
	}
	return nil
}

func (m *Metrics) newExecutor() *ExecutorMetrics {
	return &ExecutorMetrics{
		SessionLost: m.lost(),
		LeaseLost:   m.counter("dlockctl_executor_leases_lost_total", "Payouts broken off because the lease was gone."),
		Payouts:     m.counters("dlockctl_executor_payouts_total", "Payouts worked on, by outcome.", "outcome"),
		Running:     m.gauge("dlockctl_executor_running", "Payouts being worked on."),
	}
}

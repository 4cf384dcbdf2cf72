package telemetry

import (
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
)

// poolCollector reads a pool's statistics when it is asked, and costs nothing
// in between.
type poolCollector struct {
	name string
	stat func() *pgxpool.Stat
}

// poolMetric is one figure of a pool.
type poolMetric struct {
	name, help string
	kind       prometheus.ValueType
	value      func(*pgxpool.Stat) float64
}

func poolMetrics() []poolMetric {
	return []poolMetric{
		{"dlockctl_pool_connections", "Connections of the pool.", prometheus.GaugeValue, func(s *pgxpool.Stat) float64 { return float64(s.TotalConns()) }},
		{"dlockctl_pool_connections_used", "Connections in use.", prometheus.GaugeValue, func(s *pgxpool.Stat) float64 { return float64(s.AcquiredConns()) }},
		{"dlockctl_pool_connections_max", "The pool's limit.", prometheus.GaugeValue, func(s *pgxpool.Stat) float64 { return float64(s.MaxConns()) }},
		{"dlockctl_pool_acquires_total", "Connections taken from the pool.", prometheus.CounterValue, func(s *pgxpool.Stat) float64 { return float64(s.AcquireCount()) }},
		{"dlockctl_pool_waits_total", "Takes that found no free connection.", prometheus.CounterValue, func(s *pgxpool.Stat) float64 { return float64(s.EmptyAcquireCount()) }},
		{"dlockctl_pool_wait_seconds_total", "Time spent on taking connections.", prometheus.CounterValue, func(s *pgxpool.Stat) float64 { return s.AcquireDuration().Seconds() }},
	}
}

func (m poolMetric) desc(pool string) *prometheus.Desc {
	return prometheus.NewDesc(m.name, m.help, nil, prometheus.Labels{"pool": pool})
}

// Describe lists the figures.
func (c *poolCollector) Describe(descs chan<- *prometheus.Desc) {
	for _, m := range poolMetrics() {
		descs <- m.desc(c.name)
	}
}

// Collect reads them.
func (c *poolCollector) Collect(metrics chan<- prometheus.Metric) {
	stat := c.stat()
	if stat == nil {
		return
	}
	for _, m := range poolMetrics() {
		metrics <- prometheus.MustNewConstMetric(m.desc(c.name), m.kind, m.value(stat))
	}
}

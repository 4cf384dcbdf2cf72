package lockserver

import (
	"time"

	"github.com/dlockctl/dlockctl/internal/service/lockserver/engine"
	"github.com/dlockctl/dlockctl/internal/telemetry"
)

// observer counts what the engine does.
type observer struct{ metrics *telemetry.LockMetrics }

var _ engine.Metrics = observer{}

func (o observer) Granted()                  { o.metrics.Grants.Inc() }
func (o observer) Contended()                { o.metrics.Contended.Inc() }
func (o observer) Released()                 { o.metrics.Released.Inc() }
func (o observer) SessionLost()              { o.metrics.SessionLost.Inc() }
func (o observer) Queued(n int)              { o.metrics.Queue.Set(float64(n)) }
func (o observer) Waiting(n int)             { o.metrics.Waiters.Set(float64(n)) }
func (o observer) Batch(keys int)            { o.metrics.BatchSize.Observe(float64(keys)) }
func (o observer) BatchWait(d time.Duration) { o.metrics.BatchWait.Observe(d.Seconds()) }
func (o observer) HandOff(d time.Duration)   { o.metrics.HandOff.Observe(d.Seconds()) }

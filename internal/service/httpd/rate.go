package httpd

import (
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// rates bound each caller's requests. There are as many callers as the keys file
// has names, so they are never forgotten.
type rates struct {
	perSecond rate.Limit
	burst     int

	mu sync.Mutex
	of map[string]*rate.Limiter
}

func newRates(limits Limits) *rates {
	return &rates{perSecond: rate.Limit(limits.Rate), burst: max(limits.Burst, limits.Rate), of: map[string]*rate.Limiter{}}
}

// wait counts a request, and returns how long the caller should wait, 0 for not at
// all. Without a credential there is no caller to tell from another.
func (r *rates) wait(caller Caller, now time.Time) time.Duration {
	if r.perSecond == 0 || caller.Name == "" {
		return 0
	}
	r.mu.Lock()
	limiter, known := r.of[caller.Name]
	if !known {
		limiter = rate.NewLimiter(r.perSecond, r.burst)
		r.of[caller.Name] = limiter
	}
	r.mu.Unlock()
	if limiter.AllowN(now, 1) {
		return 0
	}
	return max(time.Duration(float64(time.Second)/float64(r.perSecond)), time.Millisecond)
}

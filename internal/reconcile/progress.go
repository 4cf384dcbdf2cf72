package reconcile

import (
	"context"
	"slices"
	"sync"
	"time"
)

// Progress says how far a run is.
type Progress struct {
	// Family is what was begun last, of Total families and counts, of which Done are
	// over.
	Family      string
	Done, Total int
	// Rows counts the rows of the populations counted so far.
	Rows    int64
	Elapsed time.Duration
	// Left is a guess from what the families done took, 0 while there is none.
	Left time.Duration
}

// progressEvery is how often a run says that it still runs.
const progressEvery = 500 * time.Millisecond

type progress struct {
	mu      sync.Mutex
	tell    func(Progress)
	started time.Time
	now     Progress
	done    int // of weight
	weight  int
	under   []string
	stopped chan struct{}
	over    sync.WaitGroup
}

func startProgress(ctx context.Context, tell func(Progress), started time.Time, jobs []job) *progress {
	p := &progress{tell: tell, started: started, now: Progress{Total: len(jobs)}, stopped: make(chan struct{})}
	for _, j := range jobs {
		p.weight += j.weight
	}
	if tell == nil {
		return p
	}
	p.over.Go(func() {
		tick := time.NewTicker(progressEvery)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				p.say(func() {})
			case <-p.stopped:
				return
			case <-ctx.Done():
				return
			}
		}
	})
	return p
}

// stop waits until nobody is told any more.
func (p *progress) stop() {
	close(p.stopped)
	p.over.Wait()
}

func (p *progress) begin(j job) {
	p.say(func() { p.under = append(p.under, j.name) })
}

func (p *progress) end(j job, rows int64) {
	p.say(func() {
		p.under = slices.DeleteFunc(p.under, func(name string) bool { return name == j.name })
		p.done += j.weight
		p.now.Done++
		p.now.Rows = rows
	})
}

func (p *progress) say(change func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change()
	if p.tell == nil {
		return
	}
	if len(p.under) > 0 {
		p.now.Family = p.under[len(p.under)-1]
	}
	now := p.now
	now.Elapsed = time.Since(p.started)
	if p.done > 0 {
		now.Left = time.Duration(float64(now.Elapsed) * float64(p.weight-p.done) / float64(p.done))
	}
	p.tell(now)
}

package lockserver

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/dlockctl/dlockctl/internal/lockstore"
)

const (
	// watchEvery is how often the locks are looked at while somebody watches.
	watchEvery = 250 * time.Millisecond
	// mostBehind is how many changes a watcher may be behind before it is cut off.
	mostBehind = 1024
)

// hub looks at the locks once for all who watch.
type hub struct {
	service *Service
	mu      sync.Mutex
	// stands is what the last look saw.
	stands   map[string]lockstore.Entry
	watchers map[*watcher]bool
	joined   chan struct{}
}

type watcher struct {
	filter lockstore.Filter
	events chan lockstore.Change
}

func newHub(s *Service) *hub {
	return &hub{service: s, stands: map[string]lockstore.Entry{}, watchers: map[*watcher]bool{}, joined: make(chan struct{}, 1)}
}

func (w *watcher) wants(entry lockstore.Entry) bool {
	return (w.filter.Owner == "" || entry.Owner == w.filter.Owner) && strings.HasPrefix(entry.Key, w.filter.Prefix)
}

// join begins a watch with what stands, as far as it is known; the channel is
// closed when the watcher has fallen behind.
func (h *hub) join(filter lockstore.Filter) (events <-chan lockstore.Change, leave func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	w := &watcher{filter: filter}
	var stands []lockstore.Change
	for _, entry := range h.stands {
		if w.wants(entry) {
			stands = append(stands, lockstore.Change{Kind: lockstore.ChangeOf(nil, entry), Entry: entry})
		}
	}
	w.events = make(chan lockstore.Change, len(stands)+mostBehind)
	for _, change := range stands {
		w.events <- change
	}
	h.watchers[w] = true
	select {
	case h.joined <- struct{}{}:
	default:
	}
	return w.events, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.watchers, w)
	}
}

// run looks while somebody watches.
func (h *hub) run(ctx context.Context) {
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-h.joined:
		case <-tick.C:
		}
		if !h.watched() {
			continue
		}
		entries, err := h.look(ctx)
		if err != nil {
			h.service.log.Debug("watch locks", slog.String("error", err.Error()))
			continue
		}
		h.tell(entries)
	}
}

func (h *hub) look(ctx context.Context) ([]lockstore.Entry, error) {
	store, err := h.service.link.store()
	if err != nil {
		return nil, err
	}
	ctx, cancel := h.service.opts.within(ctx, readTimeout)
	defer cancel()
	return store.List(ctx, lockstore.Filter{})
}

// watched tells whether anybody watches; what stood is forgotten when nobody does,
// for it grows old.
func (h *hub) watched() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.watchers) == 0 {
		clear(h.stands)
	}
	return len(h.watchers) > 0
}

func (h *hub) tell(entries []lockstore.Entry) {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := make(map[string]lockstore.Entry, len(entries))
	for _, entry := range entries {
		now[entry.Key] = entry
		if kind := lockstore.ChangeOf(h.stands, entry); kind != "" {
			h.send(lockstore.Change{Kind: kind, Entry: entry})
		}
	}
	for key, entry := range h.stands {
		if _, still := now[key]; !still {
			h.send(lockstore.Change{Kind: lockstore.ChangeGone, Entry: entry})
		}
	}
	h.stands = now
}

// send tells every watcher, and cuts off one that does not keep up: it comes back
// and is told what stands.
func (h *hub) send(change lockstore.Change) {
	for w := range h.watchers {
		if !w.wants(change.Entry) {
			continue
		}
		select {
		case w.events <- change:
		default:
			close(w.events)
			delete(h.watchers, w)
		}
	}
}

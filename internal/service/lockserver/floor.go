package lockserver

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/service/httpd"
	"github.com/dlockctl/dlockctl/internal/service/problem"
)

// floor is the highest token of the payment services, once all have told it.
type floor struct {
	sources []FloorSource
	mu      sync.Mutex
	told    map[string]lockstore.Token
	failed  map[string]error
}

func newFloor(opts Options) *floor {
	f := &floor{told: map[string]lockstore.Token{}, failed: map[string]error{}}
	if !opts.NoPayments {
		f.sources = opts.Payments
	}
	return f
}

// learn asks those that have not told yet.
func (f *floor) learn(ctx context.Context, log *slog.Logger) {
	for _, source := range f.sources {
		f.mu.Lock()
		_, known := f.told[source.Name]
		f.mu.Unlock()
		if known {
			continue
		}
		asking, cancel := context.WithTimeout(ctx, checkTimeout/2)
		token, err := source.Highest(asking)
		cancel()
		f.mu.Lock()
		f.failed[source.Name] = err
		if err == nil {
			f.told[source.Name] = token
			log.Info("learned the highest token of a payment service", slog.String("service", source.Name), slog.Int64("token", int64(token)))
		}
		f.mu.Unlock()
	}
}

// unknown says whose highest token is not known, or nil.
func (f *floor) unknown() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, source := range f.sources {
		if _, known := f.told[source.Name]; !known {
			return problem.New(http.StatusServiceUnavailable, problem.FloorUnknown,
				fmt.Sprintf("no lock is granted: %s has not told its highest token yet: %v", source.Name, f.failed[source.Name])).
				WithHint("see that it runs and can be reached; a deployment without payments says so in its configuration").
				WithRetryAfter(time.Second)
		}
	}
	return nil
}

func (f *floor) token() lockstore.Token {
	f.mu.Lock()
	defer f.mu.Unlock()
	var highest lockstore.Token
	for _, token := range f.told {
		highest = max(highest, token)
	}
	return highest
}

func (f *floor) condition() httpd.Condition {
	if err := f.unknown(); err != nil {
		return httpd.Condition{Name: "floor", State: httpd.Failed, Reason: err.Error()}
	}
	if len(f.sources) == 0 {
		return httpd.Condition{Name: "floor", State: httpd.Warning, Reason: "the configuration says that there are no payments: no token of theirs is asked for"}
	}
	return httpd.Condition{Name: "floor", State: httpd.Good, Reason: "the payment services' highest token at the start was " + f.token().String()}
}

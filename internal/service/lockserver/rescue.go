package lockserver

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"time"

	"github.com/dlockctl/dlockctl/internal/lockstore"
)

const (
	// rescueEvery is the shortest time from one rescue to the next.
	rescueEvery = 15 * time.Second
	// rescueTimeout bounds one, which takes seconds where everybody answers.
	rescueTimeout = 2 * time.Minute
)

// isRewind tells whether a sign of a rewind closed the grants, and not a freeze: the
// command that the database itself names tells the two apart.
func isRewind(closed error) bool {
	refusal, ok := errors.AsType[*lockstore.GrantsClosedError](closed)
	return ok && strings.Contains(refusal.Hint, "dlockctl restore")
}

// rescues lets restore.auto=safe act on the signs of a rewind until ctx ends (K-7.10).
// That is beside the looks: they do not wait for it, and nobody who looks and has to
// hurry cuts it off, for a run that was cut off keeps the grants closed until it is
// taken to be over.
func (l *link) rescues(ctx context.Context) {
	var last time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case <-l.rewound:
		}
		if time.Since(last) >= rescueEvery {
			l.rescue(ctx)
			last = time.Now()
		}
	}
}

func (l *link) rescue(ctx context.Context) {
	l.opts.Log.Warn("a sign of a rewind closed the grants, restore.auto acts")
	acting, cancel := context.WithTimeout(ctx, rescueTimeout)
	defer cancel()
	if err := l.opts.Rescue(acting); err != nil {
		l.opts.Log.Error("restore.auto left the grants closed", slog.String("error", err.Error()))
		return
	}
	l.check(ctx)
}

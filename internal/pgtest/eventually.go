package pgtest

import (
	"context"
	"errors"
	"testing"
	"time"
)

// patience bounds how long a condition is waited for: far above what any takes on a
// busy machine.
const patience = 60 * time.Second

// Eventually asks until the answer is yes, and fails when it never is, or ask fails.
func Eventually(t testing.TB, what string, ask func(context.Context) (bool, error)) {
	t.Helper()
	Within(t, patience, what, ask)
}

// Within is Eventually for what takes its time: limit lies far above that.
func Within(t testing.TB, limit time.Duration, what string, ask func(context.Context) (bool, error)) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		yes, err := ask(ctx)
		if err != nil && !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("%s: %v", what, err)
		}
		if yes {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("%s: it never did", what)
		case <-tick.C:
		}
	}
}

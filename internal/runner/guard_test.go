//go:build unix

package runner_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/dlockctl/dlockctl/internal/runner"
)

// A wrapper goes after its guard, however slow that is: to a wrapper around it a guard
// that is still there is something that the command has left behind.
//
// Mutation: leave leaves out of close.
func TestGuardGoesFirst(t *testing.T) {
	t.Parallel()
	gone := filepath.Join(t.TempDir(), "gone")
	cfg := runner.Config{
		TTL: time.Minute, Grace: time.Second,
		Guard: runner.GuardCommand{Path: "/bin/sh", Args: []string{"sh", "-c", `cat >/dev/null; sleep 0.1; : >"$0"`, gone}},
	}
	p := newPlay(&cfg, false)
	cfg.Command, cfg.Env = []string{"true"}, os.Environ()
	job, err := runner.Prepare(cfg)
	if err != nil {
		t.Fatal(err)
	}
	result := job.Run(t.Context(), func(context.Context) (runner.Holder, error) { return p.service, nil })
	if result.Outcome != runner.Exited || result.Exit != 0 {
		t.Fatalf("%+v", result)
	}
	if _, err := os.Stat(gone); err != nil {
		t.Errorf("the wrapper is gone, and its guard is not: %v", err)
	}
}

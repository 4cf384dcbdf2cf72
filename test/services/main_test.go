//go:build unix

// Package services_test proves the services together: each is a process of its own of
// the real program, the databases are two instances that may crash, the rail is in a
// bad mood, and a nemesis kills, stops and restarts all of them while executors pay.
package services_test

import (
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/dlockctl/dlockctl/internal/etcdtest"
	"github.com/dlockctl/dlockctl/internal/pgtest"
)

func TestMain(m *testing.M) { etcdtest.Main(m, pgtest.Main) }

// soak is how long the nemesis is at work: DLOCKCTL_SOAK=10m, else a short while.
func soak(t *testing.T, otherwise time.Duration) time.Duration {
	t.Helper()
	text := os.Getenv("DLOCKCTL_SOAK")
	if text == "" {
		return otherwise
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		t.Fatalf("DLOCKCTL_SOAK: %v", err)
	}
	return d
}

// seedOf is what decides the rail's mood and the nemesis's moves: DLOCKCTL_SEED=7, else
// one of the time. When the processes get the processor it does not decide.
func seedOf(t *testing.T) int64 {
	t.Helper()
	seed := time.Now().UnixNano()
	if text := os.Getenv("DLOCKCTL_SEED"); text != "" {
		var err error
		if seed, err = strconv.ParseInt(text, 10, 64); err != nil {
			t.Fatalf("DLOCKCTL_SEED: %v", err)
		}
	}
	t.Logf("seed: DLOCKCTL_SEED=%d", seed)
	return seed
}

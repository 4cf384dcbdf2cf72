package etcd_test

import (
	"testing"
	"time"

	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/lockstore/locktest"
)

// capabilities are what this backend declares.
func capabilities() lockstore.Capabilities {
	return lockstore.Capabilities{
		Backend: "etcd", Sessions: true, GlobalTokens: true, Journal: true,
		LeaseStep: time.Second, WriterTimes: true, EndsUntimed: true, BulkLimit: 100,
	}
}

// The suite that every backend passes, with the differences that this one declares.
//
// Clauses: K-10.1
// Mutation: those of locktest's own test, which breaks a store in one place for each
// clause; those of TestControls.
func TestConformance(t *testing.T) {
	t.Parallel()
	locktest.Run(t, locktest.Backend{
		Declared: capabilities(),
		Database: func(t *testing.T) func(t *testing.T) lockstore.Store {
			opts := options(t)
			return func(t *testing.T) lockstore.Store { return open(t, opts) }
		},
		ShortTTL: time.Second,
	})
}

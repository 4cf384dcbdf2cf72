package locktest

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/dlockctl/dlockctl/internal/lockstore"
)

// Names are the clauses' names.
func Names() (names []string) {
	for _, c := range clauses() {
		names = append(names, c.name)
	}
	return names
}

// Fails tells whether a backend fails a clause, without failing the test.
func Fails(t *testing.T, backend Backend, name string) bool {
	t.Helper()
	backend.ShortTTL = lockstore.MinTTL
	for _, c := range clauses() {
		if c.name != name {
			continue
		}
		client := backend.Database(t)
		verdict := &verdict{TB: t}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var done sync.WaitGroup
		done.Go(func() {
			c.check(&suite{TB: verdict, ctx: func() context.Context { return ctx }, Backend: backend, store: client(t), other: client(t), patience: time.Second})
		})
		done.Wait()
		return verdict.failed
	}
	t.Fatalf("there is no clause %q", name)
	return false
}

// Requires tells whether Require lets a history pass, without failing the test.
func Requires(t *testing.T, history History, rules Rules, least Stats) bool {
	t.Helper()
	verdict := &verdict{TB: t}
	Require(verdict, history, rules, least)
	return !verdict.failed
}

// verdict is a test that is meant to fail.
type verdict struct {
	testing.TB
	failed bool
}

func (v *verdict) Helper() {}

func (v *verdict) Errorf(format string, args ...any) {
	v.failed = true
	v.Logf("as it should: %s", fmt.Sprintf(format, args...))
}

func (v *verdict) Fatalf(format string, args ...any) {
	v.Errorf(format, args...)
	runtime.Goexit()
}

func (v *verdict) Fatal(args ...any) { v.Fatalf("%s", fmt.Sprint(args...)) }

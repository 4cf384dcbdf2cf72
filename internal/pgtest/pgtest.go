// Package pgtest gives tests real PostgreSQL: two physically separate instances per major version, started once per
// test process, and a database of its own for every test.
//
// The binaries are found by DLOCKCTL_TEST_PG16 and DLOCKCTL_TEST_PG15, which `make test` sets. Without them a test
// fails; it never skips.
//
//	func TestMain(m *testing.M) { pgtest.Main(m) }
//
//	func TestSomething(t *testing.T) {
//		t.Parallel()
//		dbs := pgtest.Migrated(t, 16)
//		pool := dbs.Lock.Pool(t, "t_lockapp")
//		…
//	}
package pgtest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"testing"
	"time"
)

// Majors are the PostgreSQL versions everything is tested on: the target first, then the oldest supported.
func Majors() []int { return []int{16, 15} }

// Pair is the two instances, which share nothing: K-6.2.
type Pair struct{ Lock, Pay Server }

// process is what one test process has running. It is the one global of the test harness: a Go test process has no
// other place to keep servers that outlive a single test.
var process = struct {
	sync.Mutex
	inMain bool
	dir    *scratch
	majors map[int]*major
	stops  []func() error
	// singles counts the private instances.
	singles int
}{majors: map[int]*major{}}

// major is the instances and templates of one PostgreSQL version.
type major struct {
	start      sync.Once
	pair       Pair
	startErr   error
	migrate    sync.Once
	migrateErr error
}

// Main runs the tests, then stops the servers and removes their folders. Call it from TestMain; Go takes the exit
// code from m.
func Main(m *testing.M) {
	process.Lock()
	process.inMain = true
	process.Unlock()
	defer func() {
		if err := shutdown(); err != nil {
			fmt.Fprintln(os.Stderr, "pgtest:", err)
		}
	}()
	m.Run()
}

func shutdown() error {
	process.Lock()
	defer process.Unlock()
	var errs []error
	for _, stop := range slices.Backward(process.stops) {
		errs = append(errs, stop())
	}
	if process.dir != nil {
		errs = append(errs, process.dir.remove())
	}
	return errors.Join(errs...)
}

// Servers returns the two instances of a major version, starting them at the first call.
func Servers(t testing.TB, majorVersion int) Pair {
	t.Helper()
	return serversOf(t, majorVersion).pair
}

func serversOf(t testing.TB, majorVersion int) *major {
	t.Helper()
	m, err := enter(majorVersion)
	if err != nil {
		t.Fatal(err)
	}
	m.start.Do(func() {
		ctx, cancel := detached(t)
		defer cancel()
		m.pair, m.startErr = startPair(ctx, majorVersion)
	})
	if m.startErr != nil {
		t.Fatalf("start PostgreSQL %d: %v", majorVersion, m.startErr)
	}
	return m
}

// enter finds the place of a major version and makes sure that somebody will stop what is started.
func enter(majorVersion int) (*major, error) {
	if !slices.Contains(Majors(), majorVersion) {
		return nil, fmt.Errorf("PostgreSQL %d is not among the tested versions %v", majorVersion, Majors())
	}
	process.Lock()
	defer process.Unlock()
	if !process.inMain {
		return nil, errors.New("pgtest needs func TestMain(m *testing.M) { pgtest.Main(m) } in this package, to stop the servers")
	}
	m := process.majors[majorVersion]
	if m == nil {
		m = &major{}
		process.majors[majorVersion] = m
	}
	return m, nil
}

// scratchDir makes the folder of this process at the first call.
func scratchDir() (string, error) {
	process.Lock()
	defer process.Unlock()
	if process.dir == nil {
		dir, err := newScratch(os.TempDir())
		if err != nil {
			return "", err
		}
		process.dir = dir
	}
	return process.dir.path, nil
}

func atShutdown(stop func() error) {
	process.Lock()
	defer process.Unlock()
	process.stops = append(process.stops, stop)
}

// detached is a context for work that must survive the test asking for it: a server or a template that others share,
// or a cleanup, which Go runs after it has cancelled the test's own context.
func detached(t testing.TB) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(t.Context()), 2*time.Minute)
}

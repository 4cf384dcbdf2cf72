//go:build unix

// Package etcdtest gives tests real etcd: processes with etcd's own server inside, one for the cheap tests of a package,
// three for those that break them.
//
// The member is built once per test process from its own module, test/etcd, so that this module never links etcd's
// server.
//
//	func TestMain(m *testing.M) { etcdtest.Main(m) } // with PostgreSQL: etcdtest.Main(m, pgtest.Main)
//
//	func TestSomething(t *testing.T) {
//		t.Parallel()
//		etcd := etcdtest.Single(t)
//		client := etcd.Client(t)
//		prefix := etcdtest.Prefix(t)
//		…
//	}
package etcdtest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// process is what one test process has: a Go test process has no other place to keep a server that outlives a single
// test.
var process = struct {
	sync.Mutex
	inMain bool
	dir    string

	build    sync.Once
	buildErr error

	single    sync.Once
	shared    *Cluster
	sharedErr error
}{}

// Main runs the tests, or around, which runs them; then it stops the shared member and removes the folders. Call it from
// TestMain; Go takes the exit code from m.
func Main(m *testing.M, around ...func(*testing.M)) {
	dir, err := os.MkdirTemp("", "etcdtest-")
	if err != nil {
		fmt.Fprintln(os.Stderr, "etcdtest:", err)
		os.Exit(1)
	}
	process.Lock()
	process.inMain, process.dir = true, dir
	process.Unlock()
	defer func() {
		if process.shared != nil {
			process.shared.close()
		}
		if err := os.RemoveAll(dir); err != nil {
			fmt.Fprintln(os.Stderr, "etcdtest:", err)
		}
	}()
	run := func(m *testing.M) { m.Run() }
	for _, around := range around {
		run = around
	}
	run(m)
}

// Single returns the one-member cluster that the tests of this process share; it is started at the first call. A test
// keeps to its own Prefix, and breaks nothing.
func Single(t testing.TB) *Cluster {
	t.Helper()
	built(t)
	process.single.Do(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), patience)
		defer cancel()
		process.shared, process.sharedErr = start(ctx, filepath.Join(process.dir, "single"), Options{Nodes: 1})
	})
	if process.sharedErr != nil {
		t.Fatalf("start the shared etcd: %v", process.sharedErr)
	}
	return process.shared
}

// Prefix is a prefix for keys that no other test has.
func Prefix(t testing.TB) string {
	return strings.ReplaceAll(t.Name(), "/", "_") + "-" + rand.Text() + "/"
}

// built makes sure that the programs are there.
func built(t testing.TB) {
	t.Helper()
	if !process.inMain {
		t.Fatal("etcdtest needs func TestMain(m *testing.M) { etcdtest.Main(m) } in this package, to stop the servers")
	}
	process.build.Do(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 10*time.Minute) // cold, on two busy cores
		defer cancel()
		process.buildErr = build(ctx, process.dir)
	})
	if process.buildErr != nil {
		t.Fatalf("build the etcd member: %v", process.buildErr)
	}
}

func build(ctx context.Context, dir string) error {
	module, err := memberModule()
	if err != nil {
		return err
	}
	command := exec.CommandContext(ctx, "go", "build", "-C", module, "-trimpath", "-ldflags=-s -w", "-o", dir+string(filepath.Separator),
		"./cmd/member", "go.etcd.io/etcd/etcdutl/v3")
	// As the product is built, whose packages are compiled already.
	command.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("%w\n%s", err, out)
	}
	return nil
}

// memberModule finds test/etcd from the folder of whichever package is tested.
func memberModule() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		module := filepath.Join(dir, "test", "etcd")
		if _, err := os.Stat(filepath.Join(module, "go.mod")); err == nil {
			return module, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", errors.New("no test/etcd/go.mod in any folder above")
		}
		dir = parent
	}
}

// Etcdutl is etcd's own offline tool, built of the same version: the path of the program.
func Etcdutl(t testing.TB) string {
	t.Helper()
	built(t)
	return filepath.Join(process.dir, "etcdutl")
}

// patience bounds every wait: far above what anything takes on a busy machine.
const patience = 60 * time.Second

// until asks until the answer is yes or an error that is final; the error of a no that lasts is the last one.
func until(ctx context.Context, what string, ask func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		err := ask(ctx)
		if err == nil {
			return nil
		}
		var final finalError
		if errors.As(err, &final) {
			return fmt.Errorf("%s: %w", what, final.error)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s: it never did: %w", what, err)
		case <-tick.C:
		}
	}
}

// finalError is one that waiting does not cure.
type finalError struct{ error }

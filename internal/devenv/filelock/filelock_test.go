package filelock_test

import (
	"context"
	"errors"
	"path/filepath"
	"runtime"
	"sync"
	"testing"

	"github.com/dlockctl/dlockctl/internal/devenv/filelock"
)

// Many holders that remove the file as they leave never hold it together.
//
// Mutation: drop the stillNamed check in Try.
func TestRemovedLockStillExcludes(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "lock")
	const holders, rounds = 8, 200
	var wg sync.WaitGroup
	var inside sync.Mutex
	for range holders {
		wg.Go(func() {
			for range rounds {
				lock, ok, err := filelock.Try(path)
				if err != nil {
					t.Error(err)
					return
				}
				if !ok {
					continue
				}
				if !inside.TryLock() {
					t.Error("two hold the lock at once")
					return
				}
				runtime.Gosched() // give a second holder its chance
				inside.Unlock()
				if err := lock.Remove(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
}

func TestWaitEndsWithItsContextAndSaysWhy(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "lock")
	held, ok, err := filelock.Try(path)
	if err != nil || !ok {
		t.Fatalf("Try on a free lock = %v, %v", ok, err)
	}
	cause := errors.New("deadline of the command")
	ctx, cancel := context.WithCancelCause(t.Context())
	_, err = filelock.Wait(ctx, path, func() { cancel(cause) })
	if !errors.Is(err, cause) {
		t.Errorf("Wait on a held lock = %v, want %v", err, cause)
	}
	if err := held.Release(); err != nil {
		t.Fatal(err)
	}
	lock, err := filelock.Wait(t.Context(), path, func() { t.Error("Wait on a free lock waited") })
	if err != nil {
		t.Fatal(err)
	}
	if err := lock.Release(); err != nil {
		t.Error(err)
	}
}

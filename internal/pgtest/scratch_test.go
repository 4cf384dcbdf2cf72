package pgtest_test

import (
	"errors"
	"fmt"
	"os"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/dlockctl/dlockctl/internal/pgtest"
)

// Test processes that begin at the same moment, each of which removes the folders of the dead, leave each other's.
//
// Mutation: make the folder before its lock in newScratch, and fail where the lock is held.
func TestProcessesThatBeginTogether(t *testing.T) {
	t.Parallel()
	base, err := os.MkdirTemp("/tmp", "pgtest-*") // short enough
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(base); err != nil {
			t.Error(err)
		}
	})
	var group errgroup.Group
	for range 8 {
		group.Go(func() error {
			for range 100 {
				path, remove, err := pgtest.Folder(base)
				if err != nil {
					return err
				}
				if _, err := os.Stat(path); err != nil {
					return fmt.Errorf("a folder in use was removed: %w", errors.Join(err, remove()))
				}
				if err := remove(); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		t.Error(err)
	}
}

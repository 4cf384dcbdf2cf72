package leaktest_test

import (
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/dlockctl/dlockctl/internal/leaktest"
)

// A goroutine that does not end is found; one that ends later than goleak waits is
// waited for.
//
// Mutation: ask once in left.
func TestLateIsNotLeft(t *testing.T) {
	t.Parallel()
	before := goleak.IgnoreCurrent()
	end := make(chan struct{})
	go func() { <-end }()
	if err := leaktest.Left(0, before); err == nil {
		t.Error("a goroutine that waits was not found")
	}
	time.AfterFunc(2*time.Second, func() { close(end) })
	if err := leaktest.Left(time.Minute, before); err != nil {
		t.Error(err)
	}
}

// Package leaktest tells which goroutines a package's tests have left running.
//
//	func TestMain(m *testing.M) {
//		pgtest.Main(m)
//		leaktest.Exit()
//	}
package leaktest

import (
	"fmt"
	"os"
	"time"

	"go.uber.org/goleak"
)

// patience is how long goroutines have to end: those of a client or a transport end
// after its Close has returned, on a busy machine later than goleak waits.
const patience = 10 * time.Second

// Exit ends the process with a failure when a goroutine is left.
func Exit(options ...goleak.Option) {
	if err := left(patience, options...); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// left looks for so long, and at least once.
func left(patience time.Duration, options ...goleak.Option) error {
	for start := time.Now(); ; {
		err := goleak.Find(options...)
		if err == nil || time.Since(start) >= patience {
			return err
		}
	}
}

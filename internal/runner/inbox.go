package runner

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// inbox takes the wrapper's signals in, from the beginning of a job to its end:
// none is lost between the wait and the command.
type inbox struct{ signals chan os.Signal }

// newInbox listens. A signal that the wrapper was started to ignore, as by nohup,
// stays ignored, here and in the command.
func newInbox() *inbox {
	i := &inbox{make(chan os.Signal, 32)}
	for _, sig := range listened() {
		if !signal.Ignored(sig) {
			signal.Notify(i.signals, sig)
		}
	}
	return i
}

func (i *inbox) close() { signal.Stop(i.signals) }

// during ends the context at the first signal that ends a wait, and drops the
// others. What it returns stops the listening and says which signal it was, 0 for
// none.
func (i *inbox) during(ctx context.Context) (context.Context, func() syscall.Signal) {
	ctx, cancel := context.WithCancel(ctx)
	stop, done := make(chan struct{}), make(chan syscall.Signal, 1)
	go func() {
		for {
			select {
			case <-stop:
				done <- 0
				return
			case s := <-i.signals:
				if sig, ok := s.(syscall.Signal); ok && interrupts(sig) {
					cancel()
					done <- sig
					return
				}
			}
		}
	}()
	return ctx, func() syscall.Signal {
		close(stop)
		defer cancel()
		return <-done
	}
}

package runner

import (
	"context"
	"os"
	"syscall"
)

// Acts is a test's command.
type Acts struct {
	// Terminate, Kill, Forward and Resume are called for each of these.
	Terminate, Kill, Resume func()
	Forward                 func(syscall.Signal)
	// Trusted is told what the guard is told.
	Trusted func(Instant)
	// Others counts what is left beside the main process.
	Others func() int
	// Ends ends the main process.
	Ends chan ChildEnd
	// Fails is why it does not start.
	Fails error

	ended ChildEnd
	news  chan change
}

// RunActs runs a job with a test's command and signals.
func (j *Job) RunActs(ctx context.Context, open Open, acts *Acts, signals chan os.Signal) Result {
	r := &run{Job: j, open: open, inbox: &inbox{signals}, start: func(spec) (process, error) {
		if acts.Fails != nil {
			return nil, acts.Fails
		}
		acts.news = make(chan change, 1)
		go func() {
			acts.ended = <-acts.Ends
			acts.news <- change{kind: ended}
		}()
		return acts, nil
	}}
	return r.all(ctx)
}

func (a *Acts) id() int                     { return 1 }
func (a *Acts) changes() <-chan change      { return a.news }
func (a *Acts) forward(sig syscall.Signal)  { a.Forward(sig) }
func (a *Acts) terminate()                  { a.Terminate() }
func (a *Acts) kill()                       { a.Kill() }
func (a *Acts) suspend(syscall.Signal) bool { return false }
func (a *Acts) resume()                     { a.Resume() }
func (a *Acts) end() ChildEnd               { return a.ended }
func (a *Acts) close()                      {}

func (a *Acts) trusted(until Instant) {
	if a.Trusted != nil {
		a.Trusted(until)
	}
}

func (a *Acts) others() int {
	if a.Others == nil {
		return 0
	}
	return a.Others()
}

// Find looks a command up.
var Find = find

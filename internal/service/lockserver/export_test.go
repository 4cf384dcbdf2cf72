package lockserver

import (
	"log/slog"

	"github.com/dlockctl/dlockctl/internal/lockstore"
)

// MostChanges is how many changes are made at once.
const MostChanges = mostChanges

// Outward is an error of lockdb's as others may hear it.
func Outward(err error) error {
	return (&link{opts: Options{Log: slog.New(slog.DiscardHandler)}}).outward(err)
}

// RescueEvery is the shortest time between two rescues.
const RescueEvery = rescueEvery

// MostBehind is how many changes a watcher may be behind.
const MostBehind = mostBehind

// Watch is a hub that a test tells what stands.
type Watch struct{ *hub }

// NewWatch makes one.
func NewWatch() Watch {
	return Watch{newHub(&Service{log: slog.New(slog.DiscardHandler)})}
}

// Join begins a watch.
func (w Watch) Join(filter lockstore.Filter) (events <-chan lockstore.Change, leave func()) {
	return w.join(filter)
}

// Tell tells what stands now.
func (w Watch) Tell(entries ...lockstore.Entry) { w.tell(entries) }

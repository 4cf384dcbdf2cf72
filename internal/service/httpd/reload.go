package httpd

import (
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// reloadEvery is how often files are looked at, at most: a stat each.
const reloadEvery = time.Second

// watched is what was read from files, and is read again when one of them
// changes. Looking happens when it is asked for, so there is no watcher to stop,
// and a file system that tells nobody of changes works too.
type watched[T any] struct {
	files []string
	read  func() (T, error)
	// reloaded hears of each reading after the first.
	reloaded func(error)

	value  atomic.Pointer[T]
	looked atomic.Int64 // unix nanoseconds

	mu      sync.Mutex
	seen    []stamp
	problem error
}

// stamp tells one content of a file from another. A replaced file may have the
// same time, so size and identity count too.
type stamp struct {
	info os.FileInfo
}

func (s stamp) same(other stamp) bool {
	if s.info == nil || other.info == nil {
		return s.info == nil && other.info == nil
	}
	return s.info.ModTime().Equal(other.info.ModTime()) && s.info.Size() == other.info.Size() && os.SameFile(s.info, other.info)
}

// watch reads the files once, and returns the error of that.
func watch[T any](files []string, read func() (T, error), reloaded func(error)) (*watched[T], error) {
	w := &watched[T]{files: files, read: read, reloaded: reloaded, seen: stamps(files)}
	value, err := read()
	if err != nil {
		return nil, err
	}
	w.value.Store(&value)
	w.looked.Store(time.Now().UnixNano())
	return w, nil
}

func stamps(files []string) []stamp {
	all := make([]stamp, len(files))
	for i, file := range files {
		if info, err := os.Stat(file); err == nil {
			all[i].info = info
		}
	}
	return all
}

// get returns what is in force. Files that cannot be read, half of a pair for
// instance, leave what was in force, and are tried again.
func (w *watched[T]) get() T {
	now := time.Now()
	if now.UnixNano()-w.looked.Load() >= int64(reloadEvery) && w.mu.TryLock() {
		w.look()
		w.looked.Store(now.UnixNano())
		w.mu.Unlock()
	}
	return *w.value.Load()
}

// look reads the files again where one has changed, or the last reading failed.
func (w *watched[T]) look() {
	now := stamps(w.files)
	changed := !slices.EqualFunc(now, w.seen, stamp.same)
	if !changed && w.problem == nil {
		return
	}
	value, err := w.read()
	w.seen, w.problem = now, err
	if err == nil {
		w.value.Store(&value)
	}
	if changed || err == nil {
		w.reloaded(err)
	}
}

// failed returns why the files as they are now are not in force, or nil.
func (w *watched[T]) failed() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.problem
}

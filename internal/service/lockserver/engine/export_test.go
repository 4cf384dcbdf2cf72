package engine

// LookEvery is how often a key is looked at for its waiters.
const LookEvery = lookEvery

// Soonest is how soon a key is looked at again whose lease is all but over.
const Soonest = soonest

// Waiting counts the calls of a key that wait for it.
func (e *Engine) Waiting(name string) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	k := e.keys[name]
	if k == nil {
		return 0
	}
	n := len(k.waiters)
	if k.head != nil {
		n++
	}
	return n
}

// Queued counts the calls that wait for a lane.
func (e *Engine) Queued() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.queued
}

// Remembered counts the keys that the engine knows of.
func (e *Engine) Remembered() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.keys)
}

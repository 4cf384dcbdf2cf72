package engine

// Waiters counts, by key, the calls that wait for a held key here: the one that tries
// next and those behind it.
func (e *Engine) Waiters() map[string]int {
	e.mu.Lock()
	defer e.mu.Unlock()
	counts := map[string]int{}
	for name, k := range e.keys {
		n := len(k.waiters)
		if k.head != nil && k.head.waits {
			n++
		}
		if n > 0 {
			counts[name] = n
		}
	}
	return counts
}

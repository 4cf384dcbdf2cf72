package counters

import (
	"regexp"
	"strconv"
	"strings"

	"github.com/dlockctl/dlockctl/internal/lockstore"
)

const fencePrefix = "fence:"

// fenceKey is the counter's key of a lock's.
func fenceKey(key string) string { return fencePrefix + key }

// keyOf is the lock's key of a counter's; a key that SyncGuard did not make is all of it.
func keyOf(fenceKey string) string { return strings.TrimPrefix(fenceKey, fencePrefix) }

// row is a key as the database has it.
type row struct {
	fenceKey  string
	counter   *int64
	lockFence *string
	held      bool
}

// audited is what the audit knows of a key.
type audited struct {
	revoked int64
	// raised is where the last raise went, for what was observed then, and on which
	// instance; 0 for none.
	raised, observed int64
	on               lockstore.Identity
}

// The sources of evidence.
const (
	sourceCounter = "counter"
	sourceLock    = "lock"
	sourceRevoked = "revocation"
	sourceRaise   = "fast-forward"
	// SourceOperator is the operator's word.
	SourceOperator = "operator"
)

// fifteen is a fence as the library writes it.
var fifteen = regexp.MustCompile(`^[0-9]{15}$`)

// assess says what is to be done about one key.
func assess(r row, known audited, here lockstore.Identity, opts Options) Key {
	k := Key{Key: keyOf(r.fenceKey), FenceKey: r.fenceKey, Held: r.held}
	highest, in := int64(0), ""
	see := func(fence int64, source string) {
		if fence > highest {
			highest, in = fence, source
		}
	}
	readable := true
	if r.lockFence != nil {
		k.LockFence = *r.lockFence
		if readable = fifteen.MatchString(k.LockFence); readable {
			fence, _ := strconv.ParseInt(k.LockFence, 10, 64) // 15 digits fit
			see(fence, sourceLock)
		}
	}
	see(known.revoked, sourceRevoked)
	if told, ok := opts.Observed[r.fenceKey]; ok {
		see(told.Fence, told.Source)
		readable = true // the operator has said what the row does not
	}
	if r.counter != nil {
		k.Counter, k.HasCounter = *r.counter, true
	}
	if k.Counter < known.raised {
		see(known.raised, sourceRaise) // somebody has set it back below
	}
	others := highest
	if k.HasCounter {
		see(k.Counter, sourceCounter)
	}
	k.Observed, k.ObservedIn, k.Behind = highest, in, k.Counter < others || !k.HasCounter
	k.Target = k.Counter
	switch {
	case others > limit:
		k.State = Forged
	case k.Counter >= limit:
		k.State = Exhausted // it draws nothing that anybody could have
	case !readable:
		k.State = Unreadable
	case known.raised > 0 && known.on == here && k.Counter == known.raised && others <= known.observed && !opts.Again:
		k.State = Safe
	case highest > limit-opts.Margin:
		k.State = NoRoom
	default:
		k.State, k.Target = Raise, highest+opts.Margin
	}
	return k
}

package counters

import (
	"regexp"
	"strconv"

	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/lockstore/syncguard"
)

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

// known tells that the audit says something of a fence. A bulk revoke records 0 for a
// row that had none.
func (a audited) known() bool { return a.revoked > 0 || a.raised > 0 }

// fifteen is a fence as the library writes it.
var fifteen = regexp.MustCompile(`^[0-9]{15}$`)

// rowFence reads a lock's row. The first fence that is ever issued is 1.
func rowFence(text string) (fence int64, readable bool) {
	if !fifteen.MatchString(text) {
		return 0, false
	}
	fence, _ = strconv.ParseInt(text, 10, 64) // 15 digits fit
	return fence, fence > 0
}

// assess says what is to be done about one key.
func assess(r row, known audited, here lockstore.Identity, opts Options) Key {
	key, ours := syncguard.LockOfCounter(r.fenceKey)
	k := Key{Key: key, FenceKey: r.fenceKey, Held: r.held && ours}
	readable, rowHas := true, int64(0)
	if r.lockFence != nil {
		k.LockFence = *r.lockFence
		rowHas, readable = rowFence(k.LockFence)
	}
	if r.counter != nil {
		k.Counter, k.HasCounter = *r.counter, true
	}
	k.Target = k.Counter
	if !ours {
		k.State = Foreign
		return k
	}
	highest, in := int64(0), ""
	see := func(fence int64, source string) {
		if fence > highest {
			highest, in = fence, source
		}
	}
	told := opts.Observed[r.fenceKey]
	for _, kept := range []struct {
		fence  int64
		source string
	}{{rowHas, sourceLock}, {known.revoked, sourceRevoked}} {
		// A fence that was never issued is no evidence, once the operator has said which was.
		if kept.fence <= limit || !told.Settled {
			see(kept.fence, kept.source)
		}
	}
	see(told.Fence, told.Source)
	if k.Counter < known.raised {
		see(known.raised, sourceRaise) // somebody has set it back below
	}
	others := highest
	if k.HasCounter {
		see(k.Counter, sourceCounter)
	}
	k.Observed, k.ObservedIn, k.Behind = highest, in, k.Counter < others || !k.HasCounter
	switch {
	case others > limit:
		k.State = Forged
	case k.Counter >= limit:
		k.State = Exhausted // it draws nothing that anybody could have
	case !readable && !told.Settled:
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

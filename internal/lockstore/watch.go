package lockstore

import (
	"context"
	"fmt"
	"time"
)

// Change is one thing that happened to a lock between two looks.
type Change struct {
	// Kind is held (new, or a newer token), renewed, lapsed or gone.
	Kind ChangeKind `json:"change"`
	// Entry is what stands now; for gone, what stood before.
	Entry
}

// ChangeKind says what changed.
type ChangeKind string

// The kinds of change. Several changes between two looks show as the last one;
// tokens tell how often a key was granted meanwhile.
const (
	ChangeHeld    ChangeKind = "held"
	ChangeRenewed ChangeKind = "renewed"
	ChangeLapsed  ChangeKind = "lapsed"
	ChangeGone    ChangeKind = "gone"
)

// Watch looks at the locks every interval and tells each change, what stands at
// the beginning first, until ctx ends or tell returns an error. It reads only:
// nothing is missed by a lost notification, and nothing is taken from those who
// acquire.
func Watch(ctx context.Context, store Store, filter Filter, interval time.Duration, tell func(Change) error) error {
	if interval <= 0 || filter.Limit != 0 {
		return fmt.Errorf("%w: a watch needs an interval above zero, not %s, and sees all that matches: no limit", ErrInvalid, interval)
	}
	tick := time.NewTicker(interval)
	defer tick.Stop()
	before := map[string]Entry{}
	for {
		entries, err := store.List(ctx, filter)
		if err != nil {
			return err
		}
		now := make(map[string]Entry, len(entries))
		for _, entry := range entries {
			now[entry.Key] = entry
			if kind := ChangeOf(before, entry); kind != "" {
				if err := tell(Change{kind, entry}); err != nil {
					return err
				}
			}
		}
		for key, entry := range before {
			if _, still := now[key]; !still {
				if err := tell(Change{ChangeGone, entry}); err != nil {
					return err
				}
			}
		}
		before = now
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

// ChangeOf says what happened to an entry since a look that saw what stands in
// before, "" for nothing. [Watch] is made of it, and so is a watch for many.
func ChangeOf(before map[string]Entry, entry Entry) ChangeKind {
	last, known := before[entry.Key]
	switch {
	case !known && entry.Expired, known && entry.Expired && !last.Expired:
		return ChangeLapsed
	case !known, entry.Token != last.Token:
		return ChangeHeld
	case entry.ExpiresAt != last.ExpiresAt:
		return ChangeRenewed
	}
	return ""
}

package reconcile

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"

	"github.com/dlockctl/dlockctl/internal/flyway"
)

const (
	// historyMovedClass is D09: the schema changed while it was read.
	historyMovedClass = "D09"
	// mostSuspects is how many are read again by name; more of them cost less with a
	// second scan.
	mostSuspects = 50_000
)

// confirm looks again, in a fresh snapshot of paydb: what two databases seemed to
// contradict each other in may have been between their two snapshots (K-8.3). Only
// what is found again, under the same id, is a finding.
func (r *run) confirm(ctx context.Context) {
	if ctx.Err() != nil {
		return
	}
	if err := r.pay.renew(ctx, r.until); err != nil {
		r.book.miss(r.broken(ctx, "second look", err))
		return
	}
	var looks sync.WaitGroup
	for _, f := range families(r.o) {
		if found := r.book.foundBy(f); len(found) > 0 {
			looks.Go(func() { r.book.confirm(f, r.again(ctx, f, found)) })
		}
	}
	looks.Wait()
	r.compareHistory(ctx, r.pay)
}

// lastLook looks at lockdb for the last time: at its schema, and at the sequence, which is
// read last of all.
func (r *run) lastLook(ctx context.Context) {
	if r.lock == nil || ctx.Err() != nil {
		return
	}
	if err := r.lock.renew(ctx, r.until); err != nil {
		r.book.miss(r.broken(ctx, "last look", err))
		return
	}
	r.compareHistory(ctx, r.lock)
	r.readLast(ctx)
}

// again returns those findings of a family that it finds once more, and all of them
// unconfirmed where it cannot be read.
func (r *run) again(ctx context.Context, f family, found []Finding) []Finding {
	if f.reread == never {
		return confirmed(found)
	}
	rd := r.reading()
	var sure []Finding
	if f.reread == byOwn && narrow(&rd, f.reread, found) {
		rd.own = true
		still, ok := r.look(ctx, f, rd)
		if !ok {
			return found
		}
		sure, found = sameWords(found, still)
		rd = r.reading()
	}
	if len(found) > 0 {
		narrow(&rd, f.reread, found)
		still, ok := r.look(ctx, f, rd)
		if !ok {
			return append(confirmed(sure), found...)
		}
		found = slices.DeleteFunc(found, func(finding Finding) bool { _, there := still[finding.ID]; return !there })
	}
	return confirmed(append(sure, found...))
}

// look reads a family a second time, and returns what it says of each finding.
func (r *run) look(ctx context.Context, f family, rd reading) (map[string]string, bool) {
	still := map[string]string{}
	err := r.lend(ctx, f, rd, &sink{put: func(row Row) error {
		if !row.Pending {
			still[findingID(row.Class, row.AccountID, row.PayoutID, row.Subject)] = row.What
		}
		return nil
	}})
	if err != nil {
		missing := r.broken(ctx, f.name, err)
		missing.reason = "a second time: " + missing.reason
		r.book.miss(missing)
	}
	return still, err == nil
}

// sameWords parts the findings that are found again to the letter from the others. Where
// a look left legs out that decide, its words have other numbers than the first one's.
func sameWords(found []Finding, still map[string]string) (same, others []Finding) {
	for _, finding := range found {
		if what, there := still[finding.ID]; there && what == finding.What {
			same = append(same, finding)
		} else {
			others = append(others, finding)
		}
	}
	return same, others
}

func confirmed(found []Finding) []Finding {
	for i := range found {
		found[i].Unconfirmed = false
	}
	return found
}

// narrow leaves the accounts, the payouts or the references of the suspects, where
// they are known and few enough.
func narrow(rd *reading, by rereading, found []Finding) bool {
	if len(found) > mostSuspects {
		return false
	}
	ids := map[string]bool{}
	for _, finding := range found {
		switch by {
		case byAccount, byOwn:
			ids[finding.AccountID] = true
		case byPayout:
			ids[finding.PayoutID] = true
		case byReference:
			ids[finding.Subject] = true
		case whole, never:
			return false
		}
	}
	if ids[""] {
		return false // a row without the id cannot be found by it
	}
	suspects := slices.Sorted(maps.Keys(ids))
	switch by {
	case byAccount, byOwn:
		rd.accounts = suspects
	case byPayout:
		rd.payouts = suspects
	case byReference:
		rd.references = suspects
	case whole, never:
	}
	return true
}

// compareHistory finds a migration that ran during the run (D09). A history that cannot
// be read is no other history: nothing was found out then.
func (r *run) compareHistory(ctx context.Context, s *snapshot) {
	now, err := s.applied(ctx)
	if ctx.Err() != nil {
		return
	}
	if err = cmp.Or(s.unread, err); err != nil {
		r.book.missClasses(r.broken(ctx, "history of "+s.database, err), historyMovedClass)
		return
	}
	same := slices.EqualFunc(s.history, now, func(a, b flyway.Row) bool {
		return a.InstalledRank == b.InstalledRank && a.Script == b.Script && a.Success == b.Success && a.Type == b.Type &&
			(a.Checksum == nil) == (b.Checksum == nil) && (a.Checksum == nil || *a.Checksum == *b.Checksum)
	})
	if same {
		return
	}
	r.book.confirmed(Row{
		Class: historyMovedClass, Subject: s.database,
		What: "the schema history of " + s.database + " changed while it was read: run again when the migration is over",
	})
}

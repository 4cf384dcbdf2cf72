package reconcile

import (
	"context"
	"maps"
	"slices"

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
	for _, f := range families(r.o) {
		if len(r.book.found[f.name]) > 0 {
			r.again(ctx, f)
		}
	}
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

// again keeps those findings of a family that it finds once more.
func (r *run) again(ctx context.Context, f family) {
	found := r.book.found[f.name]
	if f.reread == never {
		confirmAll(found)
		return
	}
	still := map[string]bool{}
	rd := r.reading()
	rd.again = true
	narrow(&rd, f.reread, found)
	err := r.lend(ctx, f, rd, &sink{put: func(row Row) error {
		if !row.Pending {
			still[findingID(row.Class, row.AccountID, row.PayoutID, row.Subject)] = true
		}
		return nil
	}})
	if err != nil {
		missing := r.broken(ctx, f.name, err)
		missing.reason = "a second time: " + missing.reason
		r.book.miss(missing)
		return
	}
	found = slices.DeleteFunc(found, func(finding Finding) bool { return !still[finding.ID] })
	confirmAll(found)
	r.book.found[f.name] = found
}

func confirmAll(found []Finding) {
	for i := range found {
		found[i].Unconfirmed = false
	}
}

// narrow leaves the accounts, the payouts or the references of the suspects.
func narrow(rd *reading, by rereading, found []Finding) {
	if len(found) > mostSuspects {
		return
	}
	ids := map[string]bool{}
	for _, finding := range found {
		switch by {
		case byAccount:
			ids[finding.AccountID] = true
		case byPayout:
			ids[finding.PayoutID] = true
		case byReference:
			ids[finding.Subject] = true
		case whole, never:
			return
		}
	}
	if ids[""] {
		return // a row without the id cannot be found by it
	}
	suspects := slices.Sorted(maps.Keys(ids))
	switch by {
	case byAccount:
		rd.accounts = suspects
	case byPayout:
		rd.payouts = suspects
	case byReference:
		rd.references = suspects
	case whole, never:
	}
}

// compareHistory finds a migration that ran during the run (D09).
func (r *run) compareHistory(ctx context.Context, s *snapshot) {
	now := s.applied(ctx)
	same := slices.EqualFunc(s.history, now, func(a, b flyway.Row) bool {
		return a.InstalledRank == b.InstalledRank && a.Script == b.Script && a.Success == b.Success && a.Type == b.Type &&
			(a.Checksum == nil) == (b.Checksum == nil) && (a.Checksum == nil || *a.Checksum == *b.Checksum)
	})
	if same || ctx.Err() != nil {
		return
	}
	r.book.confirmed(Row{
		Class: historyMovedClass, Subject: s.database,
		What: "the schema history of " + s.database + " changed while it was read: run again when the migration is over",
	})
}

package reconcile

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// narrow finds what a run since a seal has to look at, payout by payout. Accounts,
// tokens and the schema are always looked at as a whole: the drift of any account is
// found.
func (r *run) narrow(ctx context.Context) {
	p := r.o.Previous
	if p == nil || !p.since {
		return
	}
	when := p.At.UTC().Format(time.DateTime)
	if !p.comparable(r.pay.facts) {
		r.book.note(fmt.Sprintf("paydb is another database, instance or timeline than that which was sealed at %s, or a standby: everything was read", when))
		return
	}
	err := r.pay.with(ctx, func(tx pgx.Tx) (err error) {
		r.touched, err = p.touched(ctx, tx)
		return err
	})
	switch {
	case err != nil && ctx.Err() == nil:
		r.book.note(fmt.Sprintf("everything was read: %v", err))
	case r.touched == nil:
		r.book.note(fmt.Sprintf("more than %d payouts were written since the seal of %s or are open: everything was read", mostTouched, when))
	default:
		r.book.note(fmt.Sprintf("since the seal of %s: of what is decided payout by payout, %d payouts were looked at, which are open or were written since; "+
			"accounts, tokens and the schema as a whole. Of the sealed legs, part %d of %d was digested again: a change without a trace is found within %d runs that each go on from the seal of the one before",
			when, len(r.touched), p.Runs%SealBuckets+1, SealBuckets, SealBuckets))
	}
}

// sealUp writes the seal that was asked for, when there is something to seal: a run
// that was CLEAN, or any whole one for a baseline. What a later run passes over must have
// been looked at, so that no part is sealed.
func (r *run) sealUp(ctx context.Context, report *Report) {
	if r.o.Seal == nil {
		return
	}
	if len(r.o.Scope.Accounts)+len(r.o.Scope.Currencies)+len(r.o.Scope.Rules) > 0 {
		report.Notes = append(report.Notes, "nothing was sealed: the run looked at a part only")
		return
	}
	if ctx.Err() != nil || report.Outcome != Clean && !r.o.Seal.Baseline {
		report.Notes = append(report.Notes, fmt.Sprintf("nothing was sealed: the run is %s", report.Outcome))
		return
	}
	err := r.withBoth(ctx, func(rd reading) error { return r.seal(ctx, rd, report.Outcome) })
	if err != nil {
		report.Notes = append(report.Notes, fmt.Sprintf("nothing was sealed: %v", err))
		return
	}
	report.Sealed = true
}

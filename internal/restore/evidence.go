package restore

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/lockstore/mark"
	"github.com/dlockctl/dlockctl/internal/paystore"
	"github.com/dlockctl/dlockctl/internal/paystore/floor"
)

// The sources that are no table of paydb.
const (
	sourceSequence = "fencing_token_seq"
	sourceMark     = "outside_mark"
	sourceOld      = "old_primary"
	sourceOperator = "operator"

	groupPay  = "paydb"
	groupLock = "lockdb"
)

func lockSources() []string {
	return []string{"lock_entry.fencing_token", "lock_grant.fencing_token", "lock_revocation.prev_token", "operator_log.token", sourceSequence}
}

// Sources are the names of all sources (K-7.2), in the order they are read: paydb
// and the outside first, the sequence last, for tokens only grow.
func Sources() []string {
	return slices.Concat(floor.Sources(), []string{sourceOperator, sourceOld, sourceMark}, lockSources())
}

// writesItself are the sources where a fast-forward leaves its own target, which
// is nobody's grant.
func writesItself(source string) bool {
	return source == sourceSequence || source == sourceMark || source == "fence_floor.account" || source == "fence_floor.rail"
}

// outside reads every source but lockdb's, and shown, the token that the outside mark
// saw shown to somebody, 0 for none. lockdb's are read after it, for tokens only grow.
func (s Stores) outside(ctx context.Context, opts Options) (found []lockstore.Evidence, shown lockstore.Token, err error) {
	pay, err := s.payEvidence(ctx, opts.limit())
	if err != nil {
		return nil, 0, err
	}
	given := lockstore.Evidence{Source: sourceOperator, Status: lockstore.EvidenceNone}
	if opts.Observed != 0 {
		given = lockstore.Evidence{Source: sourceOperator, Status: lockstore.EvidenceRead, Value: opts.Observed, Row: "as the operator says"}
	}
	marked, shown, err := s.markEvidence(ctx, opts.limit())
	if err != nil {
		return nil, 0, err
	}
	return append(pay, given, s.oldEvidence(opts.limit()), marked), shown, nil
}

func (s Stores) payEvidence(ctx context.Context, limit lockstore.Token) ([]lockstore.Evidence, error) {
	var readings []floor.Reading
	if s.Pay != nil {
		var err error
		if readings, err = s.Pay.Evidence(ctx, paystore.Token(limit)); err != nil {
			// paydb's failures are not lockdb's: its sources are unavailable.
			readings, s.PayProblem = nil, err
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
	}
	if readings == nil {
		return s.payUnread(), nil
	}
	found := make([]lockstore.Evidence, 0, len(readings))
	for _, r := range readings {
		e := lockstore.Evidence{Source: r.Source, Status: lockstore.EvidenceRead, Value: lockstore.Token(r.Value), Row: r.Row, At: lockstore.Time{Time: r.At}}
		switch {
		case r.Unavailable != "":
			e = lockstore.Evidence{Source: r.Source, Status: lockstore.EvidenceUnavailable, Reason: r.Unavailable}
		case r.Value == 0:
			e = lockstore.Evidence{Source: r.Source, Status: lockstore.EvidenceEmpty}
		}
		found = append(found, above(e, lockstore.Token(r.Above), limit))
	}
	return found, nil
}

// payUnread is every source of a paydb that was not asked.
func (s Stores) payUnread() []lockstore.Evidence {
	var found []lockstore.Evidence
	for _, source := range floor.Sources() {
		e := lockstore.Evidence{Source: source, Status: lockstore.EvidenceUnavailable, Reason: "no paydb is configured"}
		switch {
		case s.NoPayments && s.Pay == nil:
			e = lockstore.Evidence{Source: source, Status: lockstore.EvidenceNone}
		case s.PayProblem != nil:
			e.Reason = s.PayProblem.Error()
		}
		found = append(found, e)
	}
	return found
}

func (s Stores) oldEvidence(limit lockstore.Token) lockstore.Evidence {
	switch {
	case s.Old != nil:
		e := lockstore.Evidence{Source: sourceOld, Status: lockstore.EvidenceRead, Value: s.Old.Last, Row: sourceSequence, At: s.Old.At}
		if s.Old.Last > limit {
			e.Value = limit
		}
		return above(e, s.Old.Last, limit)
	case s.OldProblem != nil:
		return lockstore.Evidence{Source: sourceOld, Status: lockstore.EvidenceUnavailable, Reason: s.OldProblem.Error()}
	default:
		return lockstore.Evidence{Source: sourceOld, Status: lockstore.EvidenceNone}
	}
}

// markEvidence reads the mark. One that lockdb says is kept, and nobody says
// where, is missing; a deployment that never kept one has none. Its ceiling is ahead of
// every grant anyhow; shown is not.
func (s Stores) markEvidence(ctx context.Context, limit lockstore.Token) (e lockstore.Evidence, shown lockstore.Token, err error) {
	deployment, err := s.Lock.Deployment(ctx)
	if err != nil {
		return lockstore.Evidence{}, 0, err
	}
	if s.Mark == nil && !deployment.Kept {
		return lockstore.Evidence{Source: sourceMark, Status: lockstore.EvidenceNone}, 0, nil
	}
	if s.Mark == nil {
		return lockstore.Evidence{Source: sourceMark, Status: lockstore.EvidenceUnavailable, Reason: "lockdb says that one is kept, and its folder is not configured"}, 0, nil
	}
	state, err := s.Mark.Read()
	switch {
	case errors.Is(err, mark.ErrMissing) && !deployment.Kept:
		return lockstore.Evidence{Source: sourceMark, Status: lockstore.EvidenceEmpty, Row: s.Mark.Path(), Note: "none was made yet"}, 0, nil
	case err != nil:
		return lockstore.Evidence{Source: sourceMark, Status: lockstore.EvidenceUnavailable, Reason: err.Error()}, 0, nil //nolint:nilerr // a mark that cannot be read is a source that is missing, and says why
	}
	e = lockstore.Evidence{Source: sourceMark, Status: lockstore.EvidenceRead, Value: min(state.Ceiling, limit), Row: state.Path, At: lockstore.Time{Time: state.WrittenAt}}
	return above(e, state.Ceiling, limit), state.Issued, nil
}

func above(e lockstore.Evidence, highest, limit lockstore.Token) lockstore.Evidence {
	if highest > limit {
		e.Above = highest.String()
	}
	return e
}

// assessment is what the evidence comes to.
type assessment struct {
	evidence []lockstore.Evidence
	// observed is the highest token that may have been issued, from the source
	// named; reached is the highest target that this database recorded.
	observed lockstore.Token
	source   string
	reached  lockstore.Token
	// missing are the sources that could not be read and were not accepted,
	// accepted those that were; forged says what stands above the limit.
	missing, accepted, forged []string
}

// assess marks what is no evidence and takes the maximum of the rest.
func assess(evidence []lockstore.Evidence, targets []lockstore.Token, opts Options) assessment {
	a := assessment{evidence: slices.Clone(evidence), missing: []string{}, accepted: []string{}}
	if opts.Again {
		targets = nil // whatever was granted above them is forgotten with it
	}
	if len(targets) > 0 {
		a.reached = slices.Max(targets)
	}
	for i := range a.evidence {
		e := &a.evidence[i]
		e.Own = e.Value > 0 && writesItself(e.Source) && slices.Contains(targets, e.Value)
		e.ValueStr = e.Value.String()
		switch {
		case e.Status == lockstore.EvidenceUnavailable && accepts(opts.AcceptMissing, e.Source):
			e.Status = lockstore.EvidenceAccepted
			a.accepted = append(a.accepted, e.Source)
		case e.Status == lockstore.EvidenceUnavailable:
			a.missing = append(a.missing, e.Source)
		case e.Above != "" && (opts.NoTokenAbove == 0 || stuck(e.Source)):
			a.forged = append(a.forged, fmt.Sprintf("%s names token %s, above %s", e.Source, e.Above, opts.limit()))
		}
		if e.Above != "" && opts.NoTokenAbove != 0 && !stuck(e.Source) {
			e.Note = fmt.Sprintf("token %s is above %s and was left out", e.Above, opts.NoTokenAbove)
		}
		if !e.Own && e.Value > a.observed {
			a.observed, a.source = e.Value, e.Source
		}
	}
	return a
}

// stuck are the sources that no word of an operator's takes back: below a floor
// nothing passes, and no sequence is set back.
func stuck(source string) bool { return writesItself(source) }

func accepts(accepted []string, source string) bool {
	return slices.Contains(accepted, source) ||
		slices.Contains(accepted, groupPay) && slices.Contains(floor.Sources(), source) ||
		slices.Contains(accepted, groupLock) && slices.Contains(lockSources(), source)
}

// target is where the source has to stand, so that no token in anybody's memory is
// issued again: a margin above what was observed, and never below what this
// database reached before.
func (a assessment) target(margin lockstore.Token) lockstore.Token {
	return max(a.observed+margin, a.reached)
}

package reconcile

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// Explanation tells one finding in order of time over both databases (K-8.2).
type Explanation struct {
	Finding Finding `json:"finding"`
	// Rule says what must hold.
	Rule string `json:"rule"`
	// Pending tells that work in flight explains it, until the rule's grace is over.
	Pending bool `json:"pending"`
	// Timeline is that of the payer's account, or of the payouts where there is none.
	Timeline Timeline `json:"timeline"`
	// Unknown says what could not be told, and why.
	Unknown []string `json:"unknown"`
	// Pay and Lock are the snapshots that it was read from.
	Pay  Snapshot  `json:"paydb"`
	Lock *Snapshot `json:"lockdb,omitempty"`
}

// NoFindingError is returned by [Explain] for a finding that its rule does not find,
// or not any more.
type NoFindingError struct {
	ID string
	// Unchecked are the reasons why the rule could not be checked in full: the
	// finding may be there then.
	Unchecked []string
}

func (e *NoFindingError) Error() string {
	if len(e.Unchecked) > 0 {
		return fmt.Sprintf("finding %s was not found, but its rule was not checked in full: %s", e.ID, strings.Join(e.Unchecked, "; "))
	}
	return fmt.Sprintf("finding %s is not there, or not any more", e.ID)
}

// Explain finds a finding again, by its rule alone and within o.Scope, and tells its
// timeline. Its error is a [*ScopeError] for what is no finding's id, a
// [*NoFindingError], or that nothing could be read, as [Run] says it.
func Explain(ctx context.Context, o Options, findingID string) (Explanation, error) {
	class, err := classOfID(findingID)
	if err != nil {
		return Explanation{}, err
	}
	o.Scope.Rules = []string{class.ID}
	if o, err = o.complete(); err != nil {
		return Explanation{}, err
	}
	r := newRun(o)
	ctx, cancel := context.WithDeadlineCause(ctx, r.until, errTimeLimit)
	defer cancel()
	defer r.close(ctx)
	if err := r.begin(ctx); err != nil {
		return Explanation{}, err
	}
	r.scan(ctx)
	r.confirm(ctx)
	if ctx.Err() != nil {
		return Explanation{}, fmt.Errorf("look for finding %s: %w", findingID, context.Cause(ctx))
	}
	r.book.all()
	e, err := r.pick(class, findingID)
	if err != nil {
		return e, err
	}
	return e, r.withBoth(ctx, func(rd reading) error { return e.tell(ctx, rd) })
}

// classOfID reads the class in a finding's id.
func classOfID(id string) (Class, error) {
	name, digits, _ := strings.Cut(id, "-")
	all := Catalogue()
	i := slices.IndexFunc(all, func(c Class) bool { return c.ID == name })
	if i < 0 || len(digits) != idDigits || strings.Trim(digits, "0123456789abcdef") != "" {
		return Class{}, &ScopeError{Field: "finding", Value: id, Want: "a finding is named by its id as reconcile prints it, such as A01-0123456789abcdef"}
	}
	return all[i], nil
}

// pick takes the finding out of the run's report.
func (r *run) pick(class Class, id string) (Explanation, error) {
	report := r.report()
	e := Explanation{Rule: class.Rule, Unknown: []string{}, Pay: report.Pay, Lock: report.Lock}
	for pending, list := range map[bool][]Finding{false: report.Findings, true: report.Pending} {
		if i := slices.IndexFunc(list, func(f Finding) bool { return f.ID == id }); i >= 0 {
			e.Finding, e.Pending = list[i], pending
		}
	}
	for _, missing := range report.Missing {
		if missing.Class == "" || missing.Class == class.ID {
			e.Unknown = append(e.Unknown, "whether all was found: "+missing.Reason)
		}
	}
	if e.Finding.ID != "" {
		return e, nil
	}
	gone := &NoFindingError{ID: id}
	for _, missing := range report.Missing {
		gone.Unchecked = append(gone.Unchecked, missing.Reason)
	}
	return e, gone
}

// tell attributes the finding and tells its timeline.
func (e *Explanation) tell(ctx context.Context, rd reading) error {
	found := []Finding{e.Finding}
	if !e.Pending && e.Finding.Attribution.Confidence == "" {
		if err := attribute(ctx, rd, found); err != nil {
			return err
		}
		e.Finding = found[0]
	}
	at, err := payers(ctx, rd.pay, found)
	if err != nil {
		return err
	}
	s := subject{findings: found}
	if len(at) > 0 {
		s.account, s.currency = at[0].account, at[0].currency
	}
	fenced, err := readFenced(ctx, rd.pay, []subject{s})
	if err != nil {
		return err
	}
	told, err := s.story(ctx, rd.pay)
	if err != nil {
		return err
	}
	if e.Timeline, err = told.timeline(ctx, rd.lock, fenced); err != nil {
		return err
	}
	e.Unknown = append(e.Unknown, s.gaps(rd)...)
	return nil
}

// gaps say what the timeline cannot tell.
func (s subject) gaps(rd reading) []string {
	var gaps []string
	if s.account == "" && s.findings[0].AccountID != "" {
		gaps = append(gaps, fmt.Sprintf("what else happened on account %s: it takes part in every payout of its currency, or it does not exist", s.findings[0].AccountID))
	}
	if rd.lock == nil {
		return append(gaps, "who held the locks, and how the leases ended: lockdb was not read")
	}
	return append(gaps, "which grants of the lock wrote nothing in paydb: the journal is searched by token")
}

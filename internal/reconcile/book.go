package reconcile

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

// CoverageClass is D08: what kept a run from checking everything. What it finds is in
// Missing too, and told there.
const CoverageClass = "D08"

// book holds what a run has found and what it has not looked at. Its memory grows
// with the findings, never with the rows.
type book struct {
	mu       sync.Mutex
	classes  map[string]Class
	scope    map[string]bool // the classes asked for
	previous *Previous

	coverage map[string]*Coverage
	counts   map[string]int64 // per population
	counted  map[string]int64 // per class, where its family knows better
	missing  []Missing
	notes    []string
	// found and pending are per family, in the order in which they were found; seen
	// is every finding's id.
	found, pending map[string][]Finding
	seen           map[string]bool
	findings       []Finding // once they are confirmed
	causes         []Finding // of D08
	// denied are causes that a right is behind: told where the rights do not tell it
	// better.
	denied     []Finding
	untrusted  bool   // the rights have told
	lockReason string // why lockdb is not read
	lastReason string // why the last token is not known
}

func newBook(classes map[string]Class, o Options) *book {
	b := &book{
		classes: classes, previous: o.Previous, scope: map[string]bool{},
		coverage: map[string]*Coverage{}, counts: map[string]int64{}, counted: map[string]int64{},
		found: map[string][]Finding{}, pending: map[string][]Finding{}, seen: map[string]bool{},
	}
	for id, c := range classes {
		if len(o.Scope.Rules) > 0 && !slices.Contains(o.Scope.Rules, id) {
			continue
		}
		b.scope[id] = true
		b.coverage[id] = &Coverage{Class: id, Name: c.Name, Severity: c.Severity, Over: c.Over}
	}
	return b
}

// wants tells that a class of the family is in scope.
func (b *book) wants(f family) bool {
	return slices.ContainsFunc(f.classes, func(id string) bool { return b.scope[id] })
}

// add enters a suspicion; those of classes out of scope are not.
func (b *book) add(f family, r Row) error {
	if !slices.Contains(f.classes, r.Class) {
		return fmt.Errorf("%s found a %q, which is none of its classes", f.name, r.Class)
	}
	if _, known := b.classes[r.Class]; !known {
		return fmt.Errorf("%s found a %q, which the catalogue does not have", f.name, r.Class)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	finding := b.finding(r)
	// The earlier run knows what the account began with (K-4.8).
	anchored := r.Class == unanchoredClass && b.previous != nil && b.previous.anchors(r.AccountID)
	if !b.scope[r.Class] || anchored || b.seen[finding.ID] {
		return nil
	}
	b.seen[finding.ID] = true
	if r.Pending {
		b.pending[f.name] = append(b.pending[f.name], finding)
	} else {
		b.found[f.name] = append(b.found[f.name], finding)
	}
	return nil
}

func (b *book) finding(r Row) Finding {
	class := b.classes[r.Class]
	f := Finding{
		ID: findingID(r.Class, r.AccountID, r.PayoutID, r.Subject), Class: r.Class, Name: class.Name, Severity: class.Severity,
		What: r.What, Subject: r.Subject, AccountID: r.AccountID, PayoutID: r.PayoutID,
		Currency: r.Currency, AmountMinor: r.Amount, Suspects: r.Suspects, Details: r.Details, Unconfirmed: true,
	}
	f.Next = strings.NewReplacer("{finding}", f.ID, "{account}", r.AccountID, "{payout}", r.PayoutID).Replace(class.Next)
	if f.Suspects == nil {
		f.Suspects = []int64{}
	}
	if r.At != nil {
		f.At = r.At.UTC()
	}
	return f
}

// ran notes how long a family took.
func (b *book) ran(f family, took time.Duration, found *sink) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, id := range f.classes {
		if c := b.coverage[id]; c != nil {
			c.DurationMS += took.Milliseconds()
		}
		if found.count != nil {
			b.counted[id] += *found.count
		}
	}
}

// skip notes that classes were not checked. Where nobody asked for them to be, as for
// those that need a statement of the rail, the run is no less complete.
func (b *book) skip(reason string, classes ...string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.skipLocked(reason, classes)
}

func (b *book) skipLocked(reason string, classes []string) {
	for _, id := range classes {
		c := b.coverage[id]
		if c == nil || strings.Contains(c.Skipped, reason) {
			continue
		}
		c.Skipped = strings.TrimPrefix(c.Skipped+"; "+reason, "; ")
	}
}

// cause is why something was not checked.
type cause struct {
	// subject is a table, a family, or "run".
	subject, reason string
	// denied: a right was missing.
	denied bool
}

// miss notes that something was not checked that should have been, and concerns the
// whole run. It is a D08 about the subject.
func (b *book) miss(c cause) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.missing = append(b.missing, Missing{Reason: c.reason})
	b.because(c)
}

// missClasses notes that these classes were not checked, as far as they are in scope.
func (b *book) missClasses(c cause, classes ...string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	asked := slices.DeleteFunc(slices.Clone(classes), func(id string) bool { return !b.scope[id] })
	if len(asked) == 0 {
		return
	}
	b.skipLocked(c.reason, asked)
	for _, id := range asked {
		b.missing = append(b.missing, Missing{Class: id, Reason: c.reason})
	}
	b.because(c)
}

func (b *book) because(c cause) {
	finding := b.finding(Row{Class: CoverageClass, Subject: c.subject, What: c.reason})
	finding.Unconfirmed = false
	switch {
	case b.seen[finding.ID]:
		return
	case c.denied:
		b.denied = append(b.denied, finding)
	default:
		b.causes = append(b.causes, finding)
	}
	b.seen[finding.ID] = true
}

// distrust notes what keeps this login from a table, or from rows of it.
func (b *book) distrust(table, problem string) {
	b.miss(cause{subject: table, reason: problem})
	b.mu.Lock()
	defer b.mu.Unlock()
	b.untrusted = true
}

// noLock notes that lockdb is not read, and all that needs it is not checked.
func (b *book) noLock(reason string) { b.lockReason = "lockdb was not read: " + reason }

// noLast notes that nothing can be compared with the last token issued.
func (b *book) noLast(reason string) { b.lastReason = reason }

func (b *book) note(text string) {
	if text != "" {
		b.notes = append(b.notes, text)
	}
}

// foundBy is what a family has found so far.
func (b *book) foundBy(f family) []Finding {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.found[f.name]
}

// confirm replaces what a family has found by what it has found again.
func (b *book) confirm(f family, found []Finding) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.found[f.name] = found
}

// all are the findings, which the caller may complete in place.
func (b *book) all() []Finding {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(b.found)) {
		b.findings = append(b.findings, b.found[name]...)
	}
	b.found = nil
	slices.SortFunc(b.findings, worstFirst)
	return b.findings
}

func worstFirst(a, b Finding) int {
	if a.Severity != b.Severity {
		if a.Severity.AtLeast(b.Severity) {
			return -1
		}
		return 1
	}
	return strings.Compare(sortKey(a), sortKey(b))
}

func sortKey(f Finding) string {
	return strings.Join([]string{f.Class, f.AccountID, f.PayoutID, f.Subject}, "\x00")
}

// over are the classes in scope that are checked over a population.
func (b *book) over(population string) []string {
	var ids []string
	for id := range b.scope {
		if b.classes[id].Over == population {
			ids = append(ids, id)
		}
	}
	return ids
}

// needs tells that a population has to be counted: a class in scope is checked over it,
// or the emptiness of others is judged by it.
func (b *book) needs(population string) bool {
	return population == "accounts" || len(b.over(population)) > 0 || population == "claims" && len(b.over("tokens")) > 0
}

func (b *book) setCount(population string, n int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.counts[population] = n
}

// rows is how many rows are known to be under check.
func (b *book) rows() (n int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, p := range populations {
		n += b.counts[p.name]
	}
	return n
}

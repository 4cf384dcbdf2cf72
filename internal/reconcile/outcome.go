package reconcile

import (
	"cmp"
	"maps"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"time"
)

// unanchoredClass is A02, which is no break (K-4.8).
const unanchoredClass = "A02"

// breaks tells that findings of the class are breaks of the money or of its fence. The
// others say that something could not be checked, or cannot be relied on, and make a
// run incomplete.
func breaks(class string) bool {
	switch class {
	case unanchoredClass, guardsClass, historyClass, CoverageClass:
		return false
	}
	return true
}

func (r *run) report() Report {
	r.expectRows()
	findings, pending := r.book.results()
	report := Report{
		RunID: r.id, StartedAt: micros(r.started), FinishedAt: micros(time.Now()), Scope: r.o.Scope,
		Pay: r.pay.facts, Findings: findings, Pending: pending,
		Missing: r.book.missingRows(findings), Notes: r.book.notes,
		Coverage: r.book.coverageRows(findings, pending), Totals: totals(findings),
		Pipeline: orEmpty(r.pipeline), Timelines: orEmpty(r.lines),
	}
	if r.lock != nil {
		report.Lock = &r.lock.facts
	}
	if r.lastSeen {
		report.LastToken, report.LastTokenStr = r.last, strconv.FormatInt(r.last, 10)
	}
	for _, f := range findings {
		if f.Class == unanchoredClass {
			report.Unanchored++
		}
	}
	report.Complete = len(report.Missing) == 0 && report.Unanchored == 0
	report.Outcome = outcome(report)
	return report
}

// micros is the time as a database would tell it.
func micros(t time.Time) time.Time { return t.UTC().Truncate(time.Microsecond) }

// outcome is CLEAN only when everything was checked. What was not found a second time
// breaks nothing yet.
func outcome(r Report) Outcome {
	for _, f := range r.Findings {
		if breaks(f.Class) && !f.Unconfirmed {
			return Breaks
		}
	}
	if !r.Complete || len(r.Findings) > 0 {
		return Incomplete
	}
	return Clean
}

// confirmed enters what needs no second look and has no author.
func (b *book) confirmed(r Row) {
	b.mu.Lock()
	defer b.mu.Unlock()
	finding := b.finding(r)
	finding.Unconfirmed = false
	if b.scope[r.Class] && !b.seen[finding.ID] {
		b.seen[finding.ID] = true
		b.causes = append(b.causes, finding)
	}
}

// results are the findings, worst first, and what is pending.
func (b *book) results() (findings, pending []Finding) {
	if !b.untrusted {
		b.causes = append(b.causes, b.denied...)
	}
	for i := range b.causes {
		b.causes[i].Attribution = Attribution{Confidence: None, Why: "no token is behind it"}
	}
	findings = append(orEmpty(b.findings), b.causes...)
	slices.SortFunc(findings, worstFirst)
	pending = []Finding{}
	for _, name := range slices.Sorted(maps.Keys(b.pending)) {
		pending = append(pending, b.pending[name]...)
	}
	for i := range pending {
		pending[i].Attribution = Attribution{Confidence: None, Why: "it is in flight"}
	}
	slices.SortFunc(pending, worstFirst)
	return findings, pending
}

// missingRows adds what the findings themselves leave unchecked.
func (b *book) missingRows(findings []Finding) []Missing {
	missing := orEmpty(slices.Clone(b.missing))
	for _, f := range findings {
		if f.Class == guardsClass || f.Class == historyClass {
			missing = append(missing, Missing{Class: f.Class, Reason: f.What})
		}
	}
	slices.SortStableFunc(missing, func(a, b Missing) int {
		return cmp.Or(strings.Compare(a.Class, b.Class), strings.Compare(a.Reason, b.Reason))
	})
	return slices.Compact(missing)
}

func (b *book) coverageRows(findings, pending []Finding) []Coverage {
	for _, f := range findings {
		if c := b.coverage[f.Class]; c != nil {
			c.Findings++
		}
	}
	for _, f := range pending {
		if c := b.coverage[f.Class]; c != nil {
			c.Pending++
		}
	}
	rows := []Coverage{}
	for _, id := range slices.Sorted(maps.Keys(b.coverage)) {
		c := *b.coverage[id]
		if n, own := b.counted[id]; own {
			c.Checked = n
		} else {
			c.Checked = b.counts[c.Over]
		}
		if c.Skipped != "" {
			c.Checked = 0
		}
		rows = append(rows, c)
	}
	return rows
}

// totals sums per class and currency. The sums have no bound.
func totals(findings []Finding) []Total {
	type key struct{ class, currency string }
	sums := map[key]*big.Int{}
	counts := map[key]int64{}
	for _, f := range findings {
		amount, ok := new(big.Int).SetString(f.AmountMinor, 10)
		if !ok || f.Currency == "" {
			continue
		}
		k := key{f.Class, f.Currency}
		if sums[k] == nil {
			sums[k] = new(big.Int)
		}
		sums[k].Add(sums[k], amount.Abs(amount))
		counts[k]++
	}
	rows := []Total{}
	for k, sum := range sums {
		rows = append(rows, Total{Class: k.class, Currency: k.currency, Findings: counts[k], AmountMinor: sum.String()})
	}
	slices.SortFunc(rows, func(a, b Total) int {
		return cmp.Or(strings.Compare(a.Class, b.Class), strings.Compare(a.Currency, b.Currency))
	})
	return rows
}

// orEmpty makes JSON say [] and not null.
func orEmpty[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

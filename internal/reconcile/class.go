package reconcile

import (
	"slices"
	"strings"
	"time"
)

// Severity orders findings by what they may cost.
type Severity string

// The severities, worst first.
const (
	// Critical: money may have moved wrongly, or may move twice.
	Critical Severity = "critical"
	// High: the ledger is wrong.
	High Severity = "high"
	// Medium: a margin of safety is gone.
	Medium Severity = "medium"
	// Low: hygiene.
	Low Severity = "low"
)

// Severities lists them, worst first.
func Severities() []Severity { return []Severity{Critical, High, Medium, Low} }

// AtLeast tells that s is as bad as other, or worse.
func (s Severity) AtLeast(other Severity) bool {
	return slices.Index(Severities(), s) <= slices.Index(Severities(), other)
}

// Reads says which databases a class needs.
type Reads string

// What a class reads.
const (
	ReadsPay  Reads = "paydb"
	ReadsLock Reads = "lockdb"
	ReadsBoth Reads = "paydb and lockdb"
	// ReadsPrevious classes compare with an earlier run: a baseline or a seal.
	ReadsPrevious Reads = "an earlier run"
	// ReadsStatement classes compare with the rail's own list.
	ReadsStatement Reads = "a rail statement"
)

// Class is one kind of break (K-8.4).
type Class struct {
	// ID is stable, such as "A01"; Name is what it is called, such as
	// "balance_drift".
	ID       string   `json:"id"`
	Name     string   `json:"name"`
	Severity Severity `json:"severity"`
	// Rule says in one sentence what must hold.
	Rule string `json:"rule"`
	// Grace is how long a state may last before it is a break: work in flight
	// explains it until then, and it is listed as pending.
	Grace time.Duration `json:"-"`
	// Names says who a finding of this class names.
	Names string `json:"names"`
	Reads Reads  `json:"reads"`
	// Over is the population that it is checked over: "accounts", "payouts",
	// "legs", "attempts", "claims", "tokens", "locks", "revocations", "databases", "objects".
	Over string `json:"over"`
	// Next is the command or the runbook for a finding, in which {finding}, {account}
	// and {payout} stand for the finding's own.
	Next string `json:"next"`
}

// ExplainedWith are the flags that reconcile explain needs for a finding of the class,
// beside its id: what the run that found it compared with.
func ExplainedWith(class string) []string {
	all := Catalogue()
	i := slices.IndexFunc(all, func(c Class) bool { return c.ID == class })
	switch {
	case i >= 0 && all[i].Reads == ReadsPrevious:
		return []string{"--since", "FILE"}
	case i >= 0 && all[i].Reads == ReadsStatement:
		return []string{"--rail-statement", "FILE"}
	}
	return nil
}

// Catalogue lists every class that this schema can decide, by ID.
func Catalogue() []Class {
	all := slices.Concat(ledgerClasses(), fenceClasses(), railClasses(), systemClasses(), previousClasses(), statementClasses())
	slices.SortFunc(all, func(a, b Class) int { return strings.Compare(a.ID, b.ID) })
	return all
}

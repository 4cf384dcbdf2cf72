package html

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/dlockctl/dlockctl/internal/reconcile"
)

// page is the report as it is laid out: every text is final but for the
// template's escaping.
type page struct {
	Outcome, Tone, Verdict string
	// Complete is false when something was not checked.
	Complete  bool
	RunID     string
	At, Took  string
	Scope     []string
	Version   string
	All       string
	Tiles     []tile
	First     *finding
	Classes   []classRow
	Drift     drift
	Pipeline  []pipelineRow
	Holders   []holderRow
	NoHolders int
	Timelines []timeline
	Groups    []group
	// NotShown names the classes of which the page has no finding.
	NotShown  string
	Pending   pending
	Coverage  []coverageRow
	Missing   []missingRow
	Notes     []string
	Snapshots []snapshot
	LastToken string
}

// tile is a number that is seen first.
type tile struct{ Number, Label, Tone string }

type classRow struct {
	ID, Name, Severity, Rule, Findings string
	Amounts                            []string
	// Anchor is where its findings stand, "" where the report has none of them.
	Anchor string
}

type pipelineRow struct{ State, Payouts, Amount, Oldest string }

type coverageRow struct {
	ID, Name, Severity, Checked, Over, Findings, Pending, Took string
	// Skipped says why it was not checked.
	Skipped string
	Broken  bool
}

// missingRow is what was not checked for one reason.
type missingRow struct{ Classes, Reason string }

type snapshot struct{ Name, Where, Text, At, LSN, Identity, Note string }

func newPage(r reconcile.Report, extra Extra) page {
	catalogue := map[string]reconcile.Class{}
	for _, c := range reconcile.Catalogue() {
		catalogue[c.ID] = c
	}
	p := page{
		Outcome: string(r.Outcome), Complete: r.Complete, RunID: visible(r.RunID), At: moment(r.StartedAt),
		Took: span(r.FinishedAt.Sub(r.StartedAt)), Scope: scope(r.Scope), Version: visible(extra.Version),
		All: visible(extra.All), LastToken: grouped(token(r.LastToken)),
	}
	p.Tone, p.Verdict = verdict(r)
	p.Tiles = tiles(r)
	p.Timelines = timelines(r)
	p.Groups = groups(r, catalogue, p.Timelines)
	p.Classes = classes(r, catalogue, p.Groups)
	p.NotShown = notShown(p.Classes)
	p.First = begin(p.Groups)
	p.Drift = newDrift(r)
	p.Pipeline = pipeline(r)
	p.Holders, p.NoHolders = holders(r)
	p.Pending = newPending(r)
	p.Coverage = coverage(r)
	for _, note := range r.Notes {
		p.Notes = append(p.Notes, visible(note))
	}
	p.Missing = missing(r)
	p.Snapshots = append(p.Snapshots, newSnapshot("paydb", extra.Pay, r.Pay))
	if r.Lock != nil {
		p.Snapshots = append(p.Snapshots, newSnapshot("lockdb", extra.Lock, *r.Lock))
	}
	return p
}

// verdict is the report in a sentence, for somebody who reads no further.
func verdict(r reconcile.Report) (tone, text string) {
	found, worst := breaks(r)
	switch {
	case r.Outcome == reconcile.Clean:
		return "good", fmt.Sprintf("No break: %s, %s.", count(checked(r, "accounts"), "account", "accounts"), count(int64(ruled(r)), "rule", "rules"))
	case r.Outcome == reconcile.Breaks && r.Complete:
		return "bad", count(found, "break", "breaks") + ". " + meaning(worst)
	case r.Outcome == reconcile.Breaks:
		return "bad", count(found, "break", "breaks") + ", and not everything was checked: there may be more. " + meaning(worst)
	default:
		return "warn", "No break was found, but not everything was checked. This is not a clean result."
	}
}

func meaning(s reconcile.Severity) string {
	switch s {
	case reconcile.Critical:
		return "At least one is critical: money may have moved wrongly, or may move twice."
	case reconcile.High:
		return "The worst is high: the ledger is wrong."
	case reconcile.Medium:
		return "The worst is medium: a margin of safety is gone."
	case reconcile.Low:
		return "All are low: hygiene."
	}
	return ""
}

// breaks counts them, and says how bad the worst is.
func breaks(r reconcile.Report) (n int64, worst reconcile.Severity) {
	for _, f := range r.Findings {
		if !f.IsBreak() {
			continue
		}
		n++
		if worst == "" || f.Severity.AtLeast(worst) {
			worst = f.Severity
		}
	}
	return n, worst
}

// checked is the largest number of a population that a class looked at.
func checked(r reconcile.Report, over string) int64 {
	var n int64
	for _, c := range r.Coverage {
		if c.Over == over {
			n = max(n, c.Checked)
		}
	}
	return n
}

// ruled counts the rules that were checked. One that compares with what was not
// given, such as an earlier run, is none of them, and leaves nothing out.
func ruled(r reconcile.Report) int {
	n := 0
	for _, c := range r.Coverage {
		if c.Skipped == "" {
			n++
		}
	}
	return n
}

func tiles(r reconcile.Report) []tile {
	bySeverity := map[reconcile.Severity]int64{}
	for _, f := range r.Findings {
		if f.IsBreak() {
			bySeverity[f.Severity]++
		}
	}
	var out []tile
	for _, s := range reconcile.Severities() {
		tone := string(s)
		if bySeverity[s] == 0 {
			tone = "none"
		}
		out = append(out, tile{grouped(fmt.Sprint(bySeverity[s])), string(s), tone})
	}
	gap := "none"
	if !r.Complete {
		gap = "warn"
	}
	return append(
		out,
		tile{grouped(fmt.Sprint(len(r.Pending))), "explained by work in flight", "none"},
		tile{fmt.Sprintf("%d of %d", ruled(r), len(r.Coverage)), "rules checked", gap},
	)
}

func scope(s reconcile.Scope) []string {
	var out []string
	for _, part := range []struct {
		name   string
		values []string
	}{{"accounts", s.Accounts}, {"currencies", s.Currencies}, {"rules", s.Rules}} {
		if len(part.values) > 0 {
			shown := part.values[:min(len(part.values), mostRows)]
			text := fmt.Sprintf("%s: %s", part.name, visible(strings.Join(shown, ", ")))
			if left := len(part.values) - len(shown); left > 0 {
				text += fmt.Sprintf(" and %d more", left)
			}
			out = append(out, text)
		}
	}
	return out
}

func classes(r reconcile.Report, catalogue map[string]reconcile.Class, shown []group) []classRow {
	amounts := map[string]sums{}
	for _, t := range r.Totals {
		if amounts[t.Class] == nil {
			amounts[t.Class] = sums{}
		}
		amounts[t.Class].add(t.AmountMinor, t.Currency)
	}
	isBreak := map[string]bool{}
	for _, f := range r.Findings {
		isBreak[f.Class] = isBreak[f.Class] || f.IsBreak()
	}
	var out []classRow
	for _, c := range byWeight(r.Coverage) {
		if !isBreak[c.Class] {
			continue
		}
		row := classRow{
			ID: visible(c.Class), Name: visible(c.Name), Severity: string(c.Severity), Findings: grouped(fmt.Sprint(c.Findings)),
			Amounts: amounts[c.Class].list(), Rule: visible(catalogue[c.Class].Rule),
		}
		if slices.ContainsFunc(shown, func(g group) bool { return g.ID == row.ID }) {
			row.Anchor = "class-" + row.ID
		}
		out = append(out, row)
	}
	return out
}

// notShown lists the classes that have findings and none on the page.
func notShown(rows []classRow) string {
	var out []string
	for _, row := range rows {
		if row.Anchor == "" {
			out = append(out, fmt.Sprintf("%s (%s)", row.ID, row.Findings))
		}
	}
	return strings.Join(out, ", ")
}

// byWeight orders the classes: the worst first, then the most findings.
func byWeight(coverage []reconcile.Coverage) []reconcile.Coverage {
	return slices.SortedStableFunc(slices.Values(coverage), func(a, b reconcile.Coverage) int {
		return cmp.Or(rank(a.Severity)-rank(b.Severity), cmp.Compare(b.Findings, a.Findings), strings.Compare(a.Class, b.Class))
	})
}

func rank(s reconcile.Severity) int { return slices.Index(reconcile.Severities(), s) }

func pipeline(r reconcile.Report) []pipelineRow {
	var out []pipelineRow
	for _, row := range r.Pipeline {
		oldest := ""
		if !row.Oldest.IsZero() {
			oldest = span(r.Pay.At.Sub(row.Oldest))
		}
		out = append(out, pipelineRow{visible(row.State), grouped(fmt.Sprint(row.Payouts)), money(row.AmountMinor, row.Currency), oldest})
	}
	return out
}

func coverage(r reconcile.Report) []coverageRow {
	var out []coverageRow
	for _, c := range r.Coverage {
		out = append(out, coverageRow{
			ID: visible(c.Class), Name: visible(c.Name), Severity: string(c.Severity), Checked: grouped(fmt.Sprint(c.Checked)), Over: visible(c.Over),
			Findings: grouped(fmt.Sprint(c.Findings)), Pending: grouped(fmt.Sprint(c.Pending)),
			Took: grouped(fmt.Sprint(c.DurationMS)) + "\u00a0ms", Skipped: visible(c.Skipped), Broken: c.Findings > 0,
		})
	}
	return out
}

// missing joins the classes that one reason has.
func missing(r reconcile.Report) []missingRow {
	var out []missingRow
	for _, m := range r.Unchecked() {
		reason := visible(m.Reason)
		i := slices.IndexFunc(out, func(row missingRow) bool { return row.Reason == reason })
		if i < 0 {
			i = len(out)
			out = append(out, missingRow{Reason: reason})
		}
		out[i].Classes = strings.TrimSpace(out[i].Classes + " " + visible(m.Class))
	}
	return out
}

func newSnapshot(name, where string, s reconcile.Snapshot) snapshot {
	note := "read on the primary"
	if s.Standby {
		note = fmt.Sprintf("read on a standby that was %s ms behind", grouped(fmt.Sprint(s.LagMS)))
	}
	return snapshot{
		Name: name, Where: visible(where), At: moment(s.At), LSN: visible(s.LSN), Note: note,
		Identity: fmt.Sprintf("%d, timeline %d", s.SystemIdentifier, s.Timeline), Text: fmt.Sprintf("schema version %d", s.Schema),
	}
}

func token(t int64) string {
	if t == 0 {
		return ""
	}
	return fmt.Sprint(t)
}

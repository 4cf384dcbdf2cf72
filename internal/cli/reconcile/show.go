package reconcile

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dlockctl/dlockctl/internal/cli/app"
	"github.com/dlockctl/dlockctl/internal/reconcile"
	"github.com/dlockctl/dlockctl/internal/ui"
)

// findingRow is a finding without anything nested in it: a line of CSV.
type findingRow struct {
	ID          string               `json:"id"`
	Class       string               `json:"class"`
	Name        string               `json:"name"`
	Severity    reconcile.Severity   `json:"severity"`
	AccountID   string               `json:"account_id"`
	PayoutID    string               `json:"payout_id"`
	Subject     string               `json:"subject"`
	Currency    string               `json:"currency"`
	AmountMinor string               `json:"amount_minor"`
	At          time.Time            `json:"at,omitzero"`
	Token       string               `json:"token"`
	Holder      string               `json:"holder"`
	Confidence  reconcile.Confidence `json:"confidence"`
	Why         string               `json:"why"`
	What        string               `json:"what"`
	Next        string               `json:"next"`
}

func rows(findings []reconcile.Finding) []findingRow {
	out := make([]findingRow, len(findings))
	for i, f := range findings {
		out[i] = findingRow{
			ID: f.ID, Class: f.Class, Name: f.Name, Severity: f.Severity, AccountID: f.AccountID, PayoutID: f.PayoutID, Subject: f.Subject,
			Currency: f.Currency, AmountMinor: f.AmountMinor, At: f.At, Token: f.Attribution.TokenStr, Holder: f.Attribution.Holder,
			Confidence: f.Attribution.Confidence, Why: f.Attribution.Why, What: f.What, Next: f.Next,
		}
	}
	return out
}

// findingColumns are all fields of a row.
func findingColumns() []ui.Column {
	var columns []ui.Column
	for _, field := range []string{
		"id", "class", "name", "severity", "account_id", "payout_id", "subject", "currency", "amount_minor", "at", "token", "holder",
		"confidence", "why", "what", "next",
	} {
		columns = append(columns, ui.Column{Title: strings.ToUpper(strings.ReplaceAll(field, "_", " ")), Field: field})
	}
	return columns
}

// What -o jsonl prints: a finding a line, and the report without them at the end,
// by which a reader knows that it has read all.
type (
	findingLine struct {
		Kind string `json:"kind"`
		reconcile.Finding
	}
	summaryLine struct {
		Kind string `json:"kind"`
		reconcile.Report
	}
)

func show(a *app.App, report reconcile.Report) error {
	switch a.Format() {
	case ui.Table, ui.Wide:
		return showTable(a, report)
	case ui.JSONL:
		return showLines(a, report)
	case ui.JSON: // which may be kept, for diff and propose
		var err error
		if report, err = report.Digested(); err != nil {
			return err
		}
	case ui.YAML, ui.CSV, ui.Name:
	}
	return a.Print(ui.View{Data: report, Rows: rows(report.Findings), Columns: findingColumns(), Name: "id"})
}

func showLines(a *app.App, report reconcile.Report) error {
	for _, part := range []struct {
		kind     string
		findings []reconcile.Finding
	}{{"finding", report.Findings}, {"pending", report.Pending}} {
		lines := make([]findingLine, len(part.findings))
		for i, f := range part.findings {
			lines[i] = findingLine{part.kind, f}
		}
		if err := a.Print(ui.View{Data: lines}); err != nil {
			return err
		}
	}
	report.Findings, report.Pending = []reconcile.Finding{}, []reconcile.Finding{}
	return a.Print(ui.View{Data: summaryLine{"summary", report}})
}

func tones() map[string]ui.Tone {
	return map[string]ui.Tone{
		string(reconcile.Critical): ui.Alarm, string(reconcile.High): ui.Bad, string(reconcile.Medium): ui.Warn, string(reconcile.Low): ui.Faint,
	}
}

// table prints the report for a person: the verdict first, the worst first.
type table struct {
	app    *app.App
	report reconcile.Report
	styles ui.Styles
	width  int
	err    error
}

func showTable(a *app.App, report reconcile.Report) error {
	color, err := colorMode(a)
	if err != nil {
		return err
	}
	t := newTable(a, color)
	t.report = report
	t.head()
	t.classes()
	t.samples()
	t.pipeline()
	t.missing()
	return t.err
}

// defaultWidth is how wide lines are where no terminal says it.
const defaultWidth = 100

func (t *table) say(format string, args ...any) {
	if t.err == nil {
		if _, err := fmt.Fprintf(t.app.Streams.Out, format, args...); err != nil {
			t.err = fmt.Errorf("write the result: %w", err)
		}
	}
}

func (t *table) print(v ui.View) {
	if t.err == nil {
		t.err = t.app.Print(v)
	}
}

// wrapped prints text in lines that fit, the first one behind label.
func (t *table) wrapped(label, text string) {
	const indent = 11
	line, first := "", true
	flush := func() {
		head := ""
		if first {
			head, first = label, false
		}
		t.say("  %s%s\n", t.styles.Paint(ui.Faint, fmt.Sprintf("%-*s", indent-2, head)), line)
		line = ""
	}
	for _, word := range strings.Fields(ui.Visible(text)) {
		if line != "" && len([]rune(line))+1+len([]rune(word)) > t.width-indent {
			flush()
		}
		line = strings.TrimPrefix(line+" "+word, " ")
	}
	flush()
}

func (t *table) head() {
	r := t.report
	tone := map[reconcile.Outcome]ui.Tone{reconcile.Clean: ui.Good, reconcile.Breaks: ui.Alarm, reconcile.Incomplete: ui.Warn}[r.Outcome]
	bySeverity, breaks := map[reconcile.Severity]int{}, 0
	for _, f := range r.Findings {
		if f.IsBreak() {
			bySeverity[f.Severity]++
			breaks++
		}
	}
	found := "no break"
	if breaks > 0 {
		var parts []string
		for _, s := range reconcile.Severities() {
			if bySeverity[s] > 0 {
				parts = append(parts, fmt.Sprintf("%d %s", bySeverity[s], s))
			}
		}
		found = count(breaks, "break") + ": " + strings.Join(parts, ", ")
	}
	t.say("%s  %s%s\n", t.styles.Paint(tone, string(r.Outcome)), found, incomplete(r))
	done := 0
	for _, c := range r.Coverage {
		if c.Skipped == "" {
			done++
		}
	}
	text := fmt.Sprintf("%d of %d rules", done, len(r.Coverage))
	if left := len(r.Coverage) - done; left > 0 {
		text += fmt.Sprintf(" (why not the other %d: -o json, coverage)", left)
	}
	if n := t.population("accounts"); n > 0 {
		text += " over " + count(int(n), "account")
	}
	text += ", paydb as of " + r.Pay.At.UTC().Format(time.RFC3339)
	if r.Pay.Standby {
		text += fmt.Sprintf(", from a standby %s behind", time.Duration(r.Pay.LagMS)*time.Millisecond)
	}
	t.say("%s\n", t.styles.Paint(ui.Faint, fmt.Sprintf("%s, in %s", text, r.FinishedAt.Sub(r.StartedAt).Round(100*time.Millisecond))))
}

func (t *table) population(over string) (n int64) {
	for _, c := range t.report.Coverage {
		if c.Over == over {
			n = max(n, c.Checked)
		}
	}
	return n
}

// classRow is a class in one currency.
type classRow struct {
	Severity reconcile.Severity `json:"severity"`
	Class    string             `json:"class"`
	Name     string             `json:"name"`
	Findings string             `json:"findings"`
	Amount   string             `json:"amount_minor"`
	Currency string             `json:"currency"`
	Rule     string             `json:"rule"`
}

func (t *table) classes() {
	rules := map[string]string{}
	for _, c := range reconcile.Catalogue() {
		rules[c.ID] = c.Rule
	}
	var out []classRow
	coverage := slices.Clone(t.report.Coverage)
	slices.SortStableFunc(coverage, func(a, b reconcile.Coverage) int {
		severities := reconcile.Severities()
		return slices.Index(severities, a.Severity) - slices.Index(severities, b.Severity)
	})
	for _, c := range coverage {
		// What was not checked is listed below, with the reason.
		if c.Findings == 0 || c.Class == reconcile.CoverageClass {
			continue
		}
		row := classRow{c.Severity, c.Class, c.Name, strconv.FormatInt(c.Findings, 10), "", "", rules[c.Class]}
		before := len(out)
		for _, total := range t.report.Totals {
			if total.Class == c.Class {
				row.Amount, row.Currency = total.AmountMinor, total.Currency
				out = append(out, row)
				row.Findings = ""
			}
		}
		if len(out) == before {
			out = append(out, row)
		}
	}
	if len(out) == 0 {
		return
	}
	t.say("\n")
	t.print(ui.View{Data: out, Columns: []ui.Column{
		{Title: "SEVERITY", Field: "severity", Tones: tones()},
		{Title: "CLASS", Field: "class"},
		{Title: "NAME", Field: "name"},
		{Title: "FINDINGS", Field: "findings", Kind: ui.Number},
		{Title: "AMOUNT (MINOR)", Field: "amount_minor", Kind: ui.Number},
		{Title: "CURRENCY", Field: "currency"},
		{Title: "RULE", Field: "rule", Wide: true},
	}})
}

// mostShown findings are shown, of as many classes as there are; with -o wide ten times
// as many.
const mostShown = 10

func (t *table) samples() {
	most := mostShown
	if t.app.Format() == ui.Wide {
		most *= 10
	}
	perClass, found := map[string]int{}, 0
	var first []string
	for _, f := range t.report.Findings {
		// What was not checked is listed below.
		if f.Class == reconcile.CoverageClass {
			continue
		}
		perClass[f.Class] = 0
		if found++; len(first) == 0 {
			first = append([]string{ui.Visible(f.ID)}, reconcile.ExplainedWith(f.Class)...)
		}
	}
	each, total := max(most/max(len(perClass), 1), 1), 0
	for _, f := range t.report.Findings {
		if f.Class == reconcile.CoverageClass || perClass[f.Class] >= each || total >= most {
			continue
		}
		perClass[f.Class]++
		total++
		t.finding(f)
	}
	if left := found - total; left > 0 {
		t.say("\n%s\n", t.styles.Paint(ui.Faint, fmt.Sprintf("%d more: %s, or --report FILE.html", left, t.app.Command("reconcile", "-o", "jsonl"))))
	}
	if len(first) > 0 {
		t.say("\nNext: %s\n", t.app.Command("reconcile explain", first...))
	}
}

func (t *table) finding(f reconcile.Finding) {
	t.say("\n%s  %s %s\n", t.styles.Paint(tones()[string(f.Severity)], string(f.Severity)), t.styles.Paint(ui.Strong, ui.Visible(f.ID)), ui.Visible(f.Name))
	t.wrapped("", f.What)
	for _, part := range []struct{ label, text string }{
		{"account", f.AccountID}, {"payout", f.PayoutID}, {"about", f.Subject}, {"by", by(f.Attribution)}, {"next", t.app.Runnable(f.Next)},
	} {
		if part.text != "" {
			t.wrapped(part.label, part.text)
		}
	}
	if f.Unconfirmed {
		t.wrapped("", "not looked at a second time: the run was cut short")
	}
}

// by says who is behind a finding, and how sure that is.
func by(a reconcile.Attribution) string {
	text := "nobody could be named"
	if a.Token != 0 {
		text = "token " + strconv.FormatInt(a.Token, 10)
		if a.Holder != "" {
			text += " of " + a.Holder
		}
		text += " (" + string(a.Confidence) + ")"
	}
	if a.RevokedBy != "" {
		text += ", revoked by " + a.RevokedBy + ": " + a.Reason
	}
	if a.Why != "" {
		text += ": " + a.Why
	}
	return text
}

func (t *table) pipeline() {
	if len(t.report.Pipeline) == 0 && len(t.report.Pending) == 0 {
		return
	}
	t.say("\nIn flight")
	if n := len(t.report.Pending); n > 0 {
		t.say(", of which %s would be a break if it stayed so", count(n, "thing"))
	}
	t.say("\n")
	if len(t.report.Pipeline) > 0 {
		t.print(ui.View{Data: t.report.Pipeline, Columns: []ui.Column{
			{Title: "STATE", Field: "state"},
			{Title: "PAYOUTS", Field: "payouts", Kind: ui.Number},
			{Title: "AMOUNT (MINOR)", Field: "amount_minor", Kind: ui.Number},
			{Title: "CURRENCY", Field: "currency"},
			{Title: "OLDEST", Field: "oldest", Kind: ui.Since},
		}})
	}
}

// missing lists what was not checked; classes with one reason share a line.
func (t *table) missing() {
	classes := map[string][]string{}
	var reasons []string
	for _, m := range t.report.Unchecked() {
		if _, known := classes[m.Reason]; !known {
			reasons = append(reasons, m.Reason)
			classes[m.Reason] = nil
		}
		if m.Class != "" {
			classes[m.Reason] = append(classes[m.Reason], m.Class)
		}
	}
	if len(reasons) > 0 {
		t.say("\n%s\n", t.styles.Paint(ui.Warn, "Not checked"))
	}
	for _, reason := range reasons {
		text := reason
		if len(classes[reason]) > 0 {
			text += ": " + strings.Join(classes[reason], " ")
		}
		t.wrapped("-", text)
	}
	if n := t.report.Unanchored; n > 0 {
		t.wrapped("-", fmt.Sprintf("%s no opening balance, and cannot be compared (A02)", map[bool]string{true: "1 account has", false: fmt.Sprintf("%d accounts have", n)}[n == 1]))
	}
	for _, note := range t.report.Notes {
		t.wrapped("note", note)
	}
}

package reconcile_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dlockctl/dlockctl/internal/pgtest"
	"github.com/dlockctl/dlockctl/internal/reconcile"
)

// Whatever stands in a file, it is a report or is refused with what to do.
func FuzzReadReport(f *testing.F) {
	whole, err := reconcile.Report{RunID: "r", Outcome: reconcile.Clean, Notes: []string{"a\u202e<b>"}}.Digested()
	if err != nil {
		f.Fatal(err)
	}
	text, err := json.Marshal(whole)
	if err != nil {
		f.Fatal(err)
	}
	for _, seed := range []string{"", "{}", "null", `{"run_id":"r","outcome":"CLEAN","digest":"x"}`, string(text), string(text) + "x"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		report, err := reconcile.ReadReport(bytes.NewReader(text))
		var refused *reconcile.ReportError
		if err != nil && (!errors.As(err, &refused) || refused.Hint() == "") {
			t.Errorf("%q: %v", text, err)
		}
		if err == nil && (report.RunID == "" || report.Digest == "") {
			t.Errorf("%q: %+v", text, report)
		}
	})
}

// A report that was edited is refused, whatever was: a verdict, a finding taken out, put
// in or made less, a number, or its digest. What only looks different is read.
//
// Clauses: K-8.5
// Mutation: leave the comparison out of ReadReport, the numbers out of addToken, or the
// length.
func TestAnEditedReportIsRefused(t *testing.T) {
	t.Parallel()
	w := seeded(t, pgtest.Majors()[0])
	exec(t, w.pay, strings.Replace(drift, "+ 1", "+ 71", 1))
	report := w.run(t, rules("A01", "A02", "B01"))
	report.Notes = []string{"a note with <b>, \u202ehostile\x1b[2J marks & all"}
	report, err := report.Digested()
	if err != nil {
		t.Fatal(err)
	}
	var indented bytes.Buffer
	encoder := json.NewEncoder(&indented) // as --report writes it, which escapes otherwise
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(report); err != nil {
		t.Fatal(err)
	}
	spelled := strings.ReplaceAll(indented.String(), "\u202e", `\u202e`)
	plain, err := json.Marshal(report)
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"as --report writes it": spelled, "on one line": string(plain)} {
		back, err := reconcile.ReadReport(strings.NewReader(text))
		if diff := cmp.Diff(back.Findings[0].ID, report.Findings[0].ID); err != nil || diff != "" || back.Outcome != reconcile.Breaks {
			t.Errorf("%s: %v %s", name, err, diff)
		}
	}
	const differs = "is not as it was written: its digest differs"
	finding, end := strings.Index(string(plain), `"findings":[{`)+len(`"findings":[`), strings.Index(string(plain), `],"pending"`)
	for name, c := range map[string]struct{ old, text, want string }{
		"the verdict":          {`"outcome":"BREAKS"`, `"outcome":"CLEAN"`, differs},
		"complete":             {`"complete":true`, `"complete":false`, differs},
		"an amount":            {`"amount_minor":"71"`, `"amount_minor":"17"`, differs},
		"a number":             {`"checked":`, `"checked":1`, differs},
		"a number's digits":    {`"duration_ms":`, `"duration_ms":-`, differs},
		"a finding taken out":  {string(plain)[finding:end], "", differs},
		"a member put in":      {`"complete":`, `"more":1,"complete":`, differs},
		"a member twice":       {`"complete":`, `"outcome":"CLEAN","complete":`, differs},
		"another case":         {`"complete":`, `"OUTCOME":"CLEAN","complete":`, differs},
		"a text for a number":  {`"unanchored":0`, `"unanchored":null`, differs},
		"a text cut elsewhere": {`"class":"A01","name":"balance_drift"`, `"class":"A01b","name":"alance_drift"`, differs},
		"the digest":           {`"digest":"`, `"digest":"0`, differs},
		"no digest":            {`,"digest":"` + report.Digest + `"`, "", "has no digest: it was edited, or an earlier version wrote it"},
		"no run":               {`"run_id":"` + report.RunID, `"run_id":"`, "is none: it names no run"},
		"cut off":              {`],"pending"`, "", "is none: "},
		"something behind it":  {report.Digest + `"}`, report.Digest + `"} {}`, "is none: "},
	} {
		edited := strings.Replace(string(plain), c.old, c.text, 1)
		if edited == string(plain) {
			t.Fatalf("%s: %q is not in the report", name, c.old)
		}
		var refused *reconcile.ReportError
		if _, err := reconcile.ReadReport(strings.NewReader(edited)); !errors.As(err, &refused) || !strings.Contains(err.Error(), c.want) || refused.Hint() == "" {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

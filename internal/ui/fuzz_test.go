package ui_test

import (
	"encoding/csv"
	"encoding/json"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/dlockctl/dlockctl/internal/ui"
)

func seeds(f *testing.F) {
	f.Helper()
	for _, seed := range []string{"", "plain", "\x1b[31m", "\u202eevil", "a\x00b", "\xff\xfe", "=cmd()", "\t=1", "a,b\"c\nd", "\U000e0001", "\u2028", "+1", "é"} {
		f.Add(seed)
	}
}

// Whatever stands in a key, an owner or a reason, a terminal shows it and does
// nothing else.
func FuzzVisible(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, s string) {
		shown := ui.Visible(s)
		if !utf8.ValidString(shown) {
			t.Errorf("%q becomes %q, which is not UTF-8", s, shown)
		}
		for _, r := range shown {
			if unicode.IsControl(r) || unicode.Is(unicode.Cf, r) || r == '\u2028' || r == '\u2029' {
				t.Errorf("%q becomes %q, which holds %U", s, shown, r)
			}
		}
		if again := ui.Visible(shown); again != shown {
			t.Errorf("%q becomes %q, and that %q", s, shown, again)
		}
	})
}

// In no format does a value drive a terminal, begin a formula, or break the
// frame of its row.
func FuzzFormats(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, s string) {
		type single struct {
			Key string `json:"key"`
		}
		printed := func(format ui.Format) string {
			streams, out, _ := ui.Test("", nil)
			printer := ui.Printer{Streams: streams, Format: format, Color: ui.ColorNever}
			if err := printer.Print(ui.View{Data: []single{{s}}, Columns: []ui.Column{{Title: "KEY", Field: "key"}}, Name: "key"}); err != nil {
				t.Fatalf("%s: %v", format, err)
			}
			return out.String()
		}
		for _, format := range ui.Formats() {
			text := printed(ui.Format(format))
			if strings.ContainsFunc(strings.ReplaceAll(text, "\n", ""), func(r rune) bool { return unicode.IsControl(r) || unicode.Is(unicode.Cf, r) }) {
				t.Errorf("%s: %q holds what drives a terminal", format, text)
			}
		}
		for _, printer := range []ui.Printer{transform(t, ui.ParseJQ, ".[].key"), transform(t, ui.ParseTemplate, "{{range .}}{{.key}}{{end}}")} {
			text, err := shaped(t, printer, []row{{Key: s}})
			if err != nil || strings.ContainsFunc(strings.TrimSuffix(text, "\n"), func(r rune) bool { return unicode.IsControl(r) || unicode.Is(unicode.Cf, r) }) {
				t.Errorf("%T of %q: %q, %v", printer.Transform, s, text, err)
			}
		}
		records, err := csv.NewReader(strings.NewReader(printed(ui.CSV))).ReadAll()
		switch {
		case s == "" && len(records) <= 2:
		case err != nil, len(records) != 2, len(records[1]) != 1:
			t.Errorf("CSV of %q: %q, %v", s, records, err)
		case strings.ContainsRune("=+-@\t\r", rune(records[1][0][0])):
			t.Errorf("CSV of %q begins a formula: %q", s, records[1][0])
		}
		var back []single
		if err := json.Unmarshal([]byte(printed(ui.JSON)), &back); err != nil || utf8.ValidString(s) && back[0].Key != s {
			t.Errorf("JSON of %q reads back as %q, %v", s, back, err)
		}
	})
}

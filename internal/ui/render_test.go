package ui_test

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"

	"github.com/dlockctl/dlockctl/internal/ui"
)

type row struct {
	Key       string `json:"key"`
	Token     int64  `json:"token"`
	TokenStr  string `json:"token_str"`
	Owner     string `json:"owner"`
	ExpiresAt string `json:"expires_at"`
	LeftMS    int64  `json:"remaining_ms"`
	Expired   bool   `json:"expired"`
}

var rows = []row{
	{"account:42", 9007199254740993, "9007199254740993", "alice@a", "2026-11-29T12:00:30.000000Z", 12345, false},
	{"b <c> & d", 7, "7", "=cmd|' /C calc'!A0", "infinity", 0, true},
}

func view(data any) ui.View {
	return ui.View{
		Data: data,
		Columns: []ui.Column{
			{Title: "KEY", Field: "key"},
			{Title: "TOKEN", Field: "token", Kind: ui.Number},
			{Title: "OWNER", Field: "owner"},
			{Title: "EXPIRES", Field: "expires_at", Kind: ui.Until, Relative: "remaining_ms"},
			{Title: "EXPIRED", Field: "expired", Wide: true, Tones: map[string]ui.Tone{"yes": ui.Bad}},
		},
		Name:  "key",
		Empty: "no locks",
	}
}

func printed(t *testing.T, format ui.Format, tty bool, data any) (out, errOut string) {
	t.Helper()
	streams, o, e := ui.Test("", nil)
	streams.OutTTY = tty
	p := ui.Printer{Streams: streams, Format: format, Color: ui.ColorNever}
	if err := p.Print(view(data)); err != nil {
		t.Fatal(err)
	}
	return o.String(), e.String()
}

func TestFormats(t *testing.T) {
	t.Parallel()
	for format, want := range map[ui.Format]string{
		ui.Table: "" +
			"KEY                    TOKEN  OWNER               EXPIRES\n" +
			"account:42  9007199254740993  alice@a             2026-11-29T12:00:30.000000Z\n" +
			"b <c> & d                  7  =cmd|' /C calc'!A0  infinity\n",
		ui.Wide: "" +
			"KEY                    TOKEN  OWNER               EXPIRES                      EXPIRED\n" +
			"account:42  9007199254740993  alice@a             2026-11-29T12:00:30.000000Z  no\n" +
			"b <c> & d                  7  =cmd|' /C calc'!A0  infinity                     yes\n",
		ui.JSONL: `{"key":"account:42","token":9007199254740993,"token_str":"9007199254740993","owner":"alice@a","expires_at":"2026-11-29T12:00:30.000000Z","remaining_ms":12345,"expired":false}` + "\n" +
			`{"key":"b <c> & d","token":7,"token_str":"7","owner":"=cmd|' /C calc'!A0","expires_at":"infinity","remaining_ms":0,"expired":true}` + "\n",
		ui.YAML: "" +
			"- key: account:42\n  token: 9007199254740993\n  token_str: \"9007199254740993\"\n  owner: alice@a\n  expires_at: \"2026-11-29T12:00:30.000000Z\"\n  remaining_ms: 12345\n  expired: false\n" +
			"- key: b <c> & d\n  token: 7\n  token_str: \"7\"\n  owner: =cmd|' /C calc'!A0\n  expires_at: infinity\n  remaining_ms: 0\n  expired: true\n",
		ui.CSV: "key,token,owner,expires_at,expired\n" +
			"account:42,9007199254740993,alice@a,2026-11-29T12:00:30.000000Z,no\n" +
			"b <c> & d,7,'=cmd|' /C calc'!A0,infinity,yes\n",
		ui.Name: "account:42\nb <c> & d\n",
	} {
		t.Run(string(format), func(t *testing.T) {
			t.Parallel()
			out, errOut := printed(t, format, false, rows)
			if diff := cmp.Diff(want, out); diff != "" {
				t.Errorf("stdout (-want +got):\n%s", diff)
			}
			if errOut != "" {
				t.Errorf("stderr: %q", errOut)
			}
		})
	}
}

func TestTerminalShowsRelativeTimes(t *testing.T) {
	t.Parallel()
	out, _ := printed(t, ui.Table, true, rows)
	want := "" +
		"KEY                    TOKEN  OWNER               EXPIRES\n" +
		"account:42  9007199254740993  alice@a             12s left\n" +
		"b <c> & d                  7  =cmd|' /C calc'!A0  never\n"
	if diff := cmp.Diff(want, out); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestRecordAndEmptyList(t *testing.T) {
	t.Parallel()
	out, _ := printed(t, ui.Table, false, rows[1])
	want := "" +
		"KEY      b <c> & d\n" +
		"TOKEN    7\n" +
		"OWNER    =cmd|' /C calc'!A0\n" +
		"EXPIRES  infinity\n" +
		"EXPIRED  yes\n"
	if diff := cmp.Diff(want, out); diff != "" {
		t.Errorf("record (-want +got):\n%s", diff)
	}
	out, errOut := printed(t, ui.Table, false, []row{})
	if out != "" || errOut != "no locks\n" {
		t.Errorf("empty list: stdout %q, stderr %q", out, errOut)
	}
	for _, empty := range []any{[]row{}, []row(nil)} {
		if out, errOut := printed(t, ui.JSON, false, empty); out != "[]\n" || errOut != "" {
			t.Errorf("empty list as json: stdout %q, stderr %q", out, errOut)
		}
	}
}

// What says nothing is a dash in a table, and itself where machines read.
func TestBlank(t *testing.T) {
	t.Parallel()
	for format, want := range map[ui.Format]string{ui.Table: "PORT  OWNER\n   -  -\n", ui.CSV: "token,owner\n0,\n"} {
		streams, o, _ := ui.Test("", nil)
		v := ui.View{Data: []row{{}}, Columns: []ui.Column{
			{Title: "PORT", Field: "token", Kind: ui.Number, Blank: "0"}, {Title: "OWNER", Field: "owner"},
		}}
		if err := (ui.Printer{Streams: streams, Format: format}).Print(v); err != nil {
			t.Fatal(err)
		}
		if got := o.String(); got != want {
			t.Errorf("%s: %q, want %q", format, got, want)
		}
	}
}

// Blanks inside a cell are the key's own; wide letters take two cells.
func TestTableChangesNothing(t *testing.T) {
	t.Parallel()
	streams, o, _ := ui.Test("", nil)
	v := ui.View{
		Data: []row{{Key: "  two  blanks ", Owner: "o"}, {Key: "鍵", Owner: "o"}, {Key: strings.Repeat("k", 200), Owner: "o"}},
		Columns: []ui.Column{
			{Title: "lower_case", Field: "key"},
			{Title: "OWNER", Field: "owner"},
		},
	}
	if err := (ui.Printer{Streams: streams, Format: ui.Table, Color: ui.ColorNever}).Print(v); err != nil {
		t.Fatal(err)
	}
	pad := func(s string, cells int) string { return s + strings.Repeat(" ", 202-cells) }
	want := pad("lower_case", 10) + "OWNER\n" +
		pad("  two  blanks ", 14) + "o\n" +
		pad("鍵", 2) + "o\n" +
		strings.Repeat("k", 200) + "  o\n"
	if diff := cmp.Diff(want, o.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// No byte of a hostile string reaches a terminal as itself, in any format, and
// the formats that machines read give the very string back.
//
// Mutation: take escapeUnsafe out of newDocument, or Visible out of cell.
func TestHostileStrings(t *testing.T) {
	t.Parallel()
	hostile := []string{
		"\x1b[2J\x1b[31mred", "\u202egnp.exe", "bell\a\x7f", "csi\u009b2J", "tag\U000e0041", "zero\u200bwidth",
		"\ttab", "\rreturn", "a\nb", "line\u2028sep", "+1", "-1", "@x", "=1",
	}
	for _, format := range ui.Formats() {
		for _, s := range hostile {
			out, _ := printed(t, ui.Format(format), true, []row{{Key: s, Owner: s}})
			for _, bad := range []string{"\x1b", "\a", "\x7f", "\u009b", "\u202e", "\U000e0041", "\u200b", "\u2028", "\r", "\t"} {
				if strings.Contains(out, bad) {
					t.Errorf("%s of %q lets %q through: %q", format, s, bad, out)
				}
			}
			checkRoundTrip(t, ui.Format(format), s, out)
		}
	}
}

func checkRoundTrip(t *testing.T, format ui.Format, s, out string) {
	t.Helper()
	var got []row
	var err error
	switch format {
	case ui.JSON:
		err = json.Unmarshal([]byte(out), &got)
	case ui.JSONL:
		got = make([]row, 1)
		err = json.Unmarshal([]byte(out), &got[0])
	case ui.YAML:
		var generic []map[string]any
		err = yaml.Unmarshal([]byte(out), &generic)
		if err == nil {
			key, _ := generic[0]["key"].(string)
			got = []row{{Key: key}}
		}
	case ui.CSV:
		var records [][]string
		records, err = csv.NewReader(strings.NewReader(out)).ReadAll()
		if err == nil && strings.ContainsAny(records[1][0][:1], "=+-@\t\r") {
			t.Errorf("csv of %q is a formula: %q", s, records[1][0])
		}
		got = []row{{Key: s}}
	default:
		return
	}
	if err != nil {
		t.Fatalf("%s of %q: %v in %q", format, s, err, out)
	}
	if len(got) != 1 || got[0].Key != s {
		t.Errorf("%s of %q reads back as %+v", format, s, got)
	}
}

// A nested result has rows of its own for the tabular formats, and only there.
func TestRowsOfANestedResult(t *testing.T) {
	t.Parallel()
	type nested struct {
		Name string `json:"name"`
		Rows []row  `json:"rows"`
	}
	v := view(nested{"n", rows[:1]})
	v.Rows = rows[:1]
	for format, want := range map[ui.Format]string{ui.Name: "account:42\n", ui.JSONL: `{"name":"n","rows":[{"key":"account:42"`} {
		streams, o, _ := ui.Test("", nil)
		if err := (ui.Printer{Streams: streams, Format: format}).Print(v); err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(o.String(), want) {
			t.Errorf("%s: got %q, want %q…", format, o, want)
		}
	}
}

func TestWriteJSON(t *testing.T) {
	t.Parallel()
	var buf bytes.Buffer
	if err := ui.WriteJSON(&buf, map[string]string{"message": "a<b\u202e"}); err != nil {
		t.Fatal(err)
	}
	if got, want := buf.String(), "{\n  \"message\": \"a<b\\u202e\"\n}\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestSinceByTheReadersClock(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	streams, o, _ := ui.Test("", nil)
	streams.OutTTY = true
	streams.Now = func() time.Time { return at.Add(3*time.Hour + 2*time.Minute) }
	type audit struct {
		At string `json:"at"`
	}
	v := ui.View{Data: []audit{{"2026-11-29T12:00:00.000000Z"}, {"2026-11-29T16:00:00Z"}}, Columns: []ui.Column{{Title: "AT", Field: "at", Kind: ui.Since}}}
	if err := (ui.Printer{Streams: streams, Format: ui.Table, Color: ui.ColorNever}).Print(v); err != nil {
		t.Fatal(err)
	}
	// The second row's clock is ahead of the reader's.
	if got, want := o.String(), "AT\n3h2m ago\njust now\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

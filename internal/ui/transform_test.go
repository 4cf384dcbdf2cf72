package ui_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/dlockctl/dlockctl/internal/ui"
)

// shaped prints the rows of view through a printer, and returns what came of it.
func shaped(t *testing.T, p ui.Printer, data any) (string, error) {
	t.Helper()
	streams, out, _ := ui.Test("", nil)
	p.Streams, p.Color = streams, ui.ColorNever
	err := p.Print(view(data))
	return out.String(), err
}

func transform(t *testing.T, parse func(string) (ui.Transform, error), text string) ui.Printer {
	t.Helper()
	made, err := parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return ui.Printer{Format: ui.JSON, Transform: made}
}

func TestJQ(t *testing.T) {
	t.Parallel()
	for expr, want := range map[string]string{
		`.[].key`:                             "account:42\nb <c> & d\n",
		`.[0].token`:                          "9007199254740993\n", // K-5.4: no float64 in between
		`.[0] | {key, token}`:                 `{"key":"account:42","token":9007199254740993}` + "\n",
		`map(select(.expired)) | length`:      "1\n",
		`[.[].key] | join("\n")`:              "account:42\nb <c> & d\n",
		`empty`:                               "",
		`.[] | select(.key == "nobody") | .x`: "",
		`halt`:                                "",
	} {
		got, err := shaped(t, transform(t, ui.ParseJQ, expr), rows)
		if err != nil || got != want {
			t.Errorf("%s: %q, %v, want %q", expr, got, err, want)
		}
	}
}

// An expression sees neither the environment nor files.
func TestJQIsShutIn(t *testing.T) {
	t.Setenv("PGPASSWORD", "hunter2-planted")
	for _, expr := range []string{`$ENV.PGPASSWORD`, `env.PGPASSWORD`, `[env, $ENV] | tostring`} {
		got, err := shaped(t, transform(t, ui.ParseJQ, expr), rows)
		if err != nil || strings.Contains(got, "hunter2") {
			t.Errorf("%s: %q, %v", expr, got, err)
		}
	}
	if _, err := ui.ParseJQ(`import "x" as x; .`); err == nil {
		t.Error("an expression that imports a file is taken")
	}
}

func TestTemplate(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`{{range .}}{{.key}} {{.token}} {{duration .remaining_ms}}{{"\n"}}{{end}}`: "account:42 9007199254740993 12.345s\nb <c> & d 7 0s\n",
		`{{len .}}`:            "2\n",
		`{{json (index . 1)}}`: `{"expired":true,"expires_at":"infinity","key":"b <c> & d","owner":"=cmd|' /C calc'!A0","remaining_ms":0,"token":7,"token_str":"7"}` + "\n",
	} {
		got, err := shaped(t, transform(t, ui.ParseTemplate, text), rows)
		if err != nil || got != want {
			t.Errorf("%s: %q, %v, want %q", text, got, err, want)
		}
	}
}

// What does not fit the result loses nothing of it.
func TestUnfitTransforms(t *testing.T) {
	t.Parallel()
	for _, p := range []ui.Printer{
		transform(t, ui.ParseJQ, `.[0].key.x`),
		transform(t, ui.ParseJQ, `error("no")`),
		transform(t, ui.ParseTemplate, `{{range .}}{{.nosuch}}{{end}}`),
		{Format: ui.Table, Columns: []string{"key", "nosuch"}},
	} {
		got, err := shaped(t, p, rows)
		unfit, ok := errors.AsType[*ui.TransformError](err)
		if !ok || got != "" {
			t.Errorf("%+v: %q, %v", p, got, err)
			continue
		}
		var kept []row
		if err := json.Unmarshal(unfit.Result, &kept); err != nil || len(kept) != len(rows) || kept[0] != rows[0] {
			t.Errorf("%+v: the error keeps %s: %v", p, unfit.Result, err)
		}
	}
	for _, expr := range []string{"", ".[", "nosuch(1)"} {
		if _, err := ui.ParseJQ(expr); err == nil || !strings.Contains(err.Error(), expr) {
			t.Errorf("jq %q: %v", expr, err)
		}
	}
	if _, err := ui.ParseTemplate("{{nosuch}}"); err == nil {
		t.Error("a template that calls what there is not is taken")
	}
}

func TestColumns(t *testing.T) {
	t.Parallel()
	names := []string{"expired", "KEY"}
	for _, c := range []struct {
		printer ui.Printer
		want    string
	}{
		{ui.Printer{Format: ui.Table, Columns: names}, "EXPIRED  KEY\nno       account:42\nyes      b <c> & d\n"},
		{ui.Printer{Format: ui.Table, Columns: names, NoHeaders: true}, "no   account:42\nyes  b <c> & d\n"},
		{ui.Printer{Format: ui.CSV, Columns: names}, "expired,key\nno,account:42\nyes,b <c> & d\n"},
		{ui.Printer{Format: ui.CSV, Columns: names, NoHeaders: true}, "no,account:42\nyes,b <c> & d\n"},
	} {
		got, err := shaped(t, c.printer, rows)
		if err != nil || got != c.want {
			t.Errorf("%+v: %q, %v, want %q", c.printer, got, err, c.want)
		}
	}
}

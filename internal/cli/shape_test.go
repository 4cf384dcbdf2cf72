package cli_test

import (
	"encoding/json"
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dlockctl/dlockctl/internal/cli"
	"github.com/dlockctl/dlockctl/internal/cli/app"
	"github.com/dlockctl/dlockctl/internal/cli/docs"
	"github.com/dlockctl/dlockctl/internal/cli/topic"
	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/ui"
)

var update = flag.Bool("update", false, "write docs/cli.json again")

func listing() *fake {
	return &fake{list: func(f lockstore.Filter) ([]lockstore.Entry, error) {
		if !strings.HasPrefix("account:42", f.Prefix) {
			return nil, nil
		}
		hostile := entry(107)
		hostile.Key, hostile.Owner = "evil\tkey\x1b[2J", "eve\n"
		return []lockstore.Entry{entry(106), hostile}, nil
	}}
}

// What shapes a result works on a verb's own output.
func TestShapes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"--jq", ".[0].token"}, "106\n"},
		{[]string{"--jq", ".[].owner"}, "alice@a\neve\\n\n"},
		{[]string{"-o", "json", "--jq", "length"}, "2\n"},
		{[]string{"--template", `{{range .}}{{.key}}{{"\n"}}{{end}}`}, "account:42\nevil\\tkey\\x1b[2J\n"},
		{[]string{"--columns", "owner,key"}, "OWNER    KEY\nalice@a  account:42\neve\\n    evil\\tkey\\x1b[2J\n"},
		{[]string{"--columns", "token", "--no-headers", "-o", "csv"}, "106\n107\n"},
	} {
		run(t, listing(), append([]string{"lock", "list"}, c.args...)...).check(t, app.OK, c.want, "")
		if got := run(t, listing(), append([]string{"lock", "list"}, c.args...)...).out; got != c.want {
			t.Errorf("%q prints %q, want %q", c.args, got, c.want)
		}
	}
}

// A wrong shape is refused before anything is sent, as far as it can be told.
func TestWrongShapes(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"--jq .[":                     `jq expression ".["`,
		"--jq . --template {{.}}":     "--jq and --template cannot both",
		"--jq . -o csv":               "-o csv is none",
		"--jq . --columns key":        "--columns is for tables and CSV",
		"--columns key -o yaml":       "not for -o yaml",
		"--template {{nosuch}}":       "--template: template:",
		"--template {{.a --columns b": "--template: template:",
	} {
		run(t, nil, append([]string{"acquire", "k"}, strings.Fields(args)...)...).check(t, app.Usage, "", want)
	}
}

// What only the result shows to be wrong costs nothing of the result: the lock
// is held, and its token is told.
func TestUnfitShapeKeepsTheResult(t *testing.T) {
	t.Parallel()
	for _, shape := range [][]string{{"--jq", ".token.x"}, {"--columns", "nosuch"}, {"--template", "{{.nosuch}}"}} {
		r := run(t, &fake{}, append([]string{"acquire", "account:42"}, shape...)...)
		if r.exit != app.Unexpected || r.out != "" || !strings.Contains(r.err, "106") {
			t.Errorf("%q: exit %d, stdout %q, stderr %q", shape, r.exit, r.out, r.err)
		}
	}
}

// A shell is given the live keys, owners and profiles, and never a word
// of what is wrong.
func TestCompletionOfLiveValues(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"release ":                   "account:42\talice@a, 40s left\n:4\n",
		"lock show acc":              "account:42\talice@a, 40s left\n:4\n",
		"lock show other":            ":4\n",
		"lock list --owner al":       "alice@a\n:4\n",
		"revoke --prefix a":          "account:42\talice@a, 40s left\n:4\n",
		"release account:42 ":        ":4\n",
		"lock list --profile d":      "dev\n:4\n",
		"payout show ":               ":4\n",
		"lock list --lock-dsn-file ": ":0\n",
	} {
		words := strings.Split(line, " ")
		if got := run(t, listing(), append([]string{"__complete"}, words...)...).out; got != want {
			t.Errorf("%q completes %q, want %q", line, got, want)
		}
	}
}

func TestCompletionIsSilent(t *testing.T) {
	t.Parallel()
	broken := &fake{list: func(lockstore.Filter) ([]lockstore.Entry, error) { return nil, lockstore.ErrNotPrimary }}
	r := run(t, broken, "__complete", "release", "")
	if r.out != ":4\n" || strings.Contains(r.err, "standby") {
		t.Errorf("stdout %q, stderr %q", r.out, r.err)
	}
	off := func(s *ui.Streams) {
		env := s.Env
		s.Env = func(name string) string {
			if name == "DLOCKCTL_COMPLETION_DB" {
				return "0"
			}
			return env(name)
		}
	}
	if r := runWith(t, t.Context(), nil, off, "", "__complete", "release", ""); r.out != ":4\n" {
		t.Errorf("switched off, it completes %q", r.out)
	}
}

// The topics of help are there, name what the tables hold, and show examples
// that the program takes.
func TestTopics(t *testing.T) {
	t.Parallel()
	for _, name := range topic.Names() {
		r := run(t, nil, "help", name)
		if r.exit != app.OK || r.err != "" || len(r.out) < 500 {
			t.Errorf("help %s: exit %d, %q, %q", name, r.exit, r.out, r.err)
		}
		for i, text := range strings.Split(r.out, "\n") {
			if len(text) > 100 {
				t.Errorf("help %s: line %d is %d wide", name, i+1, len(text))
			}
		}
	}
	run(t, nil, "help", "environment").check(t, app.OK, "DLOCKCTL_LOCK_DSN_FILE", "")
	run(t, nil, "help", "exit-codes").check(t, app.OK, "  130  interrupted (SIGINT)", "")
}

// docs/cli.json is the command line; whoever changes it sees what a script may
// have relied on. `go test ./internal/cli -run TestDefinition -update` writes it.
//
// Mutation: rename any flag.
func TestDefinition(t *testing.T) {
	t.Parallel()
	const path = "../../docs/cli.json"
	streams, _, _ := ui.Test("", nil)
	now, err := json.MarshalIndent(docs.Definition(cli.NewRoot(app.New(streams, nil))), "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(path, append(now, '\n'), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	was, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.TrimSpace(string(was)), string(now)); diff != "" {
		t.Errorf("the command line has changed (-docs/cli.json +now); run with -update if it was meant:\n%s", diff)
	}
}

package cli_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/dlockctl/dlockctl/internal/cli"
	"github.com/dlockctl/dlockctl/internal/cli/app"
	"github.com/dlockctl/dlockctl/internal/ui"
)

// Wrong usage is exit 2 with a hint, stdout empty, and opens no database.
//
// Mutation: take app.Group off any group, or Args off any verb.
func TestWrongUsage(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("k", 1025)
	for _, c := range []struct {
		args string
		want string
	}{
		{"", "dlockctl needs a command"},
		{"lock", "dlockctl lock needs a command"},
		{"session", "needs a command"},
		{"audit", "needs a command"},
		{"migrate", "needs a command"},
		{"dev", "needs a command"},
		{"completion", "needs a command"},
		{"restore", "dlockctl restore needs a command"},
		{"frobnicate", `dlockctl has no command "frobnicate"`},
		{"acqire k", "did you mean: dlockctl acquire"},
		{"unlock k", "did you mean: dlockctl release\n"},
		{"take k", "did you mean: dlockctl acquire\n"},
		{"extend k", "did you mean: dlockctl renew\n"},
		{"steal k", "did you mean: dlockctl revoke\n"},
		{"unfreeze", "did you mean: dlockctl thaw\n"},
		{"lokc", "did you mean: dlockctl lock\n"},
		{"lock lst", "did you mean: dlockctl lock list"},
		{"completion tcsh", `has no command "tcsh"`},
		{"help nosuch", `no command or topic "nosuch"`},
		{"acquire", "dlockctl acquire needs KEY"},
		{"acquire a b", `takes no argument "b"`},
		{"lock list x", `takes no argument "x"`},
		{"version x", `takes no argument "x"`},
		{"acquire k --bogus", "unknown flag: --bogus"},
		{"acquire k --ttl", "flag needs an argument"},
		{"acquire k --ttl 30", "a duration has a unit"},
		{"acquire k --ttl 0s", "ttl 0s is below the minimum of 100ms"},
		{"acquire k --ttl -1s", "below the minimum"},
		{"acquire k --ttl 99ms", "below the minimum"},
		{"acquire k --ttl 24h1ns", "above the maximum of 24h0m0s"},
		{"acquire k --ttl 999999h", "above the maximum"},
		{"acquire k --ttl 9999999999h", `--ttl "9999999999h" is longer than the longest duration`},
		{"lock list --limit abc", `--limit "abc": it is not a whole number in decimal digits`},
		{"lock list --limit 99999999999999999999", `--limit "99999999999999999999": it does not fit in 64 bits`},
		{"lock list --expired=maybe", `--expired "maybe" is neither true nor false`},
		{"serve lock-server --rate many", `--rate "many": it is not a whole number`},
		{"restore plan --observed k1", `--observed: token "k1" is not a decimal number`},
		{"restore plan --accept-missing a\"b", `--accept-missing "a\"b": parse error`},
		{"acquire k --ttl NaN", "a duration has a unit"},
		{"acquire k --owner \x1b[2J", `control character U+001B`},
		{"acquire " + long, "is 1025 bytes long"},
		{"acquire a\xffb", "is not UTF-8"},
		{"acquire a\x00b", "U+0000"},
		{"renew k", "--token is missing"},
		{"renew k --token 0", "token 0 is below 1"},
		{"renew k --token -1", "not a decimal number"},
		{"renew k --token 9007199254740993", "above 2^53"},
		{"renew k --token 9223372036854775807", "above 2^53"},
		{"renew k --token 9223372036854775808", "above 2^53"},
		{"release k", "--token is missing"},
		{"revoke k", "--reason is missing; say why, the audit row keeps it"},
		{"revoke --prefix k", "--reason is missing; say why, the audit row keeps it"},
		{"audit prune --older-than 720h --yes", "--reason is missing; say why, the audit row keeps it"},
		{"revoke k --reason r --yes", "--yes needs --token N or --any-token"},
		{"revoke k --reason r --token 1 --any-token", "--token names one grant and --any-token none"},
		{"freeze", "--reason is missing"},
		{"thaw", "--reason is missing"},
		{"restore fast-forward --yes", "--reason is missing"},
		{"restore plan --margin -1", "--margin -1 is below 1"},
		{"restore plan --mark-dir marks", "is relative"},
		{"lock list --limit -1", "--limit -1 is negative"},
		{"session reap --limit 0", "--limit 0 reaps nothing"},
		{"session show x\x01", "session id"},
		{"audit show x", `audit id "x" is not a number`},
		{"audit show 0", `audit id "0"`},
		{"lock list -o xml", `output "xml" is unknown`},
		{"lock list --color mauve", `color "mauve" is unknown`},
		{"lock list --timeout 0s", "timeout 0s is too short"},
		{"lock list --profile nope", "no such profile"},
		{"lock list --config /nonexistent/x.yaml", "no such file"},
		{"lock list --lock-dsn-file /nonexistent/dsn", "from --lock-dsn-file"},
		{"migrate up --target mars", `--target "mars" is unknown`},
		{"migrate baseline 2", "--target is missing"},
		{"migrate new words", `--target "" names no folder`},
	} {
		t.Run(c.args, func(t *testing.T) {
			t.Parallel()
			args := strings.Fields(c.args)
			r := run(t, nil, args...)
			r.check(t, app.Usage, "", c.want)
			if c.args != "" && len(args) > 1 && strings.Count(r.err, "\n") > 2 {
				t.Errorf("more than an error and a hint: %q", r.err)
			}
			// The same as one JSON object, wherever -o stands.
			if c.args != "lock list -o xml" {
				asJSON := run(t, nil, append(args, "-o", "json")...)
				if strings.HasSuffix(c.args, "--ttl") {
					return // it takes -o for its value
				}
				if got := fields(t, asJSON.err); got["exit_code"] != float64(app.Usage) || got["code"] == "" || got["message"] == "" {
					t.Errorf("as JSON: %v", got)
				}
			}
		})
	}
}

// --help, version and completion work with a broken configuration and open
// nothing.
func TestHelpNeedsNothing(t *testing.T) {
	t.Parallel()
	broken := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(broken, []byte("no: such: yaml"), 0o600); err != nil {
		t.Fatal(err)
	}
	change := func(s *ui.Streams) {
		s.Env = func(name string) string {
			switch name {
			case "DLOCKCTL_CONFIG":
				return broken
			case "HOME", "XDG_STATE_HOME":
				t.Errorf("looked for state: %s", name)
			}
			return ""
		}
	}
	for args, want := range map[string]string{
		"--help":                "Usage:",
		"acquire --help":        "--ttl duration",
		"help lock list":        "dlockctl lock list",
		"version":               "dlockctl ",
		"version -o json":       `"schema_versions"`,
		"completion bash":       "__start_dlockctl",
		"completion zsh":        "#compdef dlockctl",
		"completion fish":       "complete -c dlockctl",
		"completion powershell": "Register-ArgumentCompleter",
	} {
		runWith(t, t.Context(), nil, change, "", strings.Fields(args)...).check(t, app.OK, want, "")
	}
	// The same file stops what needs it.
	runWith(t, t.Context(), nil, change, "", "lock", "list").check(t, app.Usage, "", "config.yaml")
}

func TestNothingConfigured(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	change := func(s *ui.Streams) {
		s.Env = func(name string) string { return map[string]string{"HOME": home, "DLOCKCTL_STATE_DIR": home}[name] }
	}
	for _, args := range []string{"lock list", "acquire k", "migrate up", "migrate status --target paydb"} {
		runWith(t, t.Context(), nil, change, "", strings.Fields(args)...).
			check(t, app.Usage, "", "error: no database configured\nhint: run: dlockctl dev up, or set DLOCKCTL_")
	}
}

// A malformed connection string is refused without a letter of it.
//
// Mutation: put pgx's own error into connConfig's.
func TestMalformedDSNIsNotShown(t *testing.T) {
	t.Parallel()
	for _, dsn := range []string{
		"postgres://u:%zz" + secret + "@h/db", "postgres://u:" + secret + "@h:port/db", "host=h password='" + secret,
		"password=" + secret + " nonsense", "postgres://u@h/db?password=" + secret + "&sslmode=" + secret, "u:" + secret + "@h",
	} {
		for _, format := range []string{"table", "json"} {
			change := func(s *ui.Streams) {
				s.Env = func(name string) string { return map[string]string{"DLOCKCTL_LOCK_DSN": dsn}[name] }
			}
			runWith(t, t.Context(), nil, change, "", "lock", "list", "-o", format).check(t, app.Usage, "", "connection string is malformed (from DLOCKCTL_LOCK_DSN)")
		}
	}
}

// Every command says what it is for and shows lines that run: each example is
// a command that exists with flags that it has.
func TestEveryCommandIsDocumented(t *testing.T) {
	t.Parallel()
	streams, _, _ := ui.Test("", nil)
	walk(cli.NewRoot(app.New(streams, nil)), func(cmd *cobra.Command) {
		if cmd.Name() == "help" || !cmd.HasParent() {
			return
		}
		if cmd.Short == "" || cmd.Example == "" {
			t.Errorf("%s has no Short or no Example", cmd.CommandPath())
		}
		if cmd.RunE == nil {
			t.Errorf("%s has no RunE: cobra would exit 0", cmd.CommandPath())
		}
		for line := range strings.Lines(cmd.Example) {
			checkExample(t, cmd, strings.TrimSpace(line))
		}
		cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if f.Usage == "" {
				t.Errorf("%s --%s has no usage", cmd.CommandPath(), f.Name)
			}
		})
	})
}

func walk(cmd *cobra.Command, visit func(*cobra.Command)) {
	visit(cmd)
	for _, child := range cmd.Commands() {
		walk(child, visit)
	}
}

func checkExample(t *testing.T, cmd *cobra.Command, line string) {
	t.Helper()
	line, _, _ = strings.Cut(line, " | ")
	line, _, _ = strings.Cut(line, " > ")
	words := shellWords(line)
	if len(words) == 0 || words[0] != "dlockctl" {
		t.Errorf("%s: example %q does not begin with dlockctl", cmd.CommandPath(), line)
		return
	}
	streams, _, _ := ui.Test("", nil)
	root := cli.NewRoot(app.New(streams, nil))
	found, rest, err := root.Find(words[1:])
	if err != nil {
		t.Errorf("%s: example %q: %v", cmd.CommandPath(), line, err)
		return
	}
	if err := found.ParseFlags(rest); err != nil {
		t.Errorf("%s: example %q: %v", cmd.CommandPath(), line, err)
	}
	if err := found.ValidateArgs(found.Flags().Args()); err != nil {
		t.Errorf("%s: example %q: %v", cmd.CommandPath(), line, err)
	}
}

// shellWords splits at blanks outside single and double quotes.
func shellWords(line string) []string {
	var words []string
	var word strings.Builder
	var quote rune
	for _, r := range line + " " {
		switch {
		case quote == 0 && (r == '\'' || r == '"'):
			quote = r
		case r == quote:
			quote = 0
		case quote == 0 && r == ' ':
			if word.Len() > 0 {
				words = append(words, word.String())
			}
			word.Reset()
		default:
			word.WriteRune(r)
		}
	}
	return words
}

// A run makes the commands that its first word names, and none is lost by that.
//
// Mutation: give a branch a name that none of its commands has.
func TestBranchesHoldTheirNames(t *testing.T) {
	t.Parallel()
	streams, _, _ := ui.Test("", nil)
	whole := cli.NewRoot(app.New(streams, nil))
	for _, cmd := range whole.Commands() {
		if cmd.Name() == "help" {
			continue
		}
		args := []string{cmd.Name(), "--help"}
		a := run(t, nil, args...)
		b := run(t, nil, append([]string{"-o", "table"}, args...)...) // builds the whole tree
		if a.exit != app.OK || a.out != b.out || !strings.Contains(a.out, "dlockctl "+cmd.Name()) {
			t.Errorf("%v: exit %d: %s", args, a.exit, a.out)
		}
	}
}

package cli_test

import (
	"testing"

	"github.com/spf13/cobra"

	"github.com/dlockctl/dlockctl/internal/cli"
	"github.com/dlockctl/dlockctl/internal/cli/app"
	"github.com/dlockctl/dlockctl/internal/ui"
)

// A command that is printed to be run names the databases that the running one was told,
// wherever it stands in a sentence, and keeps those that it names itself.
//
// Mutation: take any case out of commandAt, answer or without.
func TestPrintedCommandsRunAsTheyStand(t *testing.T) {
	t.Parallel()
	streams, _, _ := ui.Test("", map[string]string{"HOME": t.TempDir()})
	told := func(flags ...string) *app.App {
		a := app.New(streams, nil)
		a.Knowing(func() *cobra.Command { return cli.NewRoot(app.New(streams, nil)) })
		plan, _, err := cli.NewRoot(a).Find([]string{"restore", "plan"})
		if err == nil {
			err = plan.ParseFlags(flags)
		}
		if err != nil {
			t.Fatal(err)
		}
		a.Use(plan)
		return a
	}
	a := told("-p", "prod", "--config", "my config.yaml", "--allow-same-instance")
	const with = " --profile prod --config 'my config.yaml' --allow-same-instance"
	for text, want := range map[string]string{
		"run: dlockctl restore plan":                                             "run: dlockctl restore plan" + with,
		"dlockctl restore fast-forward --reason TEXT again: it completes it":     "dlockctl restore fast-forward --reason TEXT" + with + " again: it completes it",
		"look with dlockctl lock show before going on":                           "look with dlockctl lock show" + with + " before going on",
		"look with dlockctl restore plan; running it again is safe":              "look with dlockctl restore plan" + with + "; running it again is safe",
		"dlockctl restore fast-forward --accept-missing outside_mark":            "dlockctl restore fast-forward --accept-missing outside_mark" + with,
		"run dlockctl migrate up --target all":                                   "run dlockctl migrate up --target all" + with,
		"dlockctl payout resolve 00-ab --reason 'finding A 01' --dry-run please": "dlockctl payout resolve 00-ab --reason 'finding A 01' --dry-run" + with + " please",
		"dlockctl revoke account:42 --reason TEXT":                               "dlockctl revoke account:42 --reason TEXT" + with,
		"dlockctl dev up starts them":                                            "dlockctl dev up" + with + " starts them",
		"dlockctl thaw --reason TEXT, then dlockctl doctor.":                     "dlockctl thaw --reason TEXT" + with + ", then dlockctl doctor" + with + ".",
		"dlockctl freeze --lock-dsn-file FILE --profile other --reason TEXT":     "dlockctl freeze --lock-dsn-file FILE --profile other --reason TEXT --config 'my config.yaml' --allow-same-instance",
		"dlockctl thaw --profile=other":                                          "dlockctl thaw --profile=other --config 'my config.yaml' --allow-same-instance",
		"dlockctl restore plan -o csv writes one":                                "dlockctl restore plan -o csv" + with + " writes one",
		"dlockctl renew job --token 7" + with + " extends it":                    "dlockctl renew job --token 7" + with + " extends it",
		"`dlockctl migrate repair` accepts it":                                   "`dlockctl migrate repair" + with + "` accepts it",
		"dlockctl help formatting":                                               "dlockctl help formatting",
		"dlockctl restore plan --help":                                           "dlockctl restore plan --help",
		"use a newer dlockctl":                                                   "use a newer dlockctl",
		"dlockctl does not say":                                                  "dlockctl does not say",
	} {
		if got := a.Runnable(text); got != want {
			t.Errorf("%q\nbecomes %q\nwant    %q", text, got, want)
		}
	}
	if got := told().Runnable("run: dlockctl restore plan"); got != "run: dlockctl restore plan" {
		t.Errorf("without flags it becomes %q", got)
	}
}

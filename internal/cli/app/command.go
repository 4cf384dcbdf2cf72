package app

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/ui"
)

// GlobalFlags adds the flags that every command takes.
func (a *App) GlobalFlags(flags *pflag.FlagSet) {
	flags.StringP("output", "o", "table", "output `FORMAT`: "+strings.Join(ui.Formats(), "|"))
	flags.StringSlice("columns", nil, "show these `COLUMNS` of a table or CSV, by their JSON names, in this order")
	flags.Bool("no-headers", false, "leave the titles of a table or CSV out")
	flags.String("jq", "", "filter the JSON with a jq `EXPRESSION`, and print strings as they are")
	flags.String("template", "", "print the JSON through a Go `TEMPLATE`")
	flags.StringP("profile", "p", "dev", "profile `NAME` of the configuration file; dev is the embedded databases")
	flags.String("config", "", "configuration `FILE` (default $XDG_CONFIG_HOME/dlockctl/config.yaml)")
	flags.String("lock-dsn-file", "", "`FILE` that holds lockdb's connection string")
	flags.String("pay-dsn-file", "", "`FILE` that holds paydb's connection string")
	flags.String("rail-dsn-file", "", "`FILE` that holds paydb's connection string as payapp_rail (default: the one of paydb)")
	flags.String("environment", "", "`NAME` that both databases must be marked as before anything is changed")
	flags.Duration("timeout", 0, "deadline of the whole command (default 30s)")
	flags.String("color", "auto", "colour `WHEN`: auto|always|never")
	flags.String("state-dir", "", "`FOLDER` of the embedded databases")
	flags.Bool("allow-same-instance", false, "go on though locks and money share one PostgreSQL instance")
	serverFlags(flags)
	backendFlags(flags)
}

// Connection returns the flags of the running command that say which database
// it speaks to, and under which guards, as they were given: a command that is
// printed to be run needs them as well.
func (a *App) Connection() []string {
	var given []string
	for _, name := range []string{
		"profile", "config", "backend", "etcd-endpoints", "lock-dsn-file", "pay-dsn-file", "rail-dsn-file", "server", "state-dir", "environment",
	} {
		if value, set := a.flag(name); set {
			given = append(given, "--"+name, value)
		}
	}
	if value, _ := a.flag("allow-same-instance"); value == "true" {
		given = append(given, "--allow-same-instance")
	}
	return given
}

// Use tells the app which command runs, and so which flags were given.
func (a *App) Use(cmd *cobra.Command) { a.flags = cmd.Flags() }

// Args wants exactly these arguments, and names what is missing or too many.
func Args(names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		hint := fmt.Sprintf("%s --help", cmd.CommandPath())
		switch {
		case len(args) < len(names):
			return UsageError(hint, "%s needs %s", cmd.CommandPath(), names[len(args)])
		case len(args) > len(names):
			return UsageError(hint, "%s takes no argument %q", cmd.CommandPath(), args[len(names)])
		}
		return nil
	}
}

// OptionalArg wants at most one argument.
func OptionalArg() cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) > 1 {
			return UsageError(fmt.Sprintf("%s --help", cmd.CommandPath()), "%s takes no argument %q", cmd.CommandPath(), args[1])
		}
		return nil
	}
}

// Group makes a command that only holds others: called by itself it is wrong
// usage, unlike cobra's own, which would exit 0.
func Group(cmd *cobra.Command) *cobra.Command {
	cmd.Args = cobra.ArbitraryArgs
	cmd.SuggestionsMinimumDistance = 2
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		hint := fmt.Sprintf("%s --help", cmd.CommandPath())
		if len(args) == 0 {
			failure := UsageError(hint, "%s needs a command", cmd.CommandPath())
			failure.Help = cmd.UsageString()
			return failure
		}
		if near := suggestions(cmd, args[0]); len(near) > 0 {
			hint = "did you mean: " + cmd.CommandPath() + " " + strings.Join(near, ", ")
		}
		return UsageError(hint, "%s has no command %q", cmd.CommandPath(), args[0])
	}
	return cmd
}

// suggestions are the commands that a word may have meant: those that list it
// as another name for themselves, or else those spelt alike.
func suggestions(cmd *cobra.Command, word string) []string {
	var named []string
	for _, c := range cmd.Commands() {
		if slices.ContainsFunc(c.SuggestFor, func(other string) bool { return strings.EqualFold(other, word) }) {
			named = append(named, c.Name())
		}
	}
	if len(named) > 0 {
		return named
	}
	return cmd.SuggestionsFor(word)
}

// RequireReason refuses a command that keeps a reason and was given none.
func (a *App) RequireReason(reason string) error {
	if _, given := a.flag("reason"); !given {
		return UsageError("add --reason TEXT", "--reason is missing; say why, the audit row keeps it")
	}
	return lockstore.ValidReason(reason)
}

// CheckLimit refuses a negative --limit.
func CheckLimit(limit int) error {
	if limit < 0 {
		return UsageError("give 0 for no limit", "--limit %d is negative", limit)
	}
	return nil
}

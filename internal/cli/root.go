// Package cli is the command line: the root command, the list of all verbs and
// the one place where an error becomes an exit code. It parses, asks and
// prints; it decides nothing.
package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/dlockctl/dlockctl/internal/cli/account"
	"github.com/dlockctl/dlockctl/internal/cli/app"
	"github.com/dlockctl/dlockctl/internal/cli/audit"
	"github.com/dlockctl/dlockctl/internal/cli/completion"
	configcmd "github.com/dlockctl/dlockctl/internal/cli/config"
	"github.com/dlockctl/dlockctl/internal/cli/demo"
	"github.com/dlockctl/dlockctl/internal/cli/dev"
	"github.com/dlockctl/dlockctl/internal/cli/docs"
	"github.com/dlockctl/dlockctl/internal/cli/doctor"
	"github.com/dlockctl/dlockctl/internal/cli/drill"
	"github.com/dlockctl/dlockctl/internal/cli/gate"
	"github.com/dlockctl/dlockctl/internal/cli/lock"
	"github.com/dlockctl/dlockctl/internal/cli/migrate"
	"github.com/dlockctl/dlockctl/internal/cli/payout"
	reconcilecmd "github.com/dlockctl/dlockctl/internal/cli/reconcile"
	restorecmd "github.com/dlockctl/dlockctl/internal/cli/restore"
	"github.com/dlockctl/dlockctl/internal/cli/run"
	"github.com/dlockctl/dlockctl/internal/cli/serve"
	"github.com/dlockctl/dlockctl/internal/cli/session"
	"github.com/dlockctl/dlockctl/internal/cli/token"
	"github.com/dlockctl/dlockctl/internal/cli/top"
	"github.com/dlockctl/dlockctl/internal/cli/topic"
	"github.com/dlockctl/dlockctl/internal/cli/version"
	"github.com/dlockctl/dlockctl/internal/ui"
)

// Main runs the program with these arguments, without its own name, and
// returns its exit code. SIGINT, SIGTERM and SIGHUP end the command's context;
// the second one of them ends the process.
func Main(ctx context.Context, args []string, streams *ui.Streams) int {
	ctx, stop := untilSignal(ctx)
	defer stop()
	return int(Run(ctx, app.New(streams, args), args))
}

// Run runs one command of an app.
func Run(ctx context.Context, a *app.App, args []string) app.Exit {
	defer a.Close()
	a.Running(Run)
	a.Knowing(func() *cobra.Command { return NewRoot(app.New(a.Streams, nil)) })
	root := newRoot(a, needed(args))
	if completing(args) {
		completion.Live(a, root) //nolint:contextcheck // each completion takes its own command's
	}
	root.SetArgs(args)
	if err := root.ExecuteContext(ctx); err != nil {
		return a.Report(err)
	}
	return app.OK
}

// completing tells that a shell asks, not a person.
func completing(args []string) bool {
	return len(args) > 0 && (args[0] == cobra.ShellCompRequestCmd || args[0] == cobra.ShellCompNoDescRequestCmd)
}

// branch is a part of the tree: the commands it holds at the top, and how they
// are made.
type branch struct {
	group string
	names []string
	build func(*app.App) []*cobra.Command
}

func one(build func(*app.App) *cobra.Command) func(*app.App) []*cobra.Command {
	return func(a *app.App) []*cobra.Command { return []*cobra.Command{build(a)} }
}

// branches is the list of everything below the root, in the order of --help.
func branches() []branch {
	return []branch{
		{"lock", []string{"acquire", "renew", "release", "revoke"}, lock.Verbs},
		{"lock", []string{"run"}, one(run.New)},
		{"lock", []string{"lock"}, one(lock.New)},
		{"lock", []string{"session"}, one(session.New)},
		{"lock", []string{"audit"}, one(audit.New)},
		{"lock", []string{"token"}, one(token.New)},
		{"lock", []string{"top"}, one(top.New)},
		{"money", []string{"payout"}, one(payout.New)},
		{"money", []string{"account"}, one(account.New)},
		{"money", []string{"reconcile"}, one(reconcilecmd.New)},
		{"database", []string{"restore"}, one(restorecmd.New)},
		{"database", []string{"freeze", "thaw"}, gate.Verbs},
		{"database", []string{"migrate"}, one(migrate.New)},
		{"database", []string{"doctor"}, one(doctor.New)},
		{"database", []string{"drill"}, one(drill.New)},
		{"database", []string{"dev"}, one(dev.New)},
		{"database", []string{"demo"}, one(demo.New)},
		{"service", []string{"serve"}, one(serve.New)},
		{"other", []string{"config"}, one(configcmd.New)},
		{"other", []string{"version"}, one(version.New)},
		{"other", []string{"completion"}, one(completion.New)},
		{"other", []string{"docs"}, one(docs.New)},
	}
}

// needed leaves the branches that a command line can come to: the one that its
// first word names, for making the others takes longer than many a command. A
// script, which completes every word, the reference and help need them all.
func needed(args []string) []branch {
	all := branches()
	if len(args) == 0 || args[0] == "completion" || args[0] == "docs" {
		return all
	}
	for _, b := range all {
		if slices.Contains(b.names, args[0]) {
			return []branch{b}
		}
	}
	return all
}

// NewRoot builds the whole command tree.
func NewRoot(a *app.App) *cobra.Command { return newRoot(a, branches()) }

func newRoot(a *app.App, of []branch) *cobra.Command {
	root := &cobra.Command{
		Use:   "dlockctl",
		Short: "Fenced distributed locks on PostgreSQL, for operators and scripts",
		Long: "dlockctl takes, shows and revokes fenced locks. Data goes to stdout, everything else to\n" +
			"stderr; exit codes are stable (docs/exit-codes.md). Start with: dlockctl dev up\n\n" +
			"Topics: dlockctl help " + strings.Join(topic.Names(), "|"),
		SilenceErrors:     true,
		SilenceUsage:      true,
		DisableAutoGenTag: true,
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
		PersistentPreRun:  func(cmd *cobra.Command, _ []string) { a.Use(cmd) },
	}
	app.Group(root)
	a.GlobalFlags(root.PersistentFlags())
	root.SetIn(a.Streams.In)
	root.SetOut(a.Streams.Out)
	root.SetErr(a.Streams.Err)
	root.SetFlagErrorFunc(flagError)
	root.SetHelpCommand(newHelpCmd())
	completion.Flags(root)
	for _, group := range []cobra.Group{
		{ID: "lock", Title: "Locks:"},
		{ID: "money", Title: "Money:"},
		{ID: "database", Title: "Databases:"},
		{ID: "service", Title: "Services:"},
		{ID: "other", Title: "Other:"},
	} {
		root.AddGroup(&group)
	}
	for _, b := range of {
		for _, cmd := range b.build(a) {
			cmd.GroupID = b.group
			root.AddCommand(cmd)
		}
	}
	root.SetHelpCommandGroupID("other")
	return root
}

// newHelpCmd replaces cobra's, which answers an unknown topic with exit 0.
func newHelpCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND | TOPIC]",
		Short: "Show help for a command or a topic",
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				if t, ok := topic.Find(args[0]); ok {
					if _, err := io.WriteString(cmd.OutOrStdout(), t.Text()); err != nil {
						return fmt.Errorf("write the topic: %w", err)
					}
					return nil
				}
			}
			found, rest, err := cmd.Root().Find(args)
			if err != nil || found == nil || len(rest) > 0 {
				return app.UsageError("dlockctl --help", "there is no command or topic %q to help with", strings.Join(args, " "))
			}
			found.InitDefaultHelpFlag()
			return found.Help()
		},
	}
}

// untilSignal ends the context at the first SIGINT, SIGTERM or SIGHUP, with the signal
// as its cause, and gives the next one back to the system. A signal that the program
// was started to ignore, as by nohup, stays ignored.
func untilSignal(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	signals := make(chan os.Signal, 1)
	for _, s := range []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP} {
		if !signal.Ignored(s) {
			signal.Notify(signals, s)
		}
	}
	go func() {
		select {
		case s := <-signals:
			signal.Stop(signals)
			if number, ok := s.(syscall.Signal); ok {
				cancel(&app.SignalError{Signal: number})
			}
		case <-ctx.Done():
		}
	}()
	return ctx, func() {
		signal.Stop(signals)
		cancel(nil)
	}
}

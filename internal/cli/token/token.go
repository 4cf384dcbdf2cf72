// Package token holds the verb that explains a fencing token.
package token

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/dlockctl/dlockctl/internal/cli/app"
	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/lockstore/postgres"
	"github.com/dlockctl/dlockctl/internal/ui"
)

// New returns the token command with its verbs.
func New(a *app.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "token",
		Short:   "Explain fencing tokens",
		Long:    "A fencing token names one grant for all time: which lock, whose, from when, and how it ended.",
		Example: "  dlockctl token explain 106",
	}
	cmd.AddCommand(newExplainCmd(a))
	return app.Group(cmd)
}

func newExplainCmd(a *app.App) *cobra.Command {
	return &cobra.Command{
		Use:   "explain N",
		Short: "Tell everything that is known of a token",
		Long: "Tell the story of a token from the grant journal, the lock that stands, the audit and the\n" +
			"operator log. Exit 3 when nothing is known of it: it says why that may be. What the token wrote\n" +
			"in paydb is not looked at.",
		Example: "  dlockctl token explain 106\n  dlockctl token explain 106 -o json",
		Args:    app.Args("N"),
		RunE:    a.Run(func(ctx context.Context, args []string) error { return runExplain(ctx, a, args[0]) }),
	}
}

func runExplain(ctx context.Context, a *app.App, text string) error {
	token, err := lockstore.ParseToken(text)
	if err != nil {
		return err
	}
	store, err := a.LockStore(ctx, postgres.Reading)
	if err != nil {
		return err
	}
	story, err := explain(ctx, store, token)
	if err != nil {
		return err
	}
	for _, gap := range story.Unknown {
		a.Aside("unknown: %s", gap)
	}
	err = a.Print(ui.View{
		Data: story, Rows: story.Events,
		Columns: []ui.Column{
			{Title: "AT", Field: "at", Kind: ui.Since},
			{Title: "EVENT", Field: "event", Tones: map[string]ui.Tone{
				eventGranted: ui.Good, eventHeld: ui.Good, eventRevoked: ui.Bad, eventFence: ui.Warn,
			}},
			{Title: "WHAT", Field: "what"},
		},
		Name: "event",
	})
	if err != nil || story.Known {
		return err
	}
	return &app.Failure{
		Exit: app.NotFound, Code: "not_found", Message: fmt.Sprintf("nothing is known of token %s", token),
		Hint: "a token can be drawn and never granted; look at its neighbours, or at an export of the audit",
	}
}

// Package token holds the verb that explains a fencing token.
package token

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/spf13/cobra"

	"github.com/dlockctl/dlockctl/internal/cli/app"
	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/reconcile"
	"github.com/dlockctl/dlockctl/internal/ui"
)

// New returns the token command with its verbs.
func New(a *app.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "token",
		Short: "Explain fencing tokens",
		Long: "A fencing token names one grant for all time: which lock, whose, from when, how it ended, and what was\n" +
			"written under it.",
		Example: "  dlockctl token explain 106",
	}
	cmd.AddCommand(newExplainCmd(a))
	return app.Group(cmd)
}

func newExplainCmd(a *app.App) *cobra.Command {
	return &cobra.Command{
		Use:   "explain N",
		Short: "Tell everything that is known of a token",
		Long: "Tell the story of a token in order of time: from lockdb the grant journal, the lock that stands,\n" +
			"the audit and the operator log; from paydb, where it is configured, the claims, rail attempts, legs,\n" +
			"fences and marks under it. A login of dlock_auditor is enough. Nothing is indexed by token in paydb:\n" +
			"it reads each table once. Exit 3 when nothing is known of it: it says why that may be.",
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
	store, err := a.LockStore(ctx, app.Reading)
	if err != nil {
		return err
	}
	pay, err := payConfig(a)
	if err != nil {
		return err
	}
	story, err := explain(ctx, store, pay, token)
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
				string(reconcile.MomentRefused): ui.Bad,
			}},
			{Title: "WHAT", Field: "what"},
			{Title: "SOURCE", Field: "source", Wide: true},
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

// payConfig is how to reach paydb, nil where it is not configured.
func payConfig(a *app.App) (*pgx.ConnConfig, error) {
	cfg, err := a.Config()
	if err != nil {
		return nil, err
	}
	if !cfg.Pay.Configured() && !cfg.Embedded() {
		return nil, nil
	}
	pay, err := a.PayConfig()
	if err == nil && pay.ConnectTimeout == 0 {
		pay.ConnectTimeout = cfg.Timeout / 2 // a host that does not answer leaves time to tell the rest
	}
	return pay, err
}

package session

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/dlockctl/dlockctl/internal/cli/app"
	"github.com/dlockctl/dlockctl/internal/lockstore"
)

type createOptions struct {
	owner string
	ttl   time.Duration
}

func newCreateCmd(a *app.App) *cobra.Command {
	var opts createOptions
	cmd := &cobra.Command{
		Use:   "create",
		Short: "Make a session",
		Long: "Make a session and print its id, this once in full. Use one per worker: two that share a\n" +
			"session re-enter each other's locks.",
		Example: "  dlockctl session create --owner worker-7 --ttl 1m\n  dlockctl session create -o name",
		Args:    app.Args(),
		RunE:    a.Run(func(ctx context.Context, _ []string) error { return runCreate(ctx, a, opts) }),
	}
	cmd.Flags().StringVar(&opts.owner, "owner", "", "whose session it is (default user@host)")
	cmd.Flags().DurationVar(&opts.ttl, "ttl", defaultTTL, "it lapses after this without a heartbeat, 100ms to 24h")
	return cmd
}

func runCreate(ctx context.Context, a *app.App, opts createOptions) error {
	if opts.owner == "" {
		owner, err := app.UserAtHost()
		if err != nil {
			return app.UsageError("say whose session it is: --owner NAME", "%v", err)
		}
		opts.owner = owner
	}
	if err := errors.Join(lockstore.ValidOwner(opts.owner), lockstore.ValidTTL(opts.ttl)); err != nil {
		return err
	}
	store, err := open(ctx, a, app.Changing)
	if err != nil {
		return err
	}
	session, err := store.CreateSession(ctx, opts.owner, opts.ttl)
	if err != nil {
		return err
	}
	return printOne(a, view(session, true))
}

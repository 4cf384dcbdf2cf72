package session

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/dlockctl/dlockctl/internal/cli/app"
	"github.com/dlockctl/dlockctl/internal/lockstore"
)

func newHeartbeatCmd(a *app.App) *cobra.Command {
	var ttl time.Duration
	cmd := &cobra.Command{
		Use:   "heartbeat [ID]",
		Short: "Keep a session alive",
		Long: "Extend a live session to --ttl from now, never shorter than promised before. Exit 5 when it\n" +
			"has lapsed: every lock under it is void. Without ID it is the one in DLOCKCTL_SESSION, which\n" +
			"does not show in ps.",
		Example: "  dlockctl session heartbeat \"$SESSION\" --ttl 1m",
		Args:    app.OptionalArg(),
		RunE:    a.Run(func(ctx context.Context, args []string) error { return runHeartbeat(ctx, a, args, ttl) }),
	}
	cmd.Flags().DurationVar(&ttl, "ttl", defaultTTL, "it lapses after this without a heartbeat, 100ms to 24h")
	return cmd
}

func runHeartbeat(ctx context.Context, a *app.App, args []string, ttl time.Duration) error {
	id, _, err := a.SessionArg(args)
	if err := errors.Join(err, lockstore.ValidTTL(ttl)); err != nil {
		return err
	}
	store, err := open(ctx, a, app.Changing)
	if err != nil {
		return err
	}
	session, err := store.Heartbeat(ctx, id, ttl)
	if err != nil {
		return err
	}
	v := view(session, false)
	v.Locks = nil
	return printOne(a, v)
}

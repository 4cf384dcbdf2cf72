package lock

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/dlockctl/dlockctl/internal/cli/app"
	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/ui"
)

type renewOptions struct {
	key     string
	session lockstore.SessionID
	token   app.TokenFlag
	ttl     time.Duration
}

func newRenewCmd(a *app.App) *cobra.Command {
	var opts renewOptions
	cmd := &cobra.Command{
		Use:        "renew KEY --token N",
		SuggestFor: []string{"extend", "refresh"},
		Short:      "Extend a lock that is still held",
		Long: "Extend the lease of this very grant to --ttl from now, and its session with it, never shorter\n" +
			"than promised before. Exit 5 when the lock is no longer held: stop the work at once.",
		Example: "  dlockctl renew account:42 --token 106\n  dlockctl renew account:42 --token 106 --ttl 2m",
		Args:    app.Args("KEY"),
		RunE: a.Run(func(ctx context.Context, args []string) error {
			opts.key = args[0]
			return runRenew(ctx, a, opts)
		}),
	}
	flags := cmd.Flags()
	flags.Var(&opts.token, "token", "the token that acquire printed (required)")
	flags.String("session", "", "the lock's session (default: the one it hangs on)") // read through the configuration
	flags.DurationVar(&opts.ttl, "ttl", defaultTTL, "lease from now, 100ms to 24h")
	return cmd
}

func runRenew(ctx context.Context, a *app.App, opts renewOptions) error {
	if err := errors.Join(lockstore.LookupKey(opts.key), requireToken(opts.token), lockstore.ValidTTL(opts.ttl)); err != nil {
		return err
	}
	var err error
	if opts.session, err = a.Session(); err != nil {
		return err
	}
	store, err := a.LockStore(ctx, app.Changing)
	if err != nil {
		return err
	}
	sessions := store.Capabilities().Sessions
	var session lockstore.Session
	switch {
	case !sessions && opts.session != "":
		return app.Lacks(store, "sessions", "leave --session and DLOCKCTL_SESSION out: the lock hangs on its own lease")
	case sessions:
		if session, err = keepSession(ctx, store, opts); err != nil {
			return err
		}
	}
	grant, err := store.Renew(ctx, opts.key, opts.token.Token, opts.ttl)
	if err != nil {
		return err
	}
	if !sessions {
		session = bare(grant)
	}
	view := viewGrant(grant, session)
	view.Session = app.SessionText(session.ID, false)
	return a.Print(ui.View{Data: view, Columns: grantColumns(), Name: "token"})
}

// keepSession heartbeats the session that this very grant hangs on, before the
// lease is renewed: the promise is the smaller of the two, and the session's is
// counted from the earlier moment (K-2.2, K-2.10). A grant that is gone has no
// session to keep; renew says so.
func keepSession(ctx context.Context, store lockstore.Store, opts renewOptions) (lockstore.Session, error) {
	entry, err := store.Show(ctx, opts.key)
	switch {
	case errors.Is(err, lockstore.ErrNotFound), err == nil && (entry.Token != opts.token.Token || entry.Expired):
		return lockstore.Session{}, nil
	case err != nil:
		return lockstore.Session{}, err
	case opts.session != "" && opts.session != entry.Session:
		return lockstore.Session{}, app.UsageError("leave --session out: renew finds it",
			"lock %q with token %s does not hang on session %s", opts.key, opts.token.Token, opts.session.Masked())
	}
	return store.Heartbeat(ctx, entry.Session, opts.ttl)
}

func requireToken(f app.TokenFlag) error {
	if f.Token == 0 {
		return app.UsageError("give the token that acquire printed: --token N", "--token is missing")
	}
	return nil
}

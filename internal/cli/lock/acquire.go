package lock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/dlockctl/dlockctl/internal/cli/app"
	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/lockstore/postgres"
	"github.com/dlockctl/dlockctl/internal/ui"
)

const (
	// autoSession makes a fresh session for each acquire, so that two scripts
	// never share one by accident and re-enter each other's lock (K-2.2).
	autoSession = "auto"
	defaultTTL  = 30 * time.Second
)

type acquireOptions struct {
	key, owner, session string
	ttl                 time.Duration
}

// grantView is what acquire and renew print.
type grantView struct {
	Key string `json:"key"`
	app.Token
	Owner      string         `json:"owner,omitempty"`
	Session    string         `json:"session_id,omitempty"`
	AcquiredAt lockstore.Time `json:"acquired_at,omitzero"`
	ExpiresAt  lockstore.Time `json:"expires_at"`
	TTLMS      int64          `json:"ttl_ms"`
	// TrustedMS is how long, from now, the caller may rely on the grant by its
	// own clock: the lease and the session, whichever ends first, counted from
	// before each was asked for (K-2.10).
	TrustedMS int64 `json:"trusted_ms"`
	// Release is the command that gives the lock back.
	Release string `json:"release_command,omitempty"`
}

func grantColumns() []ui.Column {
	return []ui.Column{
		{Title: "KEY", Field: "key"},
		{Title: "TOKEN", Field: "token", Kind: ui.Number},
		{Title: "OWNER", Field: "owner", Optional: true},
		{Title: "SESSION", Field: "session_id", Optional: true},
		{Title: "EXPIRES", Field: "expires_at", Kind: ui.Until, Relative: "trusted_ms"},
		{Title: "RELEASE", Field: "release_command", Optional: true},
	}
}

func newAcquireCmd(a *app.App) *cobra.Command {
	var opts acquireOptions
	cmd := &cobra.Command{
		Use:   "acquire KEY",
		Short: "Take a lock, once, without waiting",
		Long: "Take a lock and print its fencing token: pass it with every write that the lock protects.\n" +
			"Exit 4 when a live other holds it.\n\n" +
			"Each acquire makes a session of its own, which lives as long as the lease (--session auto), so\n" +
			"that two scripts never re-enter each other's lock. The session id is printed once: with the\n" +
			"owner it is the right to re-enter, so keep it to yourself. If the lock is not granted, the\n" +
			"session is ended again.",
		Example: "  dlockctl acquire account:42\n" +
			"  dlockctl acquire account:42 --owner batch-7 --ttl 2m -o json",
		Args: app.Args("KEY"),
		RunE: a.Run(func(ctx context.Context, args []string) error {
			opts.key = args[0]
			return runAcquire(ctx, a, opts)
		}),
	}
	flags := cmd.Flags()
	flags.StringVar(&opts.owner, "owner", "", "who holds the lock (default user@host)")
	flags.StringVar(&opts.session, "session", autoSession, "session to hold it under: an id, or auto for a fresh one")
	flags.DurationVar(&opts.ttl, "ttl", defaultTTL, "lease, 100ms to 24h")
	return cmd
}

func runAcquire(ctx context.Context, a *app.App, opts acquireOptions) error {
	if opts.owner == "" {
		owner, err := app.UserAtHost()
		if err != nil {
			return app.UsageError("say who holds the lock: --owner NAME", "%v", err)
		}
		opts.owner = owner
	}
	if err := errors.Join(lockstore.ValidKey(opts.key), lockstore.ValidOwner(opts.owner), lockstore.ValidTTL(opts.ttl)); err != nil {
		return err
	}
	store, err := a.LockStore(ctx, postgres.Granting)
	if err != nil {
		return err
	}
	session, err := sessionFor(ctx, store, opts)
	if err != nil {
		return err
	}
	grant, err := store.Acquire(ctx, lockstore.AcquireParams{Key: opts.key, Owner: opts.owner, Session: session.ID, TTL: opts.ttl})
	if err != nil {
		return notGranted(ctx, a, store, opts, session.ID, err)
	}
	view := viewGrant(grant, session)
	view.Release = fmt.Sprintf("dlockctl release %s --token %s --session %s", quoted(grant.Key), grant.Token, quoted(string(session.ID)))
	return a.Print(ui.View{Data: view, Columns: grantColumns(), Name: "token"})
}

// sessionFor makes a fresh session, or looks the given one up: how long it
// lives bounds what the caller may trust.
func sessionFor(ctx context.Context, store lockstore.Store, opts acquireOptions) (lockstore.Session, error) {
	if opts.session == autoSession {
		return store.CreateSession(ctx, opts.owner, opts.ttl)
	}
	id := lockstore.SessionID(opts.session)
	if err := lockstore.ValidSessionID(id); err != nil {
		return lockstore.Session{}, err
	}
	sent := time.Now()
	session, err := store.Session(ctx, id)
	session.Sent = sent
	if errors.Is(err, lockstore.ErrNotFound) {
		return lockstore.Session{}, fmt.Errorf("acquire lock %q under session %s: %w", opts.key, id.Masked(), lockstore.ErrSessionLost)
	}
	return session, err
}

// notGranted ends the fresh session again, so that nothing is left of the try.
//
// An unknown outcome keeps it: a second try under the same session re-enters
// what the first may have been granted, so nothing is orphaned (K-2.9). Unless
// a signal was the reason, when nobody will try again: ending the session then
// settles that nothing is held, whatever became of the try.
func notGranted(ctx context.Context, a *app.App, store lockstore.Store, opts acquireOptions, id lockstore.SessionID, err error) error {
	var unknown *lockstore.UnknownOutcomeError
	isUnknown := errors.As(err, &unknown)
	if opts.session == autoSession && (!isUnknown || app.BySignal(ctx)) {
		endErr := endFresh(ctx, store, id)
		switch {
		case endErr == nil && isUnknown:
			return app.Stopped(ctx)
		case endErr != nil && !isUnknown:
			a.Warn("the session made for this try is left to lapse in %s: %v", opts.ttl, endErr)
		}
		isUnknown = isUnknown && endErr != nil
	}
	if !isUnknown {
		return err
	}
	retry := fmt.Sprintf("dlockctl acquire %s --owner %s --session %s --ttl %s", quoted(opts.key), quoted(opts.owner), quoted(string(id)), opts.ttl)
	return &app.Failure{
		Exit: app.Unknown, Code: "outcome_unknown", Message: err.Error(),
		Hint:    "it may have been granted; this settles it, with a token of its own: " + retry,
		Details: map[string]string{"key": opts.key, "session_id": string(id), "retry_command": retry},
	}
}

func endFresh(ctx context.Context, store lockstore.Store, id lockstore.SessionID) error {
	ctx, cancel := app.CleanUp(ctx)
	defer cancel()
	_, err := store.EndSession(ctx, id)
	if errors.Is(err, lockstore.ErrNotFound) {
		return nil
	}
	return err
}

func viewGrant(grant lockstore.Grant, session lockstore.Session) grantView {
	trusted := min(time.Until(grant.TrustedUntil()), time.Until(session.Sent.Add(session.Remaining)))
	return grantView{
		Key: grant.Key, Token: app.NewToken(grant.Token), Owner: grant.Owner, Session: string(session.ID),
		AcquiredAt: grant.AcquiredAt, ExpiresAt: grant.ExpiresAt, TTLMS: grant.TTL.Milliseconds(),
		TrustedMS: max(0, trusted.Milliseconds()),
	}
}

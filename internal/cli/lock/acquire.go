package lock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/dlockctl/dlockctl/internal/cli/app"
	"github.com/dlockctl/dlockctl/internal/config"
	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/ui"
)

const (
	// autoSession makes a fresh session for each acquire, so that two scripts
	// never share one by accident and re-enter each other's lock (K-2.2).
	autoSession = "auto"
	defaultTTL  = 30 * time.Second
)

type acquireOptions struct {
	key, owner string
	session    lockstore.SessionID
	ttl, wait  time.Duration
	// ambient tells that the session came without an argument: from
	// DLOCKCTL_SESSION or the configuration file.
	ambient bool
}

// fresh tells that the acquire makes a session of its own.
func (o acquireOptions) fresh() bool { return o.session == autoSession }

// sessionFlag names the session in a command that is printed to be run. An
// ambient one is found there again, without showing in ps (K-2.12); and a
// release that does not name it lets it live on.
func (o acquireOptions) sessionFlag(id lockstore.SessionID) []string {
	if o.ambient {
		return nil
	}
	return []string{"--session", string(id)}
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
	// LockID is the grant's secret id, where the backend shares its rows with a
	// library that asks for it; shown this once.
	LockID string `json:"lock_id,omitempty"`
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
		Use:        "acquire KEY",
		SuggestFor: []string{"take", "grab", "get"},
		Short:      "Take a lock, at once or with --wait",
		Long: "Take a lock and print its fencing token: pass it with every write that the lock protects.\n" +
			"Exit 4 when a live other holds it, with --wait when it was still held after that time. --timeout\n" +
			"counts on top of the wait. A signal ends it at once; with a session of its\n" +
			"own it leaves nothing held.\n\n" +
			"Each acquire makes a session of its own, which lives as long as the lease (--session auto), so\n" +
			"that two scripts never re-enter each other's lock. The session id is printed once: with the\n" +
			"owner it is the right to re-enter, so keep it to yourself: give it by DLOCKCTL_SESSION rather\n" +
			"than --session, which shows in ps. If the lock is not granted, the fresh session is ended again.",
		Example: "  dlockctl acquire account:42\n" +
			"  dlockctl acquire account:42 --owner batch-7 --ttl 2m -o json\n" +
			"  dlockctl acquire account:42 --wait 1m",
		Args: app.Args("KEY"),
		RunE: a.RunWaiting(func() time.Duration { return opts.wait }, func(ctx context.Context, args []string) error {
			opts.key = args[0]
			return runAcquire(ctx, a, opts)
		}),
	}
	flags := cmd.Flags()
	flags.StringVar(&opts.owner, "owner", "", "who holds the lock (default user@host)")
	flags.String("session", autoSession, "session to hold it under: an id, or auto for a fresh one") // read through the configuration
	flags.DurationVar(&opts.ttl, "ttl", defaultTTL, "lease, 100ms to 24h")
	flags.DurationVar(&opts.wait, "wait", 0, "wait so long for it to become free")
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
	if opts.wait < 0 {
		return app.UsageError("give a duration such as 1m, or leave it out to try once", "--wait %s is negative", opts.wait)
	}
	cfg, err := a.Config()
	if err != nil {
		return err
	}
	if opts.session, err = a.Session(); err != nil {
		return err
	}
	if opts.session == "" {
		opts.session = autoSession
	}
	opts.ambient = !opts.fresh() && cfg.Origin("session").Layer != config.Flag
	store, err := a.LockStore(ctx, app.Granting)
	if err != nil {
		return err
	}
	if !store.Capabilities().Sessions {
		return acquireBare(ctx, a, store, opts)
	}
	session, err := sessionFor(ctx, store, opts)
	if err != nil {
		return err
	}
	grant, err := try(ctx, a, store, opts, &session)
	if err != nil {
		return sameOwner(a, opts, notGranted(ctx, a, store, opts, session.ID, err))
	}
	warnOfTwin(ctx, a, store, opts.key)
	view := viewGrant(grant, session)
	view.Release = command(a, "release", grant.Key, append([]string{"--token", grant.Token.String()}, opts.sessionFlag(session.ID)...)...)
	return a.Print(ui.View{Data: view, Columns: grantColumns(), Name: "token"})
}

// sessionFor makes a fresh session, or looks the given one up: how long it
// lives bounds what the caller may trust. While waiting, this command is what
// keeps the caller's session alive.
func sessionFor(ctx context.Context, store lockstore.Store, opts acquireOptions) (lockstore.Session, error) {
	if opts.fresh() {
		return store.CreateSession(ctx, opts.owner, opts.ttl)
	}
	if err := lockstore.ValidSessionID(opts.session); err != nil {
		return lockstore.Session{}, err
	}
	if opts.wait > 0 {
		return store.Heartbeat(ctx, opts.session, opts.ttl)
	}
	sent := time.Now()
	session, err := store.Session(ctx, opts.session)
	session.Sent = sent
	if errors.Is(err, lockstore.ErrNotFound) {
		return lockstore.Session{}, fmt.Errorf("acquire lock %q under session %s: %w", opts.key, opts.session.Masked(), lockstore.ErrSessionLost)
	}
	return session, err
}

// try acquires once, or until the wait is over. A wait leaves the session as
// its last heartbeat did.
func try(ctx context.Context, a *app.App, store lockstore.Store, opts acquireOptions, session *lockstore.Session) (lockstore.Grant, error) {
	params := lockstore.AcquireParams{Key: opts.key, Owner: opts.owner, Session: session.ID, TTL: opts.ttl}
	if opts.wait == 0 {
		return store.Acquire(ctx, params)
	}
	grant, err := wait(ctx, store, lockstore.WaitParams{AcquireParams: params, Max: opts.wait, SessionTTL: opts.ttl, Waiting: tellHolder(a)})
	if err != nil || time.Since(session.Sent) < opts.ttl/10 {
		return grant, err
	}
	// The session was kept alive up to a third of its time ago: the lock would
	// go with it before the lease that was asked for is over.
	kept, err := store.Heartbeat(ctx, session.ID, opts.ttl)
	switch {
	case errors.Is(err, lockstore.ErrSessionLost):
		return lockstore.Grant{}, err
	case err != nil:
		a.Warn("the lock is granted, but its session could not be extended: renew it at once: %v", err)
		session.Sent, session.Remaining = time.Now(), 0
	default:
		session.Sent, session.Remaining = kept.Sent, kept.Remaining
	}
	return grant, nil
}

// tellHolder says who is waited for.
func tellHolder(a *app.App) func(*lockstore.HeldError) {
	return func(held *lockstore.HeldError) {
		left := ui.Left(held.Remaining) + ", unless it is renewed"
		if held.ExpiresAt.Infinite {
			left = "which never expires"
		}
		a.Aside("waiting for lock %q: %s, %s", held.Key, held.By(), left)
	}
}

// notGranted ends the fresh session again, so that nothing is left of the try or
// of the wait.
//
// An unknown outcome keeps it: a second try under the same session re-enters
// what the first may have been granted, so nothing is orphaned (K-2.9). Unless
// a signal was the reason, when nobody will try again: ending the session then
// settles that nothing is held, whatever became of the try.
func notGranted(ctx context.Context, a *app.App, store lockstore.Store, opts acquireOptions, id lockstore.SessionID, err error) error {
	var unknown *lockstore.UnknownOutcomeError
	isUnknown := errors.As(err, &unknown)
	if opts.fresh() && (!isUnknown || app.BySignal(ctx)) {
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
	flags := slices.Concat([]string{"--owner", opts.owner}, opts.sessionFlag(id), []string{"--ttl", opts.ttl.String()})
	retry := command(a, "acquire", opts.key, flags...)
	return &app.Failure{
		Exit: app.Unknown, Code: "outcome_unknown", Message: err.Error(),
		Hint:    "it may have been granted; this settles it, with a token of its own: " + retry,
		Details: map[string]string{"key": opts.key, "session_id": string(id), "retry_command": retry},
	}
}

// sameOwner says how the holder goes on, where the lock is held by the very
// owner that asks for it, under a session that is not this one.
func sameOwner(a *app.App, opts acquireOptions, err error) error {
	held, isHeld := errors.AsType[*lockstore.HeldError](err)
	if !isHeld || held.Owner != opts.owner || held.Token == 0 {
		return err
	}
	renew := command(a, "renew", held.Key, "--token", held.Token.String())
	return app.WithHint(err, "the same owner holds it under another session: "+renew+" extends it")
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
		TrustedMS: max(0, trusted.Milliseconds()), LockID: grant.LockID,
	}
}

// warnOfTwin says so when a key is granted while the same name in other bytes is
// held. The grant stands, whatever comes of the look.
func warnOfTwin(ctx context.Context, a *app.App, store lockstore.Store, key string) {
	if twin, err := heldTwin(ctx, store, key); err == nil && twin != "" {
		a.Warn("%s: the two do not exclude each other", twin)
	}
}

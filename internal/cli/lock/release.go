package lock

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/dlockctl/dlockctl/internal/cli/app"
	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/ui"
)

type releaseOptions struct {
	key, session            string
	token                   app.TokenFlag
	failIfStale, endSession bool
}

// releaseView is what release prints.
type releaseView struct {
	Key string `json:"key"`
	app.Token
	Outcome string `json:"outcome"`
	Stale   bool   `json:"stale"`
	// SessionEnded tells that the session went too; absent without --session.
	SessionEnded *bool `json:"session_ended,omitempty"`
}

// The outcomes of a release.
const (
	outcomeReleased = "RELEASED"
	outcomeStale    = "STALE"
)

func newReleaseCmd(a *app.App) *cobra.Command {
	var opts releaseOptions
	cmd := &cobra.Command{
		Use:        "release KEY --token N",
		SuggestFor: []string{"unlock", "free", "drop"},
		Short:      "Give a lock back",
		Long: "Delete the grant of this very token, or nothing: another holder's lock cannot be released by\n" +
			"mistake, and repeating a release is always safe. A token that does not hold the lock is a\n" +
			"success marked stale, exit 0, or 5 with --fail-if-stale.\n\n" +
			"With --session ID, or --end-session for the one in DLOCKCTL_SESSION, the session is ended too\n" +
			"when no lock hangs on it any more. Without, a session that acquire made lapses by itself when\n" +
			"its lease would have.",
		Example: "  dlockctl release account:42 --token 106\n  dlockctl release account:42 --token 106 --fail-if-stale",
		Args:    app.Args("KEY"),
		RunE: a.Run(func(ctx context.Context, args []string) error {
			opts.key = args[0]
			return runRelease(ctx, a, opts)
		}),
	}
	flags := cmd.Flags()
	flags.Var(&opts.token, "token", "the token that acquire printed (required)")
	flags.StringVar(&opts.session, "session", "", "also end this session, unless other locks hang on it")
	flags.BoolVar(&opts.endSession, "end-session", false, "also end the session in DLOCKCTL_SESSION, unless other locks hang on it")
	flags.BoolVar(&opts.failIfStale, "fail-if-stale", false, "exit 5 when the token does not hold the lock")
	return cmd
}

func runRelease(ctx context.Context, a *app.App, opts releaseOptions) error {
	session := lockstore.SessionID(opts.session)
	if opts.endSession && session == "" {
		var err error
		if session, err = a.Session(); err != nil {
			return err
		}
		if session == "" {
			return app.UsageError("set DLOCKCTL_SESSION, or give --session ID", "--end-session: no session is named")
		}
	}
	if err := errors.Join(lockstore.LookupKey(opts.key), requireToken(opts.token)); err != nil {
		return err
	}
	if session != "" {
		if err := lockstore.ValidSessionID(session); err != nil {
			return err
		}
	}
	store, err := a.LockStore(ctx, app.Changing)
	if err != nil {
		return err
	}
	if session != "" && !store.Capabilities().Sessions {
		return app.Lacks(store, "sessions", "leave --session and --end-session out: the lock hangs on its own lease")
	}
	if session != "" {
		// A session id that the store cannot hold is refused before anything is
		// released; whatever else is wrong with it does not keep the lock.
		if _, err := store.Session(ctx, session); errors.Is(err, lockstore.ErrInvalid) {
			return err
		}
	}
	release, err := store.Release(ctx, opts.key, opts.token.Token)
	if err != nil {
		return err
	}
	view := releaseView{Key: release.Key, Token: app.NewToken(release.Token), Outcome: outcomeReleased, Stale: release.Stale}
	if release.Stale {
		view.Outcome = outcomeStale
	}
	if session != "" {
		ended, err := endIdle(ctx, store, session)
		if err != nil {
			// The lock is given back, which is what was asked for first.
			a.Warn("the lock is released, its session %s is left to lapse: %v", session.Masked(), err)
		}
		view.SessionEnded = &ended
	}
	if err := a.Print(ui.View{Data: view, Columns: releaseColumns(), Name: "key"}); err != nil {
		return err
	}
	return staleness(a, opts, release)
}

func releaseColumns() []ui.Column {
	return []ui.Column{
		{Title: "KEY", Field: "key"},
		{Title: "TOKEN", Field: "token", Kind: ui.Number},
		{Title: "OUTCOME", Field: "outcome", Tones: map[string]ui.Tone{outcomeReleased: ui.Good, outcomeStale: ui.Warn}},
		{Title: "SESSION ENDED", Field: "session_ended", Optional: true},
	}
}

// staleness says aloud what the exit code keeps quiet (K-2.6).
func staleness(a *app.App, opts releaseOptions, release lockstore.Release) error {
	if !release.Stale {
		return nil
	}
	message := fmt.Sprintf("token %s does not hold lock %q; nothing was released", release.Token, release.Key)
	hint := "it lapsed, was taken, or the key or the token is mistyped: " + command(a, "token explain", release.Token.String())
	if opts.failIfStale {
		return &app.Failure{Exit: app.Lost, Code: "stale", Message: message, Hint: hint}
	}
	a.Warn("%s", message)
	a.Hint(hint)
	return nil
}

// endIdle ends a session on which nothing hangs. A session that is gone, or
// still carries other locks, is left as it is.
func endIdle(ctx context.Context, store lockstore.Store, id lockstore.SessionID) (bool, error) {
	session, err := store.Session(ctx, id)
	if errors.Is(err, lockstore.ErrNotFound) || err == nil && session.Locks > 0 {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	_, err = store.EndSession(ctx, id)
	if errors.Is(err, lockstore.ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}

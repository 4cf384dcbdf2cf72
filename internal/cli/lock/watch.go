package lock

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/text/unicode/norm"

	"github.com/dlockctl/dlockctl/internal/cli/app"
	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/ui"
)

const (
	defaultInterval  = time.Second
	shortestInterval = 100 * time.Millisecond
)

type watchOptions struct {
	key, session string
	filter       lockstore.Filter
	interval     time.Duration
	showSession  bool
}

// changeView is one line of a watch.
type changeView struct {
	Change lockstore.ChangeKind `json:"change"`
	entryView
}

func newWatchCmd(a *app.App) *cobra.Command {
	var opts watchOptions
	cmd := &cobra.Command{
		Use:   "watch [KEY]",
		Short: "Tell each change of a lock as it happens",
		Long: "Print what stands, then each change, until it is stopped: held (new, or a newer token),\n" +
			"renewed, lapsed, gone. It looks every --interval and only reads; of several changes between two\n" +
			"looks it shows the last. etcd tells each change by itself, without looks. In a pipe, or with -o jsonl, it is one JSON object a line, renewals\n" +
			"included; on a terminal it is a line each, renewals only with -o wide.",
		Example: "  dlockctl lock watch account:42\n  dlockctl lock watch --prefix account: --interval 5s\n" +
			"  dlockctl lock watch -o jsonl | jq -r 'select(.change == \"lapsed\").key'",
		Args: app.OptionalArg(),
		RunE: a.Run(func(ctx context.Context, args []string) error {
			if len(args) > 0 {
				if err := lockstore.LookupKey(args[0]); err != nil {
					return err
				}
				opts.key = args[0]
			}
			return runWatch(ctx, a, opts)
		}),
	}
	flags := cmd.Flags()
	flags.StringVar(&opts.filter.Owner, "owner", "", "only locks of this owner")
	flags.StringVar(&opts.filter.Prefix, "prefix", "", "only keys that begin so")
	flags.StringVar(&opts.session, "session", "", "only locks under this session")
	flags.DurationVar(&opts.interval, "interval", defaultInterval, "between two looks, at least 100ms")
	flags.BoolVar(&opts.showSession, "show-session", false, "show session ids in full; they are secrets")
	return cmd
}

func runWatch(ctx context.Context, a *app.App, opts watchOptions) error {
	switch {
	case opts.interval < shortestInterval:
		return app.UsageError("give a longer one, such as 1s", "--interval %s is below %s", opts.interval, shortestInterval)
	case opts.key != "" && opts.filter.Prefix != "":
		return app.UsageError("give one of them", "KEY and --prefix are given")
	case opts.key != "":
		opts.filter.Prefix = opts.key
	}
	opts.filter.Session = lockstore.SessionID(opts.session)
	stream, err := a.Stream()
	if err != nil {
		return err
	}
	defer stream.Close()
	store, err := a.LockStore(ctx, app.Reading)
	if err != nil {
		return err
	}
	if err := narrowed(store, opts.filter); err != nil {
		return err
	}
	a.Endless()
	readable, wide := stream.Readable()
	told := func(change lockstore.Change) error {
		// A backend that stores NFC finds the key in any form; the others find what was given.
		other := opts.key != "" && change.Key != opts.key && change.Key != norm.NFC.String(opts.key)
		if other || readable && !wide && change.Kind == lockstore.ChangeRenewed {
			return nil
		}
		view := changeView{change.Kind, viewEntry(change.Entry, opts.showSession)}
		return stream.Item(view, "key", watchLine(a, stream, view, change.Entry, wide))
	}
	if own, has := store.(feed); has {
		if readable {
			a.Aside("watching; Ctrl-C ends it")
		}
		return stream.Ended(ctx, own.Watch(ctx, opts.filter, told))
	}
	if readable {
		a.Aside("watching every %s; Ctrl-C ends it", opts.interval)
	}
	return stream.Ended(ctx, lockstore.Watch(ctx, eachLook{store, a}, opts.filter, opts.interval, told))
}

// feed is a store that tells every change by itself, also one between two looks.
type feed interface {
	Watch(ctx context.Context, filter lockstore.Filter, tell func(lockstore.Change) error) error
}

// eachLook gives each look of a watch a deadline of its own.
type eachLook struct {
	lockstore.Store
	app *app.App
}

func (s eachLook) List(ctx context.Context, filter lockstore.Filter) ([]lockstore.Entry, error) {
	look, cancel := s.app.Look(ctx)
	defer cancel()
	entries, err := s.Store.List(look, filter)
	return entries, app.Late(look, err)
}

func watchLine(a *app.App, stream *app.Stream, view changeView, entry lockstore.Entry, wide bool) string {
	tones := map[lockstore.ChangeKind]ui.Tone{
		lockstore.ChangeHeld: ui.Good, lockstore.ChangeLapsed: ui.Warn, lockstore.ChangeGone: ui.Faint, lockstore.ChangeRenewed: ui.Faint,
	}
	rest := ui.Left(entry.Remaining)
	switch {
	case view.Change == lockstore.ChangeGone:
		rest = "released, revoked or reaped"
	case entry.ExpiresAt.Infinite:
		rest = "never expires"
	}
	parts := []string{
		stream.Paint(ui.Faint, a.Streams.Now().Format(time.TimeOnly)), stream.Paint(tones[view.Change], fmt.Sprintf("%-7s", view.Change)),
		ui.Visible(view.Key), grantOf(entry),
	}
	if view.Owner != "" { // a backend's rows may name none
		parts = append(parts, ui.Visible(view.Owner))
	}
	line := strings.Join(append(parts, rest), "  ")
	if wide && view.Session != "" {
		line += "  session " + ui.Visible(view.Session)
	}
	return line
}

package top

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/spf13/cobra"

	"github.com/dlockctl/dlockctl/internal/cli/app"
	"github.com/dlockctl/dlockctl/internal/lockstore"
)

const (
	defaultInterval  = time.Second
	shortestInterval = 200 * time.Millisecond
	// frames bounds how often a link is written to, in a second.
	frames = 10
)

type options struct {
	filter   lockstore.Filter
	interval time.Duration
}

// New returns the top command.
func New(a *app.App) *cobra.Command {
	var opts options
	cmd := &cobra.Command{
		Use:   "top",
		Short: "Watch the locks on a live screen",
		Long: "Show every lock with its holder, age and remaining lease, how many stand in a queue for it (a\n" +
			"lock-server's with --server, or etcd's), and how many grants and contended tries there are in a\n" +
			"second. It only reads, every --interval, until q is pressed.\n\n" +
			"  up, down    choose a lock          enter   show all that is known of it\n" +
			"  s           sort by the next column /       filter by key or owner\n" +
			"  r           revoke it: it asks for a reason and shows what it will break\n" +
			"  p           pause                  q       quit\n\n" +
			"A protected profile wants --confirm=PROFILE at the start to revoke from the screen.",
		Example: "  dlockctl top\n  dlockctl top --prefix account: --interval 5s",
		Args:    app.Args(),
		RunE:    a.Run(func(ctx context.Context, _ []string) error { return run(ctx, a, opts) }),
	}
	flags := cmd.Flags()
	flags.StringVar(&opts.filter.Prefix, "prefix", "", "only keys that begin so")
	flags.StringVar(&opts.filter.Owner, "owner", "", "only locks of this owner")
	flags.DurationVar(&opts.interval, "interval", defaultInterval, "between two looks, at least 200ms")
	flags.String("operator", "", "who you are, for a revoke (default user@host)") // read through the configuration
	app.ConfirmFlag(flags)
	return cmd
}

func run(ctx context.Context, a *app.App, opts options) error {
	if opts.interval < shortestInterval {
		return app.UsageError("give a longer one, such as 1s", "--interval %s is below %s", opts.interval, shortestInterval)
	}
	if !a.Streams.Interactive() || !a.Streams.OutTTY || a.Streams.Env("TERM") == "dumb" {
		return app.UsageError("dlockctl lock watch prints each change as a line, dlockctl lock list what stands",
			"dlockctl top needs a terminal that can be drawn on")
	}
	cfg, err := a.Config()
	if err != nil {
		return err
	}
	store, err := a.LockStore(ctx, app.Reading)
	if err != nil {
		return err
	}
	a.Endless()
	m := newModel(ctx, source{a, store, opts.filter}, settings{
		profile: cfg.Profile, interval: opts.interval, styles: a.Styles(), unicode: unicodeTerminal(a.Streams.Env),
	})
	say := a.Streams.Note
	speak := a.Silence()
	givenBack, err := show(ctx, m, a.Streams.In, a.Streams.Out)
	if !givenBack { // the terminal would hold what it is told, and this process with it
		say, speak = func(string, ...any) {}, func() {}
	}
	m.revoking.outlast(ctx, say)
	speak() // not before: the revoke has to do with the same streams
	if err := m.revoking.end(a); err != nil {
		return err
	}
	if cause := app.Stopped(ctx); cause != nil {
		return cause
	}
	if err != nil && !errors.Is(err, tea.ErrInterrupted) {
		return fmt.Errorf("draw the screen: %w", err)
	}
	return nil
}

// show draws the model until it is left or the context ends, and tells whether
// the terminal was given back.
func show(ctx context.Context, m *model, in io.Reader, out io.Writer, more ...tea.ProgramOption) (givenBack bool, err error) {
	m.link = &link{out: out}
	var to io.Writer = m.link
	if file, ok := out.(*os.File); ok {
		to = terminal{m.link, file}
	}
	program := tea.NewProgram(m, append(more, tea.WithInput(in), tea.WithOutput(to), tea.WithFPS(frames),
		tea.WithFilter(m.keep), tea.WithoutSignalHandler())...)
	m.link.tell = program.Send
	// Not by tea.WithContext: that closes its reader of the keys while it is still in use.
	defer context.AfterFunc(ctx, program.Quit)()
	_, err = program.Run()
	return m.link.emptied(ctx), err
}

// unicodeTerminal tells whether the locale says that bars and sparklines show as
// such.
func unicodeTerminal(env func(string) string) bool {
	for _, name := range []string{"LC_ALL", "LC_CTYPE", "LANG"} {
		if value := strings.ToUpper(env(name)); value != "" {
			return strings.Contains(value, "UTF-8") || strings.Contains(value, "UTF8")
		}
	}
	return false
}

// source is where the screen gets what it shows.
type source struct {
	app    *app.App
	store  lockstore.Store
	filter lockstore.Filter
}

// look reads what stands, with a deadline of its own.
func (s source) look(ctx context.Context, since lockstore.Token) (look, error) {
	ctx, cancel := s.app.Look(ctx)
	defer cancel()
	entries, err := s.store.List(ctx, s.filter)
	if err != nil {
		return look{}, app.Late(ctx, err)
	}
	found := look{entries: entries, at: time.Now()}
	if meter, ok := s.store.(lockstore.Meter); ok {
		found.pulse, err = meter.Pulse(ctx, since)
		found.metered = err == nil
		if errors.Is(err, lockstore.ErrUnsupported) {
			err = nil // the lock server's store does not count, or the server is older than that
		}
	}
	return found, app.Late(ctx, err)
}

// details reads all that is known of one lock.
func (s source) details(ctx context.Context, key string) (lockstore.Entry, error) {
	ctx, cancel := s.app.Look(ctx)
	defer cancel()
	entry, err := s.store.Show(ctx, key)
	return entry, app.Late(ctx, err)
}

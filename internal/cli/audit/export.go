package audit

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/dlockctl/dlockctl/internal/cli/app"
	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/ui"
)

const (
	defaultInterval  = 2 * time.Second
	shortestInterval = 100 * time.Millisecond
	// page bounds one read, so that memory does not grow with the audit.
	page = 1000
)

type exportOptions struct {
	after    string
	follow   bool
	interval time.Duration
}

// What an export prints: one kind of row, and the cursor after it.
type (
	exportedRevocation struct {
		Kind   string `json:"kind"`
		Cursor string `json:"cursor"`
		revocationView
	}
	exportedRecord struct {
		Kind   string `json:"kind"`
		Cursor string `json:"cursor"`
		recordView
	}
)

func newExportCmd(a *app.App) *cobra.Command {
	var opts exportOptions
	cmd := &cobra.Command{
		Use:   "export",
		Short: "Stream the audit out, as JSON lines",
		Long: "Print every revocation and every record of the operator log, one JSON object a line with its\n" +
			"kind, and with --follow go on with what comes: the audit must survive the restore that it has to\n" +
			"explain. Each line has a cursor; --after takes up behind it. A row may come twice after that,\n" +
			"none is left out: kind and id name it. It ends with exit 0 when its reader goes away.",
		Example: "  dlockctl audit export > audit.jsonl\n" +
			"  dlockctl audit export --follow --after r12.o3",
		Args: app.Args(),
		RunE: a.Run(func(ctx context.Context, _ []string) error { return runExport(ctx, a, opts) }),
	}
	flags := cmd.Flags()
	flags.StringVar(&opts.after, "after", "", "go on behind this `CURSOR` of an earlier export")
	flags.BoolVarP(&opts.follow, "follow", "f", false, "go on with what comes, until it is stopped")
	flags.DurationVar(&opts.interval, "interval", defaultInterval, "with --follow: between two looks, at least 100ms")
	return cmd
}

func runExport(ctx context.Context, a *app.App, opts exportOptions) error {
	from, err := parseCursor(opts.after)
	if err != nil {
		return err
	}
	if opts.interval < shortestInterval {
		return app.UsageError("give a longer one, such as 1s", "--interval %s is below %s", opts.interval, shortestInterval)
	}
	stream, err := a.Stream()
	if err != nil {
		return err
	}
	defer stream.Close()
	store, err := a.LockStore(ctx, app.Reading)
	if err != nil {
		return err
	}
	// Reading all of it takes what it takes; each look has its deadline.
	a.Endless()
	e := &export{
		app: a, store: store, stream: stream, record: from.record,
		settler: settler{settled: from.revocation, seen: map[int64]bool{}, now: a.Streams.Now},
	}
	return stream.Ended(ctx, e.run(ctx, opts))
}

type export struct {
	settler

	app    *app.App
	store  lockstore.Store
	stream *app.Stream
	record int64
}

func (e *export) run(ctx context.Context, opts exportOptions) error {
	tick := time.NewTicker(opts.interval)
	defer tick.Stop()
	for {
		if err := e.revocations(ctx); err != nil {
			return err
		}
		if err := e.records(ctx); err != nil {
			return err
		}
		if !opts.follow {
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
	}
}

func (e *export) cursor() cursor { return cursor{e.settled, e.record} }

func (e *export) revocations(ctx context.Context) error {
	e.begin()
	for after := e.settled; ; {
		rows, err := look(ctx, e.app, func(ctx context.Context) ([]lockstore.Revocation, error) {
			return e.store.Revocations(ctx, lockstore.RevocationFilter{After: &after, Limit: page})
		})
		if err != nil {
			return err
		}
		err = e.take(rows, func(row lockstore.Revocation) error {
			line := fmt.Sprintf("%s  revocation %d  lock %s %s%s  by %s: %s", row.RevokedAt, row.ID,
				ui.Visible(row.Key), grantOf(row), of(row.PrevOwner), ui.Visible(row.Operator), ui.Visible(row.Reason))
			return e.stream.Item(exportedRevocation{kindRevocation, e.cursor().String(), view(row)}, "cursor", line)
		})
		if err != nil || len(rows) < page {
			return err
		}
		after = rows[len(rows)-1].ID
	}
}

// grantOf names the grant that was revoked: by its token, where it had one.
func grantOf(row lockstore.Revocation) string {
	if row.PrevFence != "" {
		return "fence " + ui.Visible(row.PrevFence)
	}
	return "token " + row.PrevToken.String()
}

// of says whose it was, where the backend's rows say so.
func of(owner string) string {
	if owner == "" {
		return ""
	}
	return " of " + ui.Visible(owner)
}

// records go out in order: the chain is written one by one.
func (e *export) records(ctx context.Context) error {
	for {
		after := e.record
		rows, err := look(ctx, e.app, func(ctx context.Context) ([]lockstore.OperatorRecord, error) {
			return e.store.OperatorLog(ctx, lockstore.OperatorLogFilter{After: &after, Limit: page})
		})
		if err != nil {
			return err
		}
		for _, row := range rows {
			e.record = row.ID
			line := fmt.Sprintf("%s  operator %d  %s  by %s: %s", row.LoggedAt, row.ID, ui.Visible(row.Action), ui.Visible(row.Operator), ui.Visible(row.Reason))
			if err := e.stream.Item(exportedRecord{kindOperator, e.cursor().String(), viewRecord(row)}, "cursor", line); err != nil {
				return err
			}
		}
		if len(rows) < page {
			return nil
		}
	}
}

// look gives one read the deadline of a command.
func look[T any](ctx context.Context, a *app.App, read func(context.Context) (T, error)) (T, error) {
	ctx, cancel := a.Look(ctx)
	defer cancel()
	found, err := read(ctx)
	return found, app.Late(ctx, err)
}

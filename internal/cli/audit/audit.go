// Package audit holds the verbs that read the audit: the revocations, and the
// operator log of what was done to the whole database.
package audit

import (
	"context"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/dlockctl/dlockctl/internal/cli/app"
	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/ui"
)

// New returns the audit command with its verbs.
func New(a *app.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "audit",
		Short: "Read, export, verify and prune the audit",
		Long: "Every revoke leaves a row that nobody can change: who, why, whose lock, under which token. What\n" +
			"operators do to the whole database, such as drawing a fence, stands in the operator log, whose\n" +
			"records are chained by their hashes.",
		Example: "  dlockctl audit list --key account:42\n  dlockctl audit list --kind operator\n  dlockctl audit export --follow",
	}
	cmd.AddCommand(newListCmd(a), newShowCmd(a), newExportCmd(a), newVerifyCmd(a), newPruneCmd(a))
	return app.Group(cmd)
}

// revocationView is an audit row as it is printed.
type revocationView struct {
	ID           int64           `json:"id"`
	Key          string          `json:"key"`
	PrevOwner    string          `json:"prev_owner"`
	PrevToken    lockstore.Token `json:"prev_token"`
	PrevTokenStr string          `json:"prev_token_str"`
	// LockIDHash and PrevFence are those of a grant that has a lock id, and of one whose
	// fence was no token.
	LockIDHash    string         `json:"lock_id_hash,omitempty"`
	PrevFence     string         `json:"prev_fence,omitempty"`
	Operator      string         `json:"operator"`
	Reason        string         `json:"reason"`
	RevokedAt     lockstore.Time `json:"revoked_at"`
	LoginRole     string         `json:"login_role"`
	ClientAddress string         `json:"client_address,omitempty"`
}

func view(r lockstore.Revocation) revocationView {
	return revocationView{
		ID: r.ID, Key: r.Key, PrevOwner: r.PrevOwner, PrevToken: r.PrevToken, PrevTokenStr: r.PrevToken.String(),
		LockIDHash: r.LockIDHash, PrevFence: r.PrevFence, Operator: r.Operator, Reason: r.Reason, RevokedAt: r.RevokedAt, LoginRole: r.LoginRole, ClientAddress: r.ClientAddress,
	}
}

func columns(store lockstore.Store) []ui.Column {
	columns := []ui.Column{
		{Title: "ID", Field: "id", Kind: ui.Number},
		{Title: "REVOKED", Field: "revoked_at", Kind: ui.Since},
		{Title: "KEY", Field: "key"},
		app.OwnerColumn(store, "prev_owner"),
		{Title: "TOKEN", Field: "prev_token", Kind: ui.Number},
		{Title: "OPERATOR", Field: "operator"},
		{Title: "REASON", Field: "reason"},
		{Title: "LOGIN", Field: "login_role", Wide: true},
		{Title: "CLIENT", Field: "client_address", Wide: true, Optional: true},
	}
	if store.Capabilities().LockIDs {
		columns = append(columns, ui.Column{Title: "LOCK ID HASH", Field: "lock_id_hash", Wide: true, Optional: true},
			ui.Column{Title: "FENCE", Field: "prev_fence", Wide: true, Optional: true})
	}
	return columns
}

// The values of --kind, and of the field kind of an export.
const (
	kindRevocation = "revocation"
	kindOperator   = "operator"
)

func checkKind(kind string) error {
	if kind != kindRevocation && kind != kindOperator {
		return app.UsageError("give revocation or operator", "--kind %q is unknown", kind)
	}
	return nil
}

type listOptions struct {
	kind, key, by, action string
	limit                 int
}

func newListCmd(a *app.App) *cobra.Command {
	const defaultLimit = 50
	var opts listOptions
	cmd := &cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   "List revocations, or the operator log, newest first",
		Example: "  dlockctl audit list --key account:42\n  dlockctl audit list --by alice@ops --limit 10 -o json\n" +
			"  dlockctl audit list --kind operator --action fence_account",
		Args: app.Args(),
		RunE: a.Run(func(ctx context.Context, _ []string) error { return runList(ctx, a, opts) }),
	}
	flags := cmd.Flags()
	flags.StringVar(&opts.kind, "kind", kindRevocation, "revocation, or operator for the operator log")
	flags.StringVar(&opts.key, "key", "", "only revocations of this lock")
	// Not the operator of the configuration, who acts: one who acted.
	flags.StringVar(&opts.by, "by", "", "only revocations by this operator")
	flags.StringVar(&opts.action, "action", "", "only this action of the operator log, such as fence_account")
	app.WholeVar(flags, &opts.limit, "limit", defaultLimit, "at most so many (0: all)")
	return cmd
}

func runList(ctx context.Context, a *app.App, opts listOptions) error {
	if err := app.CheckLimit(opts.limit); err != nil {
		return err
	}
	if err := checkKind(opts.kind); err != nil {
		return err
	}
	operator := opts.kind == kindOperator
	switch {
	case operator && (opts.key != "" || opts.by != ""):
		return app.UsageError("leave them out, or list revocations", "--key and --by are for revocations")
	case !operator && opts.action != "":
		return app.UsageError("add --kind operator", "--action is for the operator log")
	}
	store, err := a.LockStore(ctx, app.Reading)
	if err != nil {
		return err
	}
	if operator {
		return listOperatorLog(ctx, a, store, opts)
	}
	rows, err := store.Revocations(ctx, lockstore.RevocationFilter{Key: opts.key, Operator: opts.by, Limit: opts.limit})
	if err != nil {
		return err
	}
	views := make([]revocationView, len(rows))
	for i, r := range rows {
		views[i] = view(r)
	}
	return a.Print(ui.View{Data: views, Columns: columns(store), Name: "id", Empty: "no revocations"})
}

func newShowCmd(a *app.App) *cobra.Command {
	var kind string
	cmd := &cobra.Command{
		Use:     "show ID",
		Short:   "Show one revocation, or one record of the operator log",
		Example: "  dlockctl audit show 12\n  dlockctl audit show 3 --kind operator -o json",
		Args:    app.Args("ID"),
		RunE:    a.Run(func(ctx context.Context, args []string) error { return runShow(ctx, a, kind, args[0]) }),
	}
	cmd.Flags().StringVar(&kind, "kind", kindRevocation, "revocation, or operator for the operator log")
	return cmd
}

func runShow(ctx context.Context, a *app.App, kind, text string) error {
	if err := checkKind(kind); err != nil {
		return err
	}
	id, err := strconv.ParseInt(text, 10, 64)
	if err != nil || id < 1 {
		return app.UsageError("give the id that revoke or audit list printed", "audit id %q is not a number from 1", text)
	}
	store, err := a.LockStore(ctx, app.Reading)
	if err != nil {
		return err
	}
	if kind == kindOperator {
		before := id - 1
		records, err := store.OperatorLog(ctx, lockstore.OperatorLogFilter{After: &before, Limit: 1})
		switch {
		case err != nil:
			return err
		case len(records) == 0 || records[0].ID != id:
			return fmt.Errorf("record %d of the operator log: %w", id, lockstore.ErrNotFound)
		}
		return a.Print(ui.View{Data: viewRecord(records[0]), Columns: recordColumns(), Name: "id"})
	}
	row, err := store.Revocation(ctx, id)
	if err != nil {
		return err
	}
	return a.Print(ui.View{Data: view(row), Columns: columns(store), Name: "id"})
}

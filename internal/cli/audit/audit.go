// Package audit holds the verbs that read the audit of revocations.
package audit

import (
	"context"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/dlockctl/dlockctl/internal/cli/app"
	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/lockstore/postgres"
	"github.com/dlockctl/dlockctl/internal/ui"
)

// New returns the audit command with its verbs.
func New(a *app.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "audit",
		Short:   "Read the audit of revocations",
		Long:    "Every revoke leaves a row that nobody can change: who, why, whose lock, under which token.",
		Example: "  dlockctl audit list --key account:42\n  dlockctl audit show 12",
	}
	cmd.AddCommand(newListCmd(a), newShowCmd(a))
	return app.Group(cmd)
}

// revocationView is an audit row as it is printed.
type revocationView struct {
	ID            int64           `json:"id"`
	Key           string          `json:"key"`
	PrevOwner     string          `json:"prev_owner"`
	PrevToken     lockstore.Token `json:"prev_token"`
	PrevTokenStr  string          `json:"prev_token_str"`
	Operator      string          `json:"operator"`
	Reason        string          `json:"reason"`
	RevokedAt     lockstore.Time  `json:"revoked_at"`
	LoginRole     string          `json:"login_role"`
	ClientAddress string          `json:"client_address,omitempty"`
}

func view(r lockstore.Revocation) revocationView {
	return revocationView{
		ID: r.ID, Key: r.Key, PrevOwner: r.PrevOwner, PrevToken: r.PrevToken, PrevTokenStr: r.PrevToken.String(),
		Operator: r.Operator, Reason: r.Reason, RevokedAt: r.RevokedAt, LoginRole: r.LoginRole, ClientAddress: r.ClientAddress,
	}
}

func columns() []ui.Column {
	return []ui.Column{
		{Title: "ID", Field: "id", Kind: ui.Number},
		{Title: "REVOKED", Field: "revoked_at", Kind: ui.Since},
		{Title: "KEY", Field: "key"},
		{Title: "OWNER", Field: "prev_owner"},
		{Title: "TOKEN", Field: "prev_token", Kind: ui.Number},
		{Title: "OPERATOR", Field: "operator"},
		{Title: "REASON", Field: "reason"},
		{Title: "LOGIN", Field: "login_role", Wide: true},
		{Title: "CLIENT", Field: "client_address", Wide: true, Optional: true},
	}
}

func newListCmd(a *app.App) *cobra.Command {
	const defaultLimit = 50
	var filter lockstore.RevocationFilter
	cmd := &cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   "List revocations, newest first",
		Example: "  dlockctl audit list --key account:42\n  dlockctl audit list --by alice@ops --limit 10 -o json",
		Args:    app.Args(),
		RunE:    a.Run(func(ctx context.Context, _ []string) error { return runList(ctx, a, filter) }),
	}
	flags := cmd.Flags()
	flags.StringVar(&filter.Key, "key", "", "only of this lock")
	// Not the operator of the configuration, who acts: one who acted.
	flags.StringVar(&filter.Operator, "by", "", "only by this operator")
	flags.IntVar(&filter.Limit, "limit", defaultLimit, "at most so many (0: all)")
	return cmd
}

func runList(ctx context.Context, a *app.App, filter lockstore.RevocationFilter) error {
	if err := app.CheckLimit(filter.Limit); err != nil {
		return err
	}
	store, err := a.LockStore(ctx, postgres.Reading)
	if err != nil {
		return err
	}
	rows, err := store.Revocations(ctx, filter)
	if err != nil {
		return err
	}
	views := make([]revocationView, len(rows))
	for i, r := range rows {
		views[i] = view(r)
	}
	return a.Print(ui.View{Data: views, Columns: columns(), Name: "id", Empty: "no revocations"})
}

func newShowCmd(a *app.App) *cobra.Command {
	return &cobra.Command{
		Use:     "show ID",
		Short:   "Show one revocation",
		Example: "  dlockctl audit show 12\n  dlockctl audit show 12 -o json",
		Args:    app.Args("ID"),
		RunE:    a.Run(func(ctx context.Context, args []string) error { return runShow(ctx, a, args[0]) }),
	}
}

func runShow(ctx context.Context, a *app.App, text string) error {
	id, err := strconv.ParseInt(text, 10, 64)
	if err != nil || id < 1 {
		return app.UsageError("give the id that revoke or audit list printed", "audit id %q is not a number from 1", text)
	}
	store, err := a.LockStore(ctx, postgres.Reading)
	if err != nil {
		return err
	}
	row, err := store.Revocation(ctx, id)
	if err != nil {
		return err
	}
	return a.Print(ui.View{Data: view(row), Columns: columns(), Name: "id"})
}

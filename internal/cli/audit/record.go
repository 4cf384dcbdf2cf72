package audit

import (
	"context"
	"encoding/json"

	"github.com/dlockctl/dlockctl/internal/cli/app"
	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/ui"
)

// recordView is a link of the operator log as it is printed.
type recordView struct {
	ID       int64          `json:"id"`
	LoggedAt lockstore.Time `json:"logged_at"`
	Action   string         `json:"action"`
	Operator string         `json:"operator"`
	Reason   string         `json:"reason"`
	// Token is the fence drawn, or the number advanced to; absent for none.
	Token         lockstore.Token `json:"token,omitempty"`
	TokenStr      string          `json:"token_str,omitempty"`
	Details       json.RawMessage `json:"details,omitempty"`
	LoginRole     string          `json:"login_role"`
	ClientAddress string          `json:"client_address,omitempty"`
}

func viewRecord(r lockstore.OperatorRecord) recordView {
	v := recordView{
		ID: r.ID, LoggedAt: r.LoggedAt, Action: r.Action, Operator: r.Operator, Reason: r.Reason, Token: r.Token,
		Details: r.Details, LoginRole: r.LoginRole, ClientAddress: r.ClientAddress,
	}
	if r.Token != 0 {
		v.TokenStr = r.Token.String()
	}
	return v
}

func recordColumns() []ui.Column {
	return []ui.Column{
		{Title: "ID", Field: "id", Kind: ui.Number},
		{Title: "LOGGED", Field: "logged_at", Kind: ui.Since},
		{Title: "ACTION", Field: "action"},
		{Title: "TOKEN", Field: "token", Kind: ui.Number, Optional: true},
		{Title: "OPERATOR", Field: "operator"},
		{Title: "REASON", Field: "reason"},
		{Title: "LOGIN", Field: "login_role", Wide: true},
		{Title: "CLIENT", Field: "client_address", Wide: true, Optional: true},
		{Title: "DETAILS", Field: "details", Wide: true},
	}
}

func listOperatorLog(ctx context.Context, a *app.App, store lockstore.Store, opts listOptions) error {
	records, err := store.OperatorLog(ctx, lockstore.OperatorLogFilter{Action: opts.action, Limit: opts.limit})
	if err != nil {
		return err
	}
	views := make([]recordView, len(records))
	for i, r := range records {
		views[i] = viewRecord(r)
	}
	return a.Print(ui.View{Data: views, Columns: recordColumns(), Name: "id", Empty: "the operator log is empty"})
}

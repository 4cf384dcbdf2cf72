package lock

import (
	"context"
	"fmt"

	"github.com/dlockctl/dlockctl/internal/cli/app"
	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/ui"
)

// planView is what revoke is about to do: printed by --dry-run.
type planView struct {
	Action   string `json:"action"`
	DryRun   bool   `json:"dry_run"`
	Operator string `json:"operator"`
	Reason   string `json:"reason"`
	entryView
	// EndSession and Also are what --end-session would take as well.
	EndSession    bool        `json:"end_session,omitempty"`
	Also          []entryView `json:"also_revoke,omitempty"`
	FenceAccounts []string    `json:"fence_accounts,omitempty"`
}

func planOf(opts revokeOptions, entry lockstore.Entry) planView {
	return planView{
		Action: "revoke", DryRun: true, Operator: opts.operator, Reason: opts.reason, entryView: viewEntry(entry, false),
		EndSession: opts.endSession, FenceAccounts: opts.fenceAccounts,
	}
}

func printPlan(a *app.App, store lockstore.Store, opts revokeOptions, entry lockstore.Entry, also []lockstore.Entry) error {
	plan := planOf(opts, entry)
	for _, e := range also {
		plan.Also = append(plan.Also, viewEntry(e, false))
	}
	if err := a.Print(ui.View{Data: plan, Columns: planColumns(store), Name: "key"}); err != nil {
		return err
	}
	if entry.Token == 0 {
		a.Aside("to revoke it: --yes --lock-id-hash %s", entry.LockIDHash)
		return nil
	}
	a.Aside("to revoke it: --yes --token %s", entry.Token)
	return nil
}

// outcomeView is what revoke did.
type outcomeView struct {
	Outcome      lockstore.Outcome `json:"outcome"`
	Key          string            `json:"key"`
	AuditID      int64             `json:"audit_id,omitempty"`
	Owner        string            `json:"owner,omitempty"`
	Token        lockstore.Token   `json:"token,omitempty"`
	TokenStr     string            `json:"token_str,omitempty"`
	Presented    lockstore.Token   `json:"presented_token,omitempty"`
	PresentedStr string            `json:"presented_token_str,omitempty"`
	// LockIDHash and PresentedHash are the same two where a grant has a lock id.
	LockIDHash    string `json:"lock_id_hash,omitempty"`
	PresentedHash string `json:"presented_lock_id_hash,omitempty"`
	Operator      string `json:"operator"`
	Reason        string `json:"reason"`
	// Session is masked (K-2.12).
	Session      string        `json:"session_id,omitempty"`
	SessionEnded bool          `json:"session_ended,omitempty"`
	Also         []outcomeView `json:"also_revoked,omitempty"`
	// Fence is the token drawn for the accounts, and Fences how far each is.
	Fence    lockstore.Token `json:"fence,omitempty"`
	FenceStr string          `json:"fence_str,omitempty"`
	Fences   []fenceView     `json:"fences,omitempty"`
	// Resumed tells that an earlier revoke drew the fence, and this one finished it.
	Resumed bool `json:"resumed,omitempty"`
}

func viewOutcome(opts revokeOptions, o lockstore.LockOutcome) outcomeView {
	v := outcomeView{
		Outcome: o.Outcome, Key: o.Key, AuditID: o.AuditID, Owner: o.Owner, Token: o.Token, Presented: o.Presented,
		LockIDHash: o.LockIDHash, PresentedHash: o.PresentedHash, Operator: opts.operator, Reason: opts.reason, Session: app.SessionText(o.Session, false), SessionEnded: o.SessionEnded, Fence: o.Fence,
	}
	if o.Token != 0 {
		v.TokenStr = o.Token.String()
	}
	if o.Presented != 0 {
		v.PresentedStr = o.Presented.String()
	}
	for _, also := range o.AlsoRevoked {
		v.Also = append(v.Also, viewOutcome(opts, also))
	}
	if o.Fence != 0 {
		v.FenceStr = o.Fence.String()
	}
	return v
}

// finish prints the outcome, and makes all but REVOKED an error with its exit
// code.
func finish(ctx context.Context, a *app.App, opts revokeOptions, outcome lockstore.LockOutcome) error {
	resumed, drawnFor := false, opts.fenceAccounts
	if outcome.Outcome != lockstore.Revoked {
		earlier, accounts, err := drawnBefore(ctx, a, opts)
		if err != nil {
			return err
		}
		if len(accounts) > 0 {
			outcome, drawnFor, resumed = earlier, accounts, true
		}
	}
	view := viewOutcome(opts, outcome)
	view.Resumed = resumed
	if outcome.Fence != 0 {
		view.Fences = raise(ctx, a, opts, outcome.Fence, drawnFor)
	}
	if err := a.Print(ui.View{Data: view, Columns: outcomeColumns(), Name: "outcome"}); err != nil {
		return err
	}
	switch outcome.Outcome {
	case lockstore.Revoked:
		return revoked(a, opts, outcome, view.Fences)
	case lockstore.NotHeld:
		return notHeld(a, opts)
	case lockstore.TokenMoved:
		return &app.Failure{
			Exit: app.Refused, Code: "token_moved",
			Message: fmt.Sprintf("lock %q is now held by %s %s; nothing was changed", opts.key, app.Holder(outcome.Owner), moved(outcome)),
			Hint:    "look again: " + command(a, "lock show", opts.key),
		}
	default:
		return fmt.Errorf("revoke lock %q: outcome %q is unknown to this program", opts.key, outcome.Outcome)
	}
}

// moved tells the grant that stands from the one that was meant.
func moved(o lockstore.LockOutcome) string {
	switch {
	case o.Presented != 0 && o.Token != 0 && o.Presented != o.Token:
		return fmt.Sprintf("with token %s, not %s", o.Token, o.Presented)
	case o.PresentedHash != "" && o.PresentedHash != o.LockIDHash:
		return fmt.Sprintf("with lock id hash %s, not %s", o.LockIDHash, o.PresentedHash)
	default:
		return fmt.Sprintf("with a fence that is no token, not with token %s", o.Presented)
	}
}

// notHeld says that no fence was drawn either, where one was asked for.
func notHeld(a *app.App, opts revokeOptions) error {
	failure := &app.Failure{Exit: app.NotFound, Code: "not_held", Message: fmt.Sprintf("nobody holds lock %q; nothing was changed", opts.key)}
	if len(opts.fenceAccounts) > 0 {
		failure.Message = fmt.Sprintf("nobody holds lock %q, and no fence was ever drawn against its holder for the accounts; nothing was changed, and they are not fenced", opts.key)
		failure.Hint = "to fence one, " + drawHint(a, opts.fenceAccounts[0])
	}
	return failure
}

// revoked says what a revoke does not do: stop the holder's writes (K-3.2), or
// keep it from acquiring again (K-3.5).
func revoked(a *app.App, opts revokeOptions, outcome lockstore.LockOutcome, fences []fenceView) error {
	if len(fences) > 0 {
		return unfenced(a, opts, outcome, fences)
	}
	again := "; while its session lives it may acquire again"
	if outcome.SessionEnded || outcome.Owner == "" { // where no lock names an owner, there are no sessions
		again = ""
	}
	if outcome.Token == 0 {
		a.Note("note: the fence was no token: whether the resource refuses its holder's writes, nobody can tell")
		return nil
	}
	a.Note("note: the holder's writes are refused once a token above %s reaches the resource%s", outcome.Token, again)
	return nil
}

func planColumns(store lockstore.Store) []ui.Column {
	columns := append([]ui.Column{
		{Title: "WOULD", Field: "action", Tones: map[string]ui.Tone{"revoke": ui.Warn}},
	}, append(seenColumns(store),
		ui.Column{Title: "OPERATOR", Field: "operator"},
		ui.Column{Title: "REASON", Field: "reason"},
		ui.Column{Title: "ENDS SESSION", Field: "end_session", Optional: true},
		ui.Column{Title: "FENCES", Field: "fence_accounts", Optional: true})...)
	if store.Capabilities().LockIDs {
		columns = append(columns, lockIDColumns()...)
	}
	return columns
}

func outcomeColumns() []ui.Column {
	return []ui.Column{
		{Title: "OUTCOME", Field: "outcome", Tones: map[string]ui.Tone{
			string(lockstore.Revoked): ui.Good, string(lockstore.NotHeld): ui.Warn, string(lockstore.TokenMoved): ui.Warn,
		}},
		{Title: "KEY", Field: "key"},
		{Title: "OWNER", Field: "owner", Optional: true},
		{Title: "TOKEN", Field: "token", Kind: ui.Number, Optional: true},
		{Title: "PRESENTED", Field: "presented_token", Kind: ui.Number, Optional: true, Wide: true},
		{Title: "LOCK ID HASH", Field: "lock_id_hash", Optional: true, Wide: true},
		{Title: "AUDIT", Field: "audit_id", Kind: ui.Number, Optional: true},
		{Title: "SESSION ENDED", Field: "session_ended", Optional: true},
		{Title: "ALSO REVOKED", Field: "also_revoked", Optional: true, Count: true},
		{Title: "FENCE", Field: "fence", Kind: ui.Number, Optional: true},
		{Title: "FENCES", Field: "fences", Optional: true, Count: true},
		{Title: "OPERATOR", Field: "operator"},
		{Title: "REASON", Field: "reason"},
	}
}

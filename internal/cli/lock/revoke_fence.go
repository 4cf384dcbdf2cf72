package lock

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/dlockctl/dlockctl/internal/cli/app"
	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/lockstore/postgres"
	"github.com/dlockctl/dlockctl/internal/paystore"
	"github.com/dlockctl/dlockctl/internal/paystore/posting"
	"github.com/dlockctl/dlockctl/internal/paystore/rail"
)

// fenceView is how far one account is fenced, at both enforcement points (K-3.2).
type fenceView struct {
	Account string `json:"account_id"`
	// State is "fenced" when both points refuse the old holder, else "pending".
	State string `json:"state"`
	// AccountFence and RailMark are "raised", "stood" (as high already) or "pending".
	AccountFence string `json:"account_fence"`
	RailMark     string `json:"rail_mark"`
	// Problem says why something is pending.
	Problem string `json:"problem,omitempty"`
}

const (
	fencePending = "pending"
	fenceRaised  = "raised"
	fenceStood   = "stood"
	fenced       = "fenced"
)

// knownAccounts refuses a fence for what is no payer's account, before anything is
// revoked. A paydb that does not answer refuses nothing: taking the lock away cannot
// wait, and what is pending is finished by a rerun.
func knownAccounts(ctx context.Context, a *app.App, accounts []string) error {
	if len(accounts) == 0 {
		return nil
	}
	pay, err := a.Pay(ctx, paystore.Reading)
	if err != nil {
		return nil //nolint:nilerr // see above; raising says what is wrong
	}
	for _, id := range accounts {
		acc, err := pay.Account(ctx, id)
		switch {
		case errors.Is(err, paystore.ErrNotFound):
			return app.WithHint(err, "nothing was revoked; dlockctl account list shows the accounts")
		case err == nil && acc.Clearing:
			return app.UsageError("give the payer's account", "--fence-account %s is a clearing account, it has no fence; nothing was revoked", id)
		}
	}
	return nil
}

// raise raises account.fence and the rail's mark of each account to the fence, each
// through its own store and under its own login (K-4.6). It tries everything, and
// what fails is pending.
func raise(ctx context.Context, a *app.App, opts revokeOptions, fence lockstore.Token) []fenceView {
	to := paystore.Token(fence)
	views := make([]fenceView, len(opts.fenceAccounts))
	for i, id := range opts.fenceAccounts {
		views[i] = fenceView{Account: id, State: fenced}
		views[i].AccountFence = views[i].at(func() (bool, error) {
			pay, err := a.Pay(ctx, paystore.Changing)
			if err != nil {
				return false, err
			}
			_, raised, err := posting.New(pay, posting.Options{}).RaiseFence(ctx, id, to, opts.operator, opts.reason)
			return raised, err
		})
		views[i].RailMark = views[i].at(func() (bool, error) {
			db, err := a.Rail(ctx)
			if err != nil {
				return false, err
			}
			_, raised, err := rail.New(db, nil, rail.Options{}).RaiseMark(ctx, id, to)
			return raised, err
		})
	}
	return views
}

// at raises at one enforcement point.
func (v *fenceView) at(raise func() (bool, error)) string {
	raised, err := raise()
	switch {
	case err != nil:
		v.State = fencePending
		if v.Problem != "" {
			v.Problem += "; "
		}
		v.Problem += err.Error()
		return fencePending
	case raised:
		return fenceRaised
	default:
		return fenceStood
	}
}

// drawnBefore finds the fence that an earlier revoke of this very grant drew for
// these accounts: the rerun that finishes what it left pending.
func drawnBefore(ctx context.Context, a *app.App, opts revokeOptions) (lockstore.LockOutcome, bool, error) {
	if len(opts.fenceAccounts) == 0 {
		return lockstore.LockOutcome{}, false, nil
	}
	store, err := a.LockStore(ctx, postgres.Reading)
	if err != nil {
		return lockstore.LockOutcome{}, false, err
	}
	records, err := store.OperatorLog(ctx, lockstore.OperatorLogFilter{Action: lockstore.ActionFenceAccount})
	if err != nil {
		return lockstore.LockOutcome{}, false, err
	}
	var last lockstore.LockOutcome
	var at int64
	for _, r := range records {
		var details postgres.FenceDetails
		if err := json.Unmarshal(r.Details, &details); err != nil {
			return lockstore.LockOutcome{}, false, fmt.Errorf("read operator record %d: %w", r.ID, err)
		}
		same := details.Key == opts.key && (opts.token.Token == 0 || opts.token.Token == details.PrevToken) &&
			!slices.ContainsFunc(opts.fenceAccounts, func(id string) bool { return !slices.Contains(details.Accounts, id) })
		if same && r.ID > at {
			at = r.ID
			last = lockstore.LockOutcome{Outcome: lockstore.Revoked, Key: details.Key, Token: details.PrevToken, AuditID: details.AuditID, Fence: r.Token}
		}
	}
	return last, at > 0, nil
}

// pendingFences is the error of a revoke whose fences are not all raised.
func pendingFences(a *app.App, opts revokeOptions, outcome lockstore.LockOutcome, views []fenceView) error {
	var pending []fenceView
	for _, v := range views {
		if v.State == fencePending {
			pending = append(pending, v)
			a.Aside("pending for account %s: account fence %s, rail mark %s: %s", v.Account, v.AccountFence, v.RailMark, v.Problem)
		}
	}
	if len(pending) == 0 {
		return nil
	}
	rerun := []string{"--reason", opts.reason, "--token", outcome.Token.String(), "--yes"}
	for _, id := range opts.fenceAccounts {
		rerun = append(rerun, "--fence-account", id)
	}
	return &app.Failure{
		Exit: app.Unknown, Code: "fences_pending",
		Message: fmt.Sprintf("lock %q is revoked and fence %s is drawn, and not raised everywhere: %d of %d accounts are pending", outcome.Key, outcome.Fence, len(pending), len(views)),
		Hint:    "until both reach it, or a later holder writes, the old holder's writes may pass; a rerun finishes it: " + command(a, "revoke", opts.key, rerun...),
		Details: map[string]any{"key": outcome.Key, "fence": outcome.Fence, "fence_str": outcome.Fence.String(), "pending": pending},
	}
}

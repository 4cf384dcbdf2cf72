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
	// State is "fenced" when both points refuse the old holder, "pending" until they do,
	// and "not_drawn" when an earlier revoke drew the fence, and not for this account.
	State string `json:"state"`
	// AccountFence and RailMark are "raised", "stood" (as high already), "pending" or
	// "not_drawn".
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
	notDrawn     = "not_drawn"
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
// what fails is pending. Of a fence that was drawn before only the accounts on its
// record are raised: nobody would know later why the others were.
func raise(ctx context.Context, a *app.App, opts revokeOptions, fence lockstore.Token, drawnFor []string) []fenceView {
	to := paystore.Token(fence)
	views := make([]fenceView, len(opts.fenceAccounts))
	for i, id := range opts.fenceAccounts {
		if !slices.Contains(drawnFor, id) {
			views[i] = fenceView{Account: id, State: notDrawn, AccountFence: notDrawn, RailMark: notDrawn}
			continue
		}
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

// drawnBefore finds the fence that an earlier revoke of this very grant drew for these
// accounts, or for some of them, and the accounts on its record: the rerun finishes what
// was left pending.
func drawnBefore(ctx context.Context, a *app.App, opts revokeOptions) (last lockstore.LockOutcome, drawnFor []string, err error) {
	if len(opts.fenceAccounts) == 0 {
		return last, nil, nil
	}
	store, err := a.LockStore(ctx, app.Reading)
	if err != nil {
		return last, nil, err
	}
	records, err := store.OperatorLog(ctx, lockstore.OperatorLogFilter{Action: lockstore.ActionFenceAccount})
	if err != nil {
		return last, nil, err
	}
	best, at := 0, int64(0)
	for _, r := range records {
		var details postgres.FenceDetails
		if err := json.Unmarshal(r.Details, &details); err != nil {
			return last, nil, fmt.Errorf("read operator record %d: %w", r.ID, err)
		}
		if details.Key != opts.key || opts.token.Token != 0 && opts.token.Token != details.PrevToken {
			continue
		}
		covers := 0
		for _, id := range opts.fenceAccounts {
			if slices.Contains(details.Accounts, id) {
				covers++
			}
		}
		if covers > best || covers > 0 && covers == best && r.ID > at {
			best, at, drawnFor = covers, r.ID, details.Accounts
			last = lockstore.LockOutcome{Outcome: lockstore.Revoked, Key: details.Key, Token: details.PrevToken, AuditID: details.AuditID, Fence: r.Token}
		}
	}
	return last, drawnFor, nil
}

// unfenced is the error of a revoke after which some of the accounts are not fenced.
func unfenced(a *app.App, opts revokeOptions, outcome lockstore.LockOutcome, views []fenceView) error {
	var forgotten []string
	for _, v := range views {
		if v.State == notDrawn {
			forgotten = append(forgotten, v.Account)
		}
	}
	for _, id := range forgotten {
		a.Aside("account %s is not fenced: fence %s was drawn for others; %s", id, outcome.Fence, drawHint(a, id))
	}
	if err := pendingFences(a, opts, outcome, views); err != nil || len(forgotten) == 0 {
		return err
	}
	return &app.Failure{
		Exit: app.Unknown, Code: "fence_not_drawn",
		Message: fmt.Sprintf("lock %q was revoked before, and its fence %s was drawn without %d of %d accounts: the old holder's writes may pass there", outcome.Key, outcome.Fence, len(forgotten), len(views)),
		Hint:    drawHint(a, forgotten[0]),
		Details: map[string]any{"key": outcome.Key, "fence": outcome.Fence, "fence_str": outcome.Fence.String(), "not_drawn": forgotten},
	}
}

// drawHint says how an account gets a fence whose holder is gone already: nothing but a
// revoke draws one (K-3.2).
func drawHint(a *app.App, account string) string {
	key := paystore.LockKey(account)
	return "acquire its lock and revoke that: " + command(a, "acquire", key, "--session", "auto") +
		", then " + command(a, "revoke", key, "--reason", "TEXT", "--token", "N", "--yes", "--fence-account", account)
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
	// Without a login of its own the mark was asked for under paydb's (K-4.6).
	cfg, err := a.Config()
	if err == nil && !cfg.Rail.Configured() && slices.ContainsFunc(pending, func(v fenceView) bool { return v.RailMark == fencePending }) {
		rerun = append(rerun, "--rail-dsn-file", "FILE")
	}
	return &app.Failure{
		Exit: app.Unknown, Code: "fences_pending",
		Message: fmt.Sprintf("lock %q is revoked and fence %s is drawn, and not raised everywhere: %d of %d accounts are pending", outcome.Key, outcome.Fence, len(pending), len(views)),
		Hint:    "until both reach it, or a later holder writes, the old holder's writes may pass; a rerun finishes it: " + command(a, "revoke", opts.key, rerun...),
		Details: map[string]any{"key": outcome.Key, "fence": outcome.Fence, "fence_str": outcome.Fence.String(), "pending": pending},
	}
}

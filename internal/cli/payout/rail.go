package payout

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/dlockctl/dlockctl/internal/cli/app"
	"github.com/dlockctl/dlockctl/internal/paystore"
	"github.com/dlockctl/dlockctl/internal/paystore/posting"
	"github.com/dlockctl/dlockctl/internal/paystore/rail"
	"github.com/dlockctl/dlockctl/internal/paystore/rail/httprail"
	"github.com/dlockctl/dlockctl/internal/paystore/resolver"
	"github.com/dlockctl/dlockctl/internal/ui"
)

// counter is where the rail is asked.
type counter struct {
	client   *httprail.Client
	proxy    *rail.Proxy
	posting  *posting.Store
	resolver *resolver.Resolver
	opts     resolveOptions
}

// railOf is the rail of the configuration; nothing is sent yet.
func railOf(a *app.App) (*httprail.Client, error) {
	cfg, err := a.Config()
	if err != nil {
		return nil, err
	}
	if cfg.Rail.URL == "" {
		return nil, app.UsageError("give --rail-url URL, rail.url in the profile, or DLOCKCTL_RAIL_URL", "nobody says where the payment rail is")
	}
	return httprail.New(cfg.Rail.URL, httprail.Options{KeyFile: cfg.Rail.KeyFile})
}

// openCounter opens paydb under both logins. The caller closes the proxy.
func openCounter(ctx context.Context, a *app.App, client *httprail.Client, opts resolveOptions) (*counter, error) {
	db, err := a.Pay(ctx, paystore.Changing)
	if err != nil {
		return nil, err
	}
	railDB, err := a.Rail(ctx)
	if err != nil {
		return nil, err
	}
	c := &counter{client: client, opts: opts, posting: posting.New(db, posting.Options{})}
	c.proxy = rail.New(railDB, client, rail.Options{
		Timeout: opts.deadline,
		Observe: func(_ context.Context, e rail.Event) {
			a.Aside("%s: payout %s, token %s", e.Name, e.PayoutID, e.Presented)
		},
	})
	writable, err := c.proxy.Writable(ctx)
	if err == nil && !writable {
		err = app.UsageError("give the login of payapp_rail: --rail-dsn-file FILE, or rail.dsn_file in the profile", "the login for the rail may not write its marks and attempts")
	}
	if err != nil {
		c.proxy.Close()
		return nil, err
	}
	c.resolver = resolver.New(db, c.posting, c.proxy, resolver.Options{Deadline: opts.deadline, Operator: opts.operator, Reason: opts.reason})
	return c, nil
}

// lease is how long one payout may take: the rail may be asked three times, and what
// is on its way is waited for once.
func (c *counter) lease() time.Duration { return deskTTL + 4*c.opts.deadline }

// settledView is a payout as the rail's answer left it.
type settledView struct {
	payoutView

	// Fate is posted, acked, failed, free, unknown or contradicted.
	Fate string `json:"fate"`
	// RailOutcome and RailReference are the rail's answer; absent where it gave none.
	RailOutcome   string `json:"rail_outcome,omitempty"`
	RailReference string `json:"rail_reference,omitempty"`
	// Why says what stands in the way.
	Why string `json:"why,omitempty"`
}

const (
	fatePosted = "posted"
	fateFailed = string(resolver.Failed)
	fateLeft   = string(resolver.Unknown)
)

// left tells that the payout has to be looked at again.
func (v settledView) left() bool {
	return v.Fate == fateLeft || v.Fate == string(resolver.Contradicted)
}

func settledColumns() []ui.Column {
	return append(columns()[:5:5],
		ui.Column{Title: "RAIL", Field: "rail_outcome", Optional: true},
		ui.Column{Title: "REFERENCE", Field: "rail_reference", Optional: true},
		ui.Column{Title: "FATE", Field: "fate", Tones: map[string]ui.Tone{
			fatePosted: ui.Good, fateLeft: ui.Warn, string(resolver.Contradicted): ui.Bad, fateFailed: ui.Faint,
		}},
		ui.Column{Title: "WHY", Field: "why", Optional: true},
	)
}

// settle asks the rail about one payout at the desk of its account, and posts it where
// the rail has paid. The view says how far it came, with an error too.
func (c *counter) settle(ctx context.Context, a *app.App, d *desk, p paystore.Payout) (settledView, error) {
	v := settledView{payoutView: view(p), Fate: fateLeft}
	result, err := c.resolver.Settle(ctx, p.PayoutID, d.token)
	v.RailOutcome, v.RailReference, v.Why = string(result.Said.Outcome), result.Said.Reference, result.Why
	if err == nil {
		v.Fate = string(result.Fate)
	}
	if err == nil && result.Fate == resolver.Acked && !c.opts.noPost {
		err = d.finishAcked(ctx, a, p.PayoutID)
		_, cannotPay := errors.AsType[*paystore.RejectedError](err)
		switch {
		case err == nil:
			v.Fate = fatePosted
		case cannotPay:
			v.Fate = fateFailed
		default:
			v.Fate = fateLeft
		}
	}
	if err != nil {
		v.Why = err.Error()
	}
	if now, readErr := d.db.Payout(ctx, p.PayoutID); readErr == nil {
		v.payoutView = view(now.Payout)
	}
	return v, err
}

func runFromRail(ctx context.Context, a *app.App, client *httprail.Client, id string, opts resolveOptions) error {
	p, err := look(ctx, a, id, opts.dryRun)
	if err != nil {
		return err
	}
	if p.State.Final() {
		return &paystore.StateError{PayoutID: p.PayoutID, Have: p.State, Want: []paystore.State{
			paystore.Pending, paystore.Claimed, paystore.RailSubmitted, paystore.RailAmbiguous, paystore.RailAcked,
		}}
	}
	plan := planFromRail(p.Payout, client.Host(), opts.noPost)
	if opts.dryRun {
		return printPlan(a, p.Payout, plan)
	}
	if err := confirm(ctx, a, p.Payout, plan, opts.yes); err != nil {
		return err
	}
	c, err := openCounter(ctx, a, client, opts)
	if err != nil {
		return err
	}
	defer c.proxy.Close()
	desk, err := sitDown(ctx, a, opts.operator, p.AccountID, c.lease())
	if err != nil {
		return err
	}
	defer desk.leave(ctx, a)
	v, err := c.settle(ctx, a, desk, p.Payout)
	if err != nil {
		return railFailure(err)
	}
	if err := a.Print(ui.View{Data: v, Columns: settledColumns(), Name: "payout_id"}); err != nil {
		return err
	}
	if v.left() {
		return &app.Failure{
			Exit: app.Unknown, Code: "rail_unsettled", Message: fmt.Sprintf("payout %s is not settled: %s", p.PayoutID, v.Why),
			Hint:    "what the rail said is kept: dlockctl payout show " + p.PayoutID,
			Details: map[string]string{"payout_id": p.PayoutID, "fate": v.Fate},
		}
	}
	return nil
}

func planFromRail(p paystore.Payout, host string, noPost bool) []string {
	plan := []string{
		fmt.Sprintf("acquire %s, for a token above %s", paystore.LockKey(p.AccountID), p.ClaimToken),
		fmt.Sprintf("ask the rail at %s about the key %s, and keep its answer as evidence; nothing is sent to be paid", host, ui.Visible(p.IdempotencyKey)),
		"if the rail has rejected it, or has no record of an attempt that is over, fail it",
		"if the rail has no record of it and there was no attempt, leave it free to be paid",
	}
	if noPost {
		return append(plan, "if the rail has paid it, take the payment down and leave it at RAIL_ACKED")
	}
	return append(plan, fmt.Sprintf("if the rail has paid it, take the payment down and post %s minor units of %s", p.AmountMinor, p.Currency))
}

// railFailure gives the rail's own errors their exit codes.
func railFailure(err error) error {
	if wrong, ok := errors.AsType[*resolver.WrongRailError](err); ok {
		return &app.Failure{
			Exit: app.Refused, Code: "wrong_rail", Message: wrong.Error() + "; what it does not know is not believed",
			Hint: "compare --rail-url and rail.url with those of rail-proxy",
		}
	}
	if unanswered, ok := errors.AsType[*httprail.Error](err); ok {
		return &app.Failure{
			Exit: app.Unreachable, Code: "rail_unreachable", Message: err.Error(), Hint: "nothing is known, and nothing was recorded; run it again when the rail answers",
			Details: map[string]any{"host": unanswered.Host, "status": unanswered.Status},
		}
	}
	return err
}

package payout

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/dlockctl/dlockctl/internal/cli/app"
	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/paystore"
	"github.com/dlockctl/dlockctl/internal/ui"
)

func newShowCmd(a *app.App) *cobra.Command {
	return &cobra.Command{
		Use:   "show ID",
		Short: "Show a payout and all that was recorded of it",
		Long: "Show one payout and its record in order of time: claims, rail attempts, resolutions and legs.\n" +
			"Exit 3 when there is none.",
		Example: "  dlockctl payout show 6f1f3f0e-8b1c-4f0e-9c55-0a4f5d1c2b3a\n" +
			"  dlockctl payout show 6f1f3f0e-8b1c-4f0e-9c55-0a4f5d1c2b3a -o json",
		Args: app.Args("ID"),
		RunE: a.Run(func(ctx context.Context, args []string) error { return runShow(ctx, a, args[0]) }),
	}
}

func runShow(ctx context.Context, a *app.App, id string) error {
	if _, err := paystore.ParseID("payout", id); err != nil {
		return err
	}
	pay, err := a.Pay(ctx, paystore.Reading)
	if err != nil {
		return err
	}
	p, err := pay.Payout(ctx, id)
	if err != nil {
		return err
	}
	v := detail(p)
	if err := a.Print(ui.View{Data: v, Rows: v.payoutView, Columns: columns(), Name: "payout_id"}); err != nil {
		return err
	}
	if !a.ForPeople() {
		return nil
	}
	a.Note("")
	return a.Print(ui.View{Data: v.Events, Columns: eventColumns(), Name: "event"})
}

// detailView is a payout with its record.
type detailView struct {
	payoutView

	LockKey string      `json:"lock_key"`
	Events  []eventView `json:"events"`
}

// eventView is one moment of a payout's life.
type eventView struct {
	At    lockstore.Time `json:"at"`
	Event string         `json:"event"`
	// Token is the one it was done with; absent where there is none.
	Token    paystore.Token `json:"token,omitempty"`
	TokenStr string         `json:"token_str,omitempty"`
	Who      string         `json:"who,omitempty"`
	What     string         `json:"what"`
	// Evidence is a resolution's, as it was given.
	Evidence json.RawMessage `json:"evidence,omitempty"`
	// Source is the table that says so.
	Source string `json:"source"`
}

const (
	eventCreated   = "created"
	eventClaimed   = "claimed"
	eventAttempted = "attempted"
	eventAnswered  = "answered"
	eventFenced    = "fenced"
	eventResolved  = "resolved"
	eventPosted    = "posted"
)

func eventColumns() []ui.Column {
	return []ui.Column{
		{Title: "AT", Field: "at", Kind: ui.Since},
		{Title: "EVENT", Field: "event", Tones: map[string]ui.Tone{eventPosted: ui.Good, eventFenced: ui.Warn, eventResolved: ui.Warn}},
		{Title: "TOKEN", Field: "token", Kind: ui.Number, Optional: true},
		{Title: "WHO", Field: "who", Optional: true},
		{Title: "WHAT", Field: "what"},
	}
}

func detail(p paystore.PayoutDetail) detailView {
	v := detailView{payoutView: view(p.Payout), LockKey: paystore.LockKey(p.AccountID), Events: []eventView{}}
	v.add(p.CreatedAt, eventCreated, "payout", 0, "", "%s minor units of %s from account %s", p.AmountMinor, p.Currency, p.AccountID)
	for _, c := range p.Claims {
		v.add(c.ClaimedAt, eventClaimed, "payout_claim", c.Token, c.ClaimedBy, "claimed or taken over")
	}
	for _, at := range p.Attempts {
		v.attempt(at)
	}
	for _, r := range p.Resolutions {
		v.add(r.RecordedAt, eventResolved, "payout_resolution", 0, r.Operator, "%s: %s", judged(r), r.Reason)
		v.Events[len(v.Events)-1].Evidence = r.Evidence
	}
	for _, l := range p.Legs {
		v.add(l.CreatedAt, eventPosted, "ledger_entry", l.Fence, "", "%s of %s minor units on account %s", l.Direction, l.AmountMinor, l.AccountID)
	}
	slices.SortStableFunc(v.Events, func(x, y eventView) int { return x.At.Compare(y.At.Time) })
	return v
}

// judged says what a resolution decided. One that gave the payout up before the rail
// was asked says nothing about the rail.
func judged(r paystore.Resolution) string {
	var gaveUp struct {
		Action paystore.Action `json:"action"`
		From   paystore.State  `json:"from"`
	}
	if json.Unmarshal(r.Evidence, &gaveUp) == nil && gaveUp.Action == paystore.GiveUp {
		return fmt.Sprintf("given up while %s", gaveUp.From)
	}
	return fmt.Sprintf("%s by the %s", r.Verdict, r.Source)
}

func (v *detailView) attempt(at paystore.Attempt) {
	if at.Outcome == paystore.OutcomeFenced {
		v.add(at.SubmittedAt, eventFenced, "rail_submission", at.PresentedToken, "", "refused at the rail: a higher token had been there; nothing was forwarded")
		return
	}
	v.add(at.SubmittedAt, eventAttempted, "rail_submission", at.PresentedToken, "", "recorded before the rail was called")
	if at.Outcome == "" {
		v.Events[len(v.Events)-1].What = "recorded before the rail was called; no answer is recorded"
		return
	}
	reference := ""
	if at.RailReference != "" {
		reference = fmt.Sprintf(", reference %q", at.RailReference)
	}
	v.add(at.ResolvedAt, eventAnswered, "rail_submission", at.PresentedToken, "rail", "%s%s", at.Outcome, reference)
}

func (v *detailView) add(at time.Time, event, source string, token paystore.Token, who, what string, args ...any) {
	e := eventView{At: lockstore.Time{Time: at}, Event: event, Token: token, Who: who, What: fmt.Sprintf(what, args...), Source: source}
	if token != 0 {
		e.TokenStr = token.String()
	}
	v.Events = append(v.Events, e)
}

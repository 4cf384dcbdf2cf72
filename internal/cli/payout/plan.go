package payout

import (
	"context"

	"github.com/dlockctl/dlockctl/internal/cli/app"
	"github.com/dlockctl/dlockctl/internal/paystore"
	"github.com/dlockctl/dlockctl/internal/ui"
)

// look reads the payout that is to be changed, after a protected profile was
// confirmed, unless it is only looked at.
func look(ctx context.Context, a *app.App, id string, dryRun bool) (paystore.PayoutDetail, error) {
	if _, err := paystore.ParseID("payout", id); err != nil {
		return paystore.PayoutDetail{}, err
	}
	purpose := paystore.Reading
	if !dryRun {
		if err := a.Protect(); err != nil {
			return paystore.PayoutDetail{}, err
		}
		purpose = paystore.Changing
	}
	db, err := a.Pay(ctx, purpose)
	if err != nil {
		return paystore.PayoutDetail{}, err
	}
	return db.Payout(ctx, id)
}

// planView is what would be done, as --dry-run prints it.
type planView struct {
	payoutView

	DryRun bool     `json:"dry_run"`
	Steps  []string `json:"steps"`
}

func printPlan(a *app.App, p paystore.Payout, steps []string) error {
	v := planView{view(p), true, steps}
	if err := a.Print(ui.View{Data: v, Rows: v.payoutView, Columns: columns(), Name: "payout_id"}); err != nil {
		return err
	}
	if a.ForPeople() {
		say(a, steps)
	}
	return nil
}

func say(a *app.App, steps []string) {
	for i, step := range steps {
		a.Note("%d. %s", i+1, step)
	}
}

// confirm shows the payout and what will be done, and asks.
func confirm(ctx context.Context, a *app.App, p paystore.Payout, steps []string, yes bool) error {
	if yes {
		return nil
	}
	if err := a.CanAsk(yes, "--yes"); err != nil {
		return err
	}
	a.Note("payout %s, %s minor units of %s from account %s, is %s", p.PayoutID, p.AmountMinor, p.Currency, p.AccountID, p.State)
	say(a, steps)
	return a.Confirm(ctx, "Do it?", "--yes")
}

// doneView is the payout as a change left it.
type doneView struct {
	payoutView

	Action string `json:"action"`
}

func printDone(ctx context.Context, a *app.App, db *paystore.DB, id, action string) error {
	p, err := db.Payout(ctx, id)
	if err != nil {
		return err
	}
	return a.Print(ui.View{Data: doneView{view(p.Payout), action}, Columns: columns(), Name: "payout_id"})
}

// Package account holds the verbs that look at accounts.
package account

import (
	"github.com/spf13/cobra"

	"github.com/dlockctl/dlockctl/internal/cli/app"
	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/paystore"
	"github.com/dlockctl/dlockctl/internal/ui"
)

// New returns the account command with its verbs.
func New(a *app.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "account",
		Short: "Look at accounts and their fences",
		Long: "An account's balance moves with its fence: the token of the last posting that it let pass, so\n" +
			"that a holder with an older one is refused. Amounts are minor units: cents, not euros.",
		Example: "  dlockctl account list --currency EUR\n  dlockctl account show 00000000-0000-4000-8000-000000000001",
	}
	cmd.AddCommand(newListCmd(a), newShowCmd(a))
	return app.Group(cmd)
}

// The kinds of account.
const (
	kindPayer    = "payer"
	kindClearing = "clearing"
)

// accountView is an account as it is printed.
type accountView struct {
	AccountID string `json:"account_id"`
	// Kind is "payer" or "clearing" (K-4.7).
	Kind            string         `json:"kind"`
	Currency        string         `json:"currency"`
	BalanceMinor    paystore.Minor `json:"balance_minor"`
	BalanceMinorStr string         `json:"balance_minor_str"`
	Fence           paystore.Token `json:"fence"`
	FenceStr        string         `json:"fence_str"`
	OpenPayouts     int64          `json:"open_payouts"`
	// Anchored tells that an opening balance is recorded (K-4.8).
	Anchored        bool            `json:"anchored"`
	OpeningMinor    *paystore.Minor `json:"opening_minor,omitempty"`
	OpeningMinorStr string          `json:"opening_minor_str,omitempty"`
	UpdatedAt       lockstore.Time  `json:"updated_at"`
}

func view(acc paystore.Account) accountView {
	v := accountView{
		AccountID: acc.AccountID, Kind: kindPayer, Currency: acc.Currency,
		BalanceMinor: acc.BalanceMinor, BalanceMinorStr: acc.BalanceMinor.String(), Fence: acc.Fence, FenceStr: acc.Fence.String(),
		OpenPayouts: acc.OpenPayouts, Anchored: acc.OpeningMinor != nil, OpeningMinor: acc.OpeningMinor,
		UpdatedAt: lockstore.Time{Time: acc.UpdatedAt},
	}
	if acc.Clearing {
		v.Kind = kindClearing
	}
	if acc.OpeningMinor != nil {
		v.OpeningMinorStr = acc.OpeningMinor.String()
	}
	return v
}

func columns() []ui.Column {
	return []ui.Column{
		{Title: "ACCOUNT", Field: "account_id"},
		{Title: "KIND", Field: "kind", Tones: map[string]ui.Tone{kindClearing: ui.Faint}},
		{Title: "CURRENCY", Field: "currency"},
		{Title: "BALANCE (MINOR)", Field: "balance_minor", Kind: ui.Number},
		{Title: "FENCE", Field: "fence", Kind: ui.Number},
		{Title: "OPEN PAYOUTS", Field: "open_payouts", Kind: ui.Number},
		{Title: "OPENING (MINOR)", Field: "opening_minor", Kind: ui.Number, Wide: true},
		{Title: "UPDATED", Field: "updated_at", Kind: ui.Since},
	}
}

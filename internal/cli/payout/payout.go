// Package payout holds the verbs on payouts: what an operator does with one that
// the services have not finished.
package payout

import (
	"github.com/spf13/cobra"

	"github.com/dlockctl/dlockctl/internal/cli/app"
)

// New returns the payout command with its verbs.
func New(a *app.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "payout",
		Short: "Create, look at and finish payouts",
		Long: "A payout moves along the arrows of docs/payouts.md and no others, each time under the token of\n" +
			"its account's lock, account:<id>. What became of it at the rail is never guessed. Amounts are\n" +
			"minor units: cents, not euros.",
		Example: "  dlockctl payout list --open --older-than 15m\n" +
			"  dlockctl payout show 6f1f3f0e-8b1c-4f0e-9c55-0a4f5d1c2b3a",
	}
	cmd.AddCommand(newCreateCmd(a), newListCmd(a), newShowCmd(a), newReleaseCmd(a), newResolveCmd(a), newAbandonCmd(a))
	return app.Group(cmd)
}

// Package lock holds the verbs on one lock, which stand at the top of the
// command line, and the lock noun that looks at all of them.
package lock

import (
	"github.com/spf13/cobra"

	"github.com/dlockctl/dlockctl/internal/cli/app"
)

// Verbs returns acquire, renew, release and revoke.
func Verbs(a *app.App) []*cobra.Command {
	return []*cobra.Command{newAcquireCmd(a), newRenewCmd(a), newReleaseCmd(a), newRevokeCmd(a)}
}

// New returns the lock command with its verbs.
func New(a *app.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "lock",
		Short:   "Look at locks, and prune lapsed ones",
		Example: "  dlockctl lock list\n  dlockctl lock show account:42\n  dlockctl lock watch --prefix account:",
	}
	cmd.AddCommand(newListCmd(a), newShowCmd(a), newWatchCmd(a), newPruneCmd(a))
	return app.Group(cmd)
}

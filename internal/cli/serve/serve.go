// Package serve holds the verbs that start a service, all of them at once, or make
// a key for a caller of one.
package serve

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/dlockctl/dlockctl/internal/cli/app"
	"github.com/dlockctl/dlockctl/internal/config"
)

// The services' ports on loopback, where nothing else is said.
const (
	lockServerPort      = 7420
	paymentResourcePort = 7421
	railProxyPort       = 7422
	railSimPort         = 7423
	executorPort        = 7424
)

// unprotected refuses what is for trying things out on a protected profile.
func unprotected(cfg *config.Config, why string) error {
	profile, protected := cfg.Protection()
	if !protected {
		return nil
	}
	return &app.Failure{
		Exit: app.Refused, Code: "protected", Message: fmt.Sprintf("profile %q is protected, and %s", profile, why),
		Hint: "start each service by itself, under its own login: dlockctl serve --help",
	}
}

// New returns the serve command.
func New(a *app.App) *cobra.Command {
	cmd := app.Group(&cobra.Command{
		Use:        "serve",
		SuggestFor: []string{"server", "daemon"},
		Short:      "Run a service, or all of them",
		Long: "Run one of the services until it is told to stop: SIGTERM or SIGINT lets it finish what it has\n" +
			"begun (exit 0), a second one ends it at once, SIGHUP does nothing. --timeout does not count here.\n" +
			"Each service takes one role's login: lock-server lock.dsn as lockapp, payment-resource pay.dsn as\n" +
			"payapp_resource, rail-proxy rail.dsn as payapp_rail; payout-executor takes none.",
		Example: "  dlockctl serve all\n  dlockctl serve lock-server --listen 127.0.0.1:7420\n" +
			"  dlockctl serve key --name executor-1 --scope acquire,pay,rail",
	})
	cmd.AddCommand(newLockServerCmd(a), newPaymentResourceCmd(a), newRailProxyCmd(a), newRailSimCmd(a), newExecutorCmd(a), newAllCmd(a), newKeyCmd(a))
	return cmd
}

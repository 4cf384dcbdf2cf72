package serve

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/spf13/cobra"

	"github.com/dlockctl/dlockctl/internal/cli/app"
	"github.com/dlockctl/dlockctl/internal/paystore"
	"github.com/dlockctl/dlockctl/internal/paystore/rail/httprail"
	"github.com/dlockctl/dlockctl/internal/service/payresource"
	"github.com/dlockctl/dlockctl/internal/service/railproxy"
)

const railDeadlineUsage = "how long rail-proxy waits for the rail's answer (default 10s)"

func newPaymentResourceCmd(a *app.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "payment-resource",
		Short: "Serve payouts, accounts and fenced posting over HTTP",
		Long: "Serve paydb over HTTP (docs/http.md): payouts are made, claimed, posted under the fence and settled.\n" +
			"Its login has payapp_resource alone: it never touches the rail's marks (K-4.6).",
		Example: "  dlockctl serve payment-resource\n  dlockctl serve payment-resource --pay-dsn-file resource.dsn --listen 127.0.0.1:7421",
	}
	cmd = command(a, cmd, paymentResourcePort, runPaymentResource)
	cmd.Flags().Duration("rail-deadline", 0, railDeadlineUsage)
	return cmd
}

func runPaymentResource(ctx context.Context, f *frame) error {
	login, err := f.login("payapp_resource", f.app.PayConfig)
	if err != nil {
		return err
	}
	s, err := payresource.New(ctx, payresource.Options{
		Database: f.paydb(login), FencingDisabled: !f.cfg.Payment.Fencing.Enabled, RailDeadline: f.cfg.Rail.Deadline, Log: f.log, Metrics: f.metrics,
	})
	if err != nil {
		return err
	}
	defer s.Close()
	f.metrics.Pool("paydb", s.Stat)
	return f.serve(ctx, s)
}

func newRailProxyCmd(a *app.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "rail-proxy",
		Short: "Submit payouts to the payment rail, each once",
		Long: "Stand before the payment rail: check the rail's mark, record the attempt, forward it once, record\n" +
			"what the rail answers (docs/rail.md). Its login has payapp_rail alone, which alone writes the\n" +
			"marks (K-4.6).",
		Example: "  dlockctl serve rail-proxy --rail-url http://127.0.0.1:7423\n" +
			"  dlockctl serve rail-proxy --rail-dsn-file rail.dsn --rail-url https://rail.example/v1 --rail-key-file rail.key",
	}
	cmd = command(a, cmd, railProxyPort, runRailProxy)
	flags := cmd.Flags()
	flags.String("rail-url", "", "`URL` of the payment rail")
	flags.String("rail-key-file", "", "`FILE` that holds the key of the rail's API, one line")
	flags.Duration("rail-deadline", 0, railDeadlineUsage)
	return cmd
}

func runRailProxy(ctx context.Context, f *frame) error {
	if f.cfg.Rail.URL == "" {
		return app.UsageError("add --rail-url URL; dlockctl serve rail-sim is one to try", "rail.url is missing: where is the payment rail?")
	}
	to, err := httprail.New(f.cfg.Rail.URL, httprail.Options{KeyFile: f.cfg.Rail.KeyFile})
	if err != nil {
		return err
	}
	login, err := f.login("payapp_rail", f.railLogin)
	if err != nil {
		return err
	}
	s, err := railproxy.New(ctx, railproxy.Options{
		Database: f.paydb(login), Rail: to, Deadline: f.cfg.Rail.Deadline, FencingDisabled: !f.cfg.Rail.Proxy.Fencing.Enabled, Log: f.log, Metrics: f.metrics,
	})
	if err != nil {
		return err
	}
	defer s.Close()
	f.metrics.Pool("paydb", s.Stat)
	return f.serve(ctx, s)
}

// railLogin does not fall back on paydb's own login, as the operator's verbs do:
// that one is payment-resource's.
func (f *frame) railLogin() (*pgx.ConnConfig, error) {
	if !f.cfg.Rail.Configured() {
		return nil, app.UsageError("set DLOCKCTL_RAIL_DSN or --rail-dsn-file to a login of payapp_rail", "rail.dsn is missing: rail-proxy has a login of its own (K-4.6)")
	}
	return f.app.RailConfig()
}

// paydb says how paydb is opened. The peer is compared by what migrate up recorded:
// a service has one login (K-6.1).
func (f *frame) paydb(login *pgx.ConnConfig) paystore.Options {
	return paystore.Options{Config: login, AllowSameInstance: f.cfg.SharesInstance(), Environment: f.cfg.Environment}
}

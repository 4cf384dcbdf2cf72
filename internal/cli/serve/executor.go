package serve

import (
	"context"
	"errors"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/dlockctl/dlockctl/internal/cli/app"
	"github.com/dlockctl/dlockctl/internal/service/client"
	"github.com/dlockctl/dlockctl/internal/service/executor"
)

type executorOptions struct {
	owner   string
	ttl     time.Duration
	workers int
	idle    time.Duration
}

func newExecutorCmd(a *app.App) *cobra.Command {
	var opts executorOptions
	cmd := &cobra.Command{
		Use:   "payout-executor",
		Short: "Pay pending payouts, one grant for each",
		Long: "Take pending payouts, acquire each account's lock, submit, post and settle, and take up what others\n" +
			"left half done. It has no database: it reaches lock-server, payment-resource and rail-proxy over\n" +
			"HTTP. It stops work on a payout at once when its lease is gone. Any number of them may run.",
		Example: "  dlockctl serve payout-executor\n" +
			"  dlockctl serve payout-executor --lock-url https://locks.example:7420 --key-file executor.key --workers 16",
	}
	cmd = command(a, cmd, executorPort, func(ctx context.Context, f *frame) error { return runExecutor(ctx, f, opts) })
	flags := cmd.Flags()
	peerFlags(flags, "lock-url", "pay-url", "rail-proxy-url")
	flags.StringVar(&opts.owner, "owner", "", "whose locks and claims they are, one name per executor (default user@host)")
	flags.DurationVar(&opts.ttl, "ttl", executor.DefaultTTL, "lease of an account's lock; it is renewed")
	app.WholeVar(flags, &opts.workers, "workers", executor.DefaultWorkers, "accounts worked on at once")
	flags.DurationVar(&opts.idle, "idle", executor.DefaultIdle, "longest pause when there is nothing to do")
	flags.Duration("rail-deadline", 0, railDeadlineUsage)
	return cmd
}

// peerFlags say where the other services are, and what is shown to them; all are
// read through the configuration.
func peerFlags(flags *pflag.FlagSet, urls ...string) {
	usage := map[string]string{
		"lock-url":       "`URL` of lock-server (default http://127.0.0.1:7420)",
		"pay-url":        "`URL` of payment-resource (default http://127.0.0.1:7421)",
		"rail-proxy-url": "`URL` of rail-proxy (default http://127.0.0.1:7422)",
	}
	for _, name := range urls {
		flags.String(name, "", usage[name])
	}
	flags.String("key-file", "", "`FILE` that holds the API key for the other services, one line")
	flags.String("ca-file", "", "`FILE` with the authorities that the other services' certificates are believed by, PEM")
	flags.String("cert-file", "", "`FILE` with the client certificate that is shown to them, PEM")
	flags.String("cert-key-file", "", "`FILE` with its private key, PEM")
}

// to says how another service is reached.
func (f *frame) to(url string) client.Options {
	credential := f.cfg.Services.Credential
	return client.Options{
		URL: url, KeyFile: credential.KeyFile, CAFile: credential.CAFile, CertFile: credential.CertFile, CertKeyFile: credential.CertKeyFile,
		Wrap: f.trace.Transport,
	}
}

// peerTime is how long another service has to say whether it is ready: three of them fit
// into the time that /readyz has.
const peerTime = 800 * time.Millisecond

// peerHealth asks another service whether it is ready.
func (f *frame) peerHealth(ctx context.Context, service string) error {
	to := f.to(map[string]string{
		executor.LockServer: f.cfg.Services.LockURL, executor.PaymentResource: f.cfg.Services.PayURL, executor.RailProxy: f.cfg.Services.RailURL,
	}[service])
	to.Timeout = peerTime
	health, err := client.Health(ctx, to)
	if err == nil && !health.Ready {
		err = errors.New(service + " is not ready")
	}
	return err
}

// worker is payout-executor as the frame sees it: no operations but the frame's own.
type worker struct{ *executor.Executor }

// Register adds nothing.
func (worker) Register(huma.API) {}

var _ service = worker{}

func runExecutor(ctx context.Context, f *frame, opts executorOptions) (err error) {
	if opts.owner == "" {
		if opts.owner, err = app.UserAtHost(); err != nil {
			return app.UsageError("name it: --owner NAME", "%v", err)
		}
	}
	locks, err := client.NewLocks(f.to(f.cfg.Services.LockURL))
	if err != nil {
		return err
	}
	defer locks.Close()
	payments, err := client.NewPayments(f.to(f.cfg.Services.PayURL))
	if err != nil {
		return err
	}
	defer payments.Close()
	// An answer that rail-proxy still waits for is waited for here as well.
	toRail := f.to(f.cfg.Services.RailURL)
	toRail.Timeout = f.cfg.Rail.Deadline + 10*time.Second
	rail, err := client.NewRail(toRail)
	if err != nil {
		return err
	}
	defer rail.Close()
	e, err := executor.New(executor.Options{
		Locks: locks, Payments: payments, Rail: rail, Owner: opts.owner, TTL: opts.ttl, Workers: opts.workers, Idle: opts.idle,
		Drain: f.cfg.Serve.Drain, Log: f.log, Metrics: f.metrics, Trace: f.trace, Health: f.peerHealth,
	})
	if err != nil {
		return err
	}
	server, err := f.server(worker{e})
	if err != nil {
		return err
	}
	return together(ctx, e.Run, server.Serve)
}

// together runs the work and its health. When the context ends the work does first:
// its health is seen until it holds nothing any more. When health breaks off, so
// does the work.
func together(ctx context.Context, work, health func(context.Context) error) error {
	working, stopWork := context.WithCancel(ctx)
	defer stopWork()
	seen, stopHealth := context.WithCancel(context.WithoutCancel(ctx))
	defer stopHealth()
	served := make(chan error, 1)
	go func() {
		defer stopWork()
		served <- health(seen)
	}()
	err := work(working)
	stopHealth()
	if broken := <-served; err == nil {
		err = broken
	}
	return err
}

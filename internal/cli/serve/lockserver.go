package serve

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/dlockctl/dlockctl/internal/cli/app"
	"github.com/dlockctl/dlockctl/internal/config"
	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/lockstore/postgres"
	"github.com/dlockctl/dlockctl/internal/restore"
	"github.com/dlockctl/dlockctl/internal/service/lockserver"
)

func newLockServerCmd(a *app.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "lock-server",
		Short: "Serve locks and sessions over HTTP",
		Long: "Serve lockdb, or with --backend etcd a cluster, over HTTP (docs/http.md): sessions, locks, waiting,\n" +
			"watching, revoking. It reaps expired sessions, and puts concurrent calls to lockdb into one\n" +
			"transaction. It grants nothing until both payment services have told their highest token (K-7.6),\n" +
			"unless the profile says no_payments: true. Any number of them may serve one lockdb or cluster.",
		Example: "  dlockctl serve lock-server\n  dlockctl serve lock-server --pay-url http://127.0.0.1:7421 --rail-proxy-url http://127.0.0.1:7422",
	}
	cmd = command(a, cmd, lockServerPort, runLockServer)
	peerFlags(cmd.Flags(), "pay-url", "rail-proxy-url")
	return cmd
}

func runLockServer(ctx context.Context, f *frame) error {
	opts := lockserver.Options{NoPayments: f.cfg.NoPayments, Log: f.log, Metrics: f.metrics}
	if err := f.backend(&opts); err != nil {
		return err
	}
	if !f.cfg.NoPayments {
		sources, closeAll, err := f.floorSources()
		if err != nil {
			return err
		}
		defer closeAll()
		opts.Payments = sources
	}
	var err error
	if opts.Rescue, err = rescue(f.app); err != nil {
		return err
	}
	s, err := lockserver.New(opts)
	if err != nil {
		return app.UsageError("", "%v", err)
	}
	if opts.Open == nil {
		f.metrics.Pool("lockdb", s.Stat)
	}
	server, err := f.server(s)
	if err != nil {
		return err
	}
	return s.Run(ctx, server.Serve)
}

// backend says where the locks are kept.
func (f *frame) backend(opts *lockserver.Options) error {
	switch f.cfg.Backend {
	case config.Etcd:
		// What is wrong with files and addresses is said at the start, not at readiness.
		if _, err := f.app.EtcdOptions(); err != nil {
			return err
		}
		opts.Name = config.Etcd
		opts.Open = func(ctx context.Context, highest func(context.Context) (lockstore.Token, error)) (lockserver.Backend, error) {
			store, err := f.app.ServeEtcd(ctx, highest)
			if err != nil {
				return nil, err
			}
			return lockserver.OneByOne(store), nil
		}
		return nil
	case config.SyncGuard:
		return app.UsageError("serve lockdb or etcd; the npm library and dlockctl work on SyncGuard's tables themselves",
			"lock-server does not serve the backend %s (from %s): it has no sessions for its callers", f.cfg.Backend, f.cfg.Origin("backend"))
	}
	login, err := f.login("lockapp", f.app.LockConfig)
	if err != nil {
		return err
	}
	opts.Store = postgres.Options{
		Config: login, AllowSameInstance: f.cfg.AllowSameInstance, Environment: f.cfg.Environment, MarkDir: f.cfg.MarkDir,
	}
	return nil
}

// rescue is the policy of K-7.10, nil when it is off.
func rescue(a *app.App) (func(context.Context) error, error) {
	auto, err := a.AutoRestore()
	if err != nil || auto == nil {
		return nil, err
	}
	return func(ctx context.Context) error {
		outcome, err := auto(ctx, 0)
		switch {
		case err != nil:
			return err
		case outcome.Verdict == restore.AutoRefused:
			return fmt.Errorf("a person has to decide: %s; run %s", strings.Join(outcome.Why, "; "), strings.Join(outcome.Fixes, "; "))
		}
		return nil
	}, nil
}

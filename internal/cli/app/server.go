package app

import (
	"context"

	"github.com/spf13/pflag"

	"github.com/dlockctl/dlockctl/internal/config"
	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/service/client"
)

// serverFlags are the flags that send the lock verbs through lock-server. They are
// global, for a profile that names a server has them everywhere.
func serverFlags(flags *pflag.FlagSet) {
	flags.String("server", "", "`URL` of a lock-server that the lock, session and audit verbs ask instead of the backend")
}

// serverStore is the lock store behind the lock-server that the configuration names,
// nil where it names none. It is asked what keeps its locks: one that does not answer
// says so to the verb, which asks next.
func (a *App) serverStore(ctx context.Context, cfg *config.Config, purpose Purpose) (lockstore.Store, error) {
	s := cfg.Server
	if s.URL == "" {
		return nil, nil //nolint:nilnil // no server is no error
	}
	locks, err := client.NewLocks(client.Options{URL: s.URL, KeyFile: s.KeyFile, CAFile: s.CAFile, CertFile: s.CertFile, CertKeyFile: s.CertKeyFile, Timeout: cfg.Timeout})
	if err != nil {
		return nil, UsageError("", "%v (from %s)", err, cfg.Origin("server.url"))
	}
	if purpose >= Changing {
		a.Badge()
	}
	_ = locks.Learn(ctx)
	return locks, nil
}

// HasLocks returns nil when it is configured where the locks are: a lock-server, an
// etcd cluster, or a database. Nobody is asked.
func (a *App) HasLocks() error {
	cfg, err := a.Config()
	if err != nil || cfg.Server.URL != "" || cfg.Backend == config.Etcd {
		return err
	}
	_, err = a.lockConfig()
	return err
}

// wantsDatabase refuses --server for a verb that works on lockdb itself. A server that
// a profile or a variable names does not concern it.
func (a *App) wantsDatabase() error {
	cfg, err := a.Config()
	if err != nil {
		return err
	}
	if cfg.Server.URL == "" || cfg.Origin("server.url").Layer != config.Flag {
		return nil
	}
	return UsageError("leave --server out; it is for the lock, session and audit verbs and run", "--server does not apply: this works on lockdb itself")
}

// Package app is what the verbs share: streams, configuration, the stores, the
// printer, the exit codes and the one table from an error to what is said about
// it. Everything expensive is opened at most once, when it is first asked for:
// --help, version and completion read no state and open no database.
package app

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/dlockctl/dlockctl/internal/config"
	"github.com/dlockctl/dlockctl/internal/devenv"
	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/lockstore/postgres"
	"github.com/dlockctl/dlockctl/internal/paystore"
	"github.com/dlockctl/dlockctl/internal/ui"
)

// App is one run of the program.
type App struct {
	Streams *ui.Streams

	open    OpenStore // a test's, in place of the configured backend
	program Program
	// tree makes the tree of all commands.
	tree  func() *cobra.Command
	args  []string
	flags *pflag.FlagSet

	config     *config.Config
	deadline   *deadline
	store      lockstore.Store
	purpose    Purpose
	pay        *paystore.DB
	payPurpose paystore.Purpose
	rail       *paystore.DB
	warned     sync.Once
	badged     sync.Once
}

// New returns the app for one run with these arguments.
func New(streams *ui.Streams, args []string) *App {
	return &App{Streams: streams, args: args}
}

// WithStore replaces the way the lock store is opened.
func (a *App) WithStore(open OpenStore) *App {
	a.open = open
	return a
}

// Close releases what was opened.
func (a *App) Close() {
	if a.store != nil {
		a.store.Close()
	}
	for _, db := range []*paystore.DB{a.pay, a.rail} {
		if db != nil {
			db.Close()
		}
	}
}

// Config returns the configuration, read once.
func (a *App) Config() (*config.Config, error) {
	if a.config != nil {
		return a.config, nil
	}
	file, _ := a.flag("config")
	cfg, err := config.Load(config.Sources{File: file, Env: a.Streams.Env, Flag: a.flag})
	switch {
	case errors.Is(err, config.ErrNoProfile):
		return nil, err
	case err != nil:
		return nil, UsageError("", "%v", err)
	}
	// Before the command's flags are known it is good for an error message
	// only.
	if a.flags != nil {
		a.config = cfg
	}
	return cfg, nil
}

// flag returns the value of a flag of the running command, and whether it was
// given.
func (a *App) flag(name string) (string, bool) {
	if a.flags == nil {
		return "", false
	}
	f := a.flags.Lookup(name)
	if f == nil || !f.Changed {
		return "", false
	}
	return f.Value.String(), true
}

// flagSlice is flag for a list.
func (a *App) flagSlice(name string) ([]string, bool) {
	if _, given := a.flag(name); !given {
		return nil, false
	}
	list, err := a.flags.GetStringSlice(name)
	return list, err == nil
}

// LockStore opens the lock store for a purpose, once. See the Open of each backend
// for its errors; they have their rows in the error table.
func (a *App) LockStore(ctx context.Context, purpose Purpose) (lockstore.Store, error) {
	if a.store != nil && purpose <= a.purpose {
		return a.store, nil
	}
	store, err := a.AnotherStore(ctx, purpose)
	if err != nil {
		return nil, err
	}
	if a.store != nil {
		a.store.Close()
	}
	a.store, a.purpose = store, purpose
	return store, nil
}

// AnotherStore opens a lock store beside the one that [App.LockStore] opens once:
// the configured backend, or the lock-server that stands for it. The caller closes it.
func (a *App) AnotherStore(ctx context.Context, purpose Purpose) (lockstore.Store, error) {
	cfg, err := a.Config()
	if err != nil {
		return nil, err
	}
	if store, err := a.serverStore(ctx, cfg, purpose); store != nil || err != nil {
		return store, err
	}
	open, err := a.opener(cfg, purpose)
	switch {
	case err != nil:
		return nil, err
	case a.open != nil:
		return a.open(ctx, purpose)
	}
	return open(ctx)
}

// lockOptions say how lockdb is opened for a purpose.
func (a *App) lockOptions(purpose Purpose) (postgres.Options, error) {
	cfg, err := a.Config()
	if err != nil {
		return postgres.Options{}, err
	}
	opts := postgres.Options{AllowSameInstance: cfg.SharesInstance(), Environment: cfg.Environment, Purpose: purpose, MaxConns: 1, MarkDir: cfg.MarkDir}
	if opts.Config, err = a.LockConfig(); err != nil {
		return postgres.Options{}, err
	}
	// Only who changes something must know that money stands elsewhere (K-6.1).
	if purpose >= Changing && (cfg.Pay.Configured() || cfg.Embedded()) {
		if opts.PeerConfig, err = a.PayConfig(); err != nil {
			return postgres.Options{}, err
		}
		opts.PeerConfig = soon(opts.PeerConfig)
		opts.PayHighest = a.payHighest(opts.PeerConfig)
	}
	if purpose >= Changing {
		a.Badge()
	}
	a.warnSameInstance(cfg)
	return opts, nil
}

// warnSameInstance says, once per command, that the laptop's override is in force
// (K-6.1).
func (a *App) warnSameInstance(cfg *config.Config) {
	if !cfg.AllowSameInstance {
		return
	}
	a.warned.Do(func() {
		a.Warn("allow_same_instance is set: locks and money may share one PostgreSQL instance, and one failure takes both")
	})
}

// LockConfig returns how to reach the database of lock.dsn, for what works on the
// database itself: lockdb, or with the backend syncguard the one with its tables.
func (a *App) LockConfig() (*pgx.ConnConfig, error) {
	if err := a.wantsDatabase(); err != nil {
		return nil, err
	}
	return a.lockConfig()
}

// LockdbConfig is LockConfig for what works on lockdb alone. Where the locks are kept
// elsewhere there is none, unless with etcd one is still named: the one of before.
func (a *App) LockdbConfig() (*pgx.ConnConfig, error) {
	cfg, err := a.Config()
	if err != nil {
		return nil, err
	}
	if cfg.Backend == config.SyncGuard {
		return nil, noLockdb(cfg)
	}
	return a.LockConfig()
}

// noLockdb says that the locks are elsewhere.
func noLockdb(cfg *config.Config) *Failure {
	return &Failure{
		Exit: Usage, Code: "no_database", Message: fmt.Sprintf("the backend is %s (from %s): there is no lockdb", cfg.Backend, cfg.Origin("backend")),
		Hint: "this works on lockdb itself: give --backend postgres and lock.dsn for one",
	}
}

func (a *App) lockConfig() (*pgx.ConnConfig, error) {
	return a.connConfig("lock", func(c *config.Config) config.Database { return c.Lock }, (*devenv.Env).LockDSN)
}

// PayConfig returns how to reach paydb.
func (a *App) PayConfig() (*pgx.ConnConfig, error) {
	return a.connConfig("pay", func(c *config.Config) config.Database { return c.Pay }, (*devenv.Env).PayDSN)
}

// RailConfig returns how to reach paydb as the one who writes the rail's marks.
func (a *App) RailConfig() (*pgx.ConnConfig, error) {
	cfg, err := a.Config()
	if err != nil {
		return nil, err
	}
	if !cfg.Rail.Configured() {
		return a.PayConfig()
	}
	return a.connConfig("rail", func(c *config.Config) config.Database { return c.Rail.Database }, nil)
}

func (a *App) connConfig(name string, pick func(*config.Config) config.Database, embedded func(*devenv.Env) (string, error)) (*pgx.ConnConfig, error) {
	cfg, err := a.Config()
	if err != nil {
		return nil, err
	}
	db := pick(cfg)
	var dsn string
	switch {
	case db.Configured():
		if dsn, err = db.Read(); err != nil {
			return nil, UsageError("", "%v (from %s)", err, cfg.Origin(name+".dsn_file"))
		}
	case cfg.Embedded():
		env, err := a.Dev()
		if err != nil {
			return nil, err
		}
		dsn, err = embedded(env)
		var broken *fs.PathError
		switch {
		case errors.As(err, &broken) && !errors.Is(err, fs.ErrNotExist):
			return nil, UsageError("", "%v", err)
		case err != nil:
			return nil, noDatabase(name)
		}
	case name == "lock" && cfg.Backend == config.Etcd:
		return nil, noLockdb(cfg)
	default:
		return nil, noDatabase(name)
	}
	parsed, err := pgx.ParseConfig(dsn)
	if err != nil {
		if missing := missingPart(err); missing != "" {
			return nil, UsageError("correct it in the connection string, or in PGSERVICE, PGSERVICEFILE and ~/.pg_service.conf",
				"the %s database's connection string: %s (from %s)", name, missing, a.dsnOrigin(cfg, name))
		}
		// pgx masks what it recognises as a password in a broken string, and
		// says itself that it cannot recognise all: so nothing of it is shown.
		return nil, UsageError("write postgres://user@host/database or host=… dbname=… user=…; in a URL, special letters are percent-encoded",
			"the %s database's connection string is malformed (from %s)", name, a.dsnOrigin(cfg, name))
	}
	return parsed, nil
}

// missingPart says which file or service a connection string names in vain, ""
// when it is another error. Of such an error the driver's message holds that
// name alone.
func missingPart(err error) string {
	if file, isFile := errors.AsType[*fs.PathError](err); isFile {
		return file.Error()
	}
	malformed, isMalformed := errors.AsType[*pgconn.ParseConfigError](err)
	if !isMalformed {
		return ""
	}
	if inner := errors.Unwrap(malformed); inner != nil {
		for _, about := range []string{"failed to read service file: ", "unable to find service: "} {
			if strings.HasPrefix(inner.Error(), about) {
				return inner.Error()
			}
		}
	}
	return ""
}

func noDatabase(name string) *Failure {
	upper := map[string]string{"lock": "DLOCKCTL_LOCK_DSN", "pay": "DLOCKCTL_PAY_DSN"}[name]
	return &Failure{
		Exit: Usage, Code: "no_database", Message: "no database configured",
		Hint: fmt.Sprintf("run: dlockctl dev up, or set %s / --%s-dsn-file", upper, name),
	}
}

func (a *App) dsnOrigin(cfg *config.Config, name string) config.Origin {
	if pick := map[string]config.Database{"lock": cfg.Lock, "pay": cfg.Pay, "rail": cfg.Rail.Database}[name]; pick.DSN != "" {
		return cfg.Origin(name + ".dsn")
	}
	return cfg.Origin(name + ".dsn_file")
}

// Dev returns the embedded instances of this profile, which need not exist.
func (a *App) Dev() (*devenv.Env, error) {
	cfg, err := a.Config()
	if err != nil {
		return nil, err
	}
	return devenv.Open(devenv.Options{StateDir: cfg.StateDir, PGBin: cfg.PGBin, Env: a.Streams.Env, Progress: a.Progress})
}

// Operator is who acts, for audit rows: --operator, DLOCKCTL_OPERATOR, the
// profile, or else user@host (K-3.3).
func (a *App) Operator() (string, error) {
	cfg, err := a.Config()
	if err != nil {
		return "", err
	}
	who := cfg.Operator
	if who == "" {
		if who, err = UserAtHost(); err != nil {
			return "", UsageError("say who you are: --operator NAME", "%v", err)
		}
	}
	return who, lockstore.ValidOperator(who)
}

// UserAtHost is the operating system's user and host, as user@host.
func UserAtHost() (string, error) {
	host, err := os.Hostname()
	if err != nil {
		return "", fmt.Errorf("read the host's name: %w", err)
	}
	who, err := user.Current()
	if err != nil {
		return "", fmt.Errorf("read the user's name: %w", err)
	}
	return who.Username + "@" + host, nil
}

// cleanUpTimeout bounds what is still tidied after a failure or a signal.
const cleanUpTimeout = 5 * time.Second

// CleanUp returns a context for tidying up after a failure, which goes on when
// the command's own context has ended.
func CleanUp(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), cleanUpTimeout)
}

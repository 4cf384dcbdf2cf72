// Package devenv is the embedded default: two separate PostgreSQL instances of the user's own, one for lockdb and one
// for paydb, made, found again, stopped and removed.
//
// Everything lies in the folder dev of the state folder:
//
//	.made-by-dlockctl-dev        the marker; without it nothing here is touched
//	lockdb/ paydb/               one instance each: see package cluster for its files
//	  instance.json              what was chosen: binaries, port, socket folder, system identifier
//	  dsn  dsn-<role>            how to log in, and how a service does, mode 0600
//	lockdb-standby/ lockdb-gone/ what a drill of a fail-over leaves until it is destroyed
//	pgsql/ download/             binaries, when they had to be downloaded
//
// The servers run on without dlockctl. Nothing about them is believed because a file says so: the process that the
// pid file names must live in the data folder, and the server must answer with the recorded system identifier.
//
// Failure table:
//
//	dlockctl killed during initdb    the half-made folder has another name (….part-…) and is removed by the next Up
//	dlockctl killed later            the next Up finds what is done and does the rest
//	pid file left by a crash         PostgreSQL takes it over; when its number is another process by now, Up clears it
//	port taken meanwhile             another is chosen, recorded, written into dsn
//	two commands at once             the second waits for the first (file lock beside the folder)
//	binaries upgraded or gone        the same major version is looked for again; another one is refused
package devenv

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/dlockctl/dlockctl/internal/devenv/cluster"
	"github.com/dlockctl/dlockctl/internal/devenv/filelock"
)

// The two instances, each named after its database.
const (
	LockDB = "lockdb"
	PayDB  = "paydb"
)

// Login is the role of the DSN files: member of every group role, so that one DSN serves every verb of a laptop. The
// services have logins of their own, see ServiceDSN.
const Login = "dlockctl"

// Options say where and with what. The zero value is the default of the user.
type Options struct {
	// StateDir overrides $DLOCKCTL_STATE_DIR, which overrides /var/lib/dlockctl for root, else
	// $XDG_STATE_HOME/dlockctl, else ~/.local/state/dlockctl.
	StateDir string
	// PGBin is a folder of PostgreSQL binaries and overrides $DLOCKCTL_PG_BIN. Either is used or refused: nothing else
	// is looked for.
	PGBin string
	// RunAs is the user to run the servers as when the caller is root; empty: postgres, else nobody.
	RunAs string
	// Env reads an environment variable; nil: os.Getenv.
	Env func(string) string
	// Progress is told what is going on, a line each, never by two goroutines at once; nil: nobody is.
	Progress func(string)
	// Fetch downloads binaries when the machine has none; nil: Download from $DLOCKCTL_PG_REPOSITORY.
	Fetch Fetcher
}

// Env is the two instances of one state folder, which need not exist yet.
type Env struct {
	dir      string // <state folder>/dev
	opts     Options
	account  cluster.Account
	progress func(format string, args ...any)
	root     string // of the folders that are searched for binaries; empty but in tests
}

// Open resolves the options. It makes and starts nothing.
func Open(opts Options) (*Env, error) {
	if opts.Env == nil {
		opts.Env = os.Getenv
	}
	if opts.Fetch == nil {
		opts.Fetch = Download(opts.Env("DLOCKCTL_PG_REPOSITORY"))
	}
	forgetOtherServers()
	state, err := stateDir(opts)
	if err != nil {
		return nil, err
	}
	account, err := cluster.ResolveAccount(opts.RunAs)
	if err != nil {
		return nil, err
	}
	var mu sync.Mutex
	return &Env{
		dir: filepath.Join(state, "dev"), opts: opts, account: account,
		progress: func(format string, args ...any) {
			if opts.Progress == nil {
				return
			}
			mu.Lock()
			defer mu.Unlock()
			opts.Progress(fmt.Sprintf(format, args...))
		},
	}, nil
}

// forgetOtherServers takes the caller's PG… variables out of this process: they mean servers other than these, and pgx
// reads them into every configuration it parses, where a wrong one is an error although the DSN is complete.
func forgetOtherServers() {
	for _, variable := range os.Environ() {
		if name, _, _ := strings.Cut(variable, "="); strings.HasPrefix(name, "PG") {
			_ = os.Unsetenv(name) // fails for a malformed name only
		}
	}
}

// Dir is the folder that holds everything.
func (e *Env) Dir() string { return e.dir }

// Up makes what is missing and starts what is stopped: the instances, the group roles, the login, the databases. It
// does not migrate. Running it again changes nothing.
func (e *Env) Up(ctx context.Context) (Status, error) {
	if err := e.makeParent(); err != nil {
		return Status{}, err
	}
	if _, err := e.made(); err != nil {
		return Status{}, err
	}
	lock, err := e.lock(ctx)
	if err != nil {
		return Status{}, err
	}
	status, err := e.up(ctx)
	return status, errors.Join(err, lock.Release())
}

func (e *Env) up(ctx context.Context) (Status, error) {
	if err := e.makeDir(); err != nil {
		return Status{}, err
	}
	group, upCtx := errgroup.WithContext(ctx)
	find := sync.OnceValues(func() (binaries, error) { return e.findBinaries(upCtx, e.majorInUse()) })
	instances := e.instances()
	for _, i := range instances {
		group.Go(func() error {
			if err := i.up(upCtx, find); err != nil {
				return fmt.Errorf("start %s: %w", i.name, diskFull(err))
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return Status{}, err
	}
	if a, b := instances[0].rec.SystemIdentifier, instances[1].rec.SystemIdentifier; a == b {
		return Status{}, fmt.Errorf("lockdb and paydb have the same system identifier %d, so one is a copy of the other; "+
			"run `dlockctl dev destroy` and start over", a)
	}
	return e.Status(ctx)
}

// Down stops both servers; their data stays.
func (e *Env) Down(ctx context.Context) error {
	if made, err := e.made(); err != nil || !made {
		return err
	}
	lock, err := e.lock(ctx)
	if err != nil {
		return err
	}
	return errors.Join(e.down(ctx), lock.Release())
}

func (e *Env) down(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, i := range append(e.instances(), e.followers()...) {
		group.Go(func() error {
			if err := i.down(ctx); err != nil {
				return fmt.Errorf("stop %s: %w", i.name, err)
			}
			return nil
		})
	}
	return group.Wait()
}

// Status looks without changing anything, and without waiting for another command.
func (e *Env) Status(ctx context.Context) (Status, error) {
	status := Status{StateDir: e.dir, Instances: []InstanceStatus{}}
	made, err := e.made()
	if err != nil {
		return Status{}, err
	}
	for _, i := range e.instances() {
		s := InstanceStatus{Name: i.name, State: Absent}
		if made {
			if s, err = i.status(ctx); err != nil {
				return Status{}, fmt.Errorf("look at %s: %w", i.name, err)
			}
		}
		status.Instances = append(status.Instances, s)
	}
	return status, nil
}

// LockDSN reads how to log in to lockdb as Login. It is a secret.
func (e *Env) LockDSN() (string, error) { return e.dsn(LockDB) }

// PayDSN reads how to log in to paydb as Login. It is a secret.
func (e *Env) PayDSN() (string, error) { return e.dsn(PayDB) }

func (e *Env) dsn(name string) (string, error) {
	made, err := e.made()
	if err != nil {
		return "", err
	}
	if !made {
		return "", &NotUpError{Name: name, Dir: e.dir}
	}
	return e.instance(name).readDSN(logins(name)[0])
}

func (e *Env) instances() []*postgres {
	return []*postgres{e.instance(LockDB), e.instance(PayDB)}
}

func (e *Env) instance(name string) *postgres {
	return &postgres{env: e, name: name, dir: filepath.Join(e.dir, name)}
}

// lock keeps two commands from making or removing the same thing. Its file lies beside the folder, not in it, so that
// destroy can hold it while the folder goes.
func (e *Env) lock(ctx context.Context) (*filelock.Lock, error) {
	lock, err := filelock.Wait(ctx, e.dir+".lock", func() { e.progress("waiting for another dlockctl dev command on %s", e.dir) })
	if err != nil {
		return nil, unwritable(err)
	}
	return lock, nil
}

package devenv

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/dlockctl/dlockctl/internal/devenv/cluster"
)

// postgres is one of the two instances.
type postgres struct {
	env  *Env
	name string // also the name of its database
	dir  string
	rec  record
	// upstream is the instance that this one follows, nil for none; followed lets one follow this.
	upstream *postgres
	followed bool
}

// record is instance.json.
type record struct {
	Bin              string `json:"bin"`
	Version          string `json:"version"`
	Major            int    `json:"major"`
	Port             int    `json:"port"`
	SocketDir        string `json:"socket_dir"`
	SystemIdentifier int64  `json:"system_identifier"` // 0 until the first start
}

const recordFile = "instance.json"

func (p *postgres) cluster() cluster.Cluster {
	return cluster.Cluster{Bin: p.rec.Bin, Dir: p.dir, Account: p.env.account}
}

// load reads the record; false when there is no instance.
func (p *postgres) load() (bool, error) {
	raw, err := os.ReadFile(filepath.Join(p.dir, recordFile))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("read the instance's record: %w", err)
	}
	if err := json.Unmarshal(raw, &p.rec); err != nil {
		return false, fmt.Errorf("read %s: %w", filepath.Join(p.dir, recordFile), err)
	}
	return true, nil
}

func (p *postgres) save(dir string) error {
	raw, err := json.MarshalIndent(p.rec, "", "  ")
	if err != nil {
		return fmt.Errorf("write the instance's record: %w", err)
	}
	if err := cluster.WriteFile(filepath.Join(dir, recordFile), append(raw, '\n'), 0o600); err != nil {
		return fmt.Errorf("write the instance's record: %w", err)
	}
	return nil
}

// majorInUse is the version that made what is there; 0 when nothing is.
func (e *Env) majorInUse() int {
	for _, p := range e.instances() {
		if there, err := p.load(); err == nil && there {
			return p.rec.Major
		}
	}
	return 0
}

func (p *postgres) up(ctx context.Context, find func() (binaries, error)) error {
	there, err := p.load()
	if err != nil {
		return err
	}
	if !there {
		if err := p.create(ctx, find); err != nil {
			return err
		}
	}
	if err := p.run(ctx, find); err != nil {
		return err
	}
	if err := p.identify(ctx); err != nil {
		return err
	}
	return p.provision(ctx)
}

// run makes sure that the server runs and that the record says where it listens.
func (p *postgres) run(ctx context.Context, find func() (binaries, error)) error {
	server, running, err := p.settle(ctx)
	if err != nil {
		return err
	}
	if !running {
		startErr := p.start(ctx, find)
		// A pg_ctl that a killed command left behind may have been faster; PostgreSQL lets in only one of the two.
		server, running, err = p.settle(ctx)
		if err != nil || !running {
			return errors.Join(startErr, err)
		}
	}
	if p.rec.Port == server.Port && p.rec.SocketDir == server.SocketDir {
		return nil
	}
	p.rec.Port, p.rec.SocketDir = server.Port, server.SocketDir
	return p.save(p.dir)
}

// settle waits until a server that another command left starting or stopping is up or gone.
func (p *postgres) settle(ctx context.Context) (server cluster.Postmaster, running bool, err error) {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		server, running, err := p.cluster().Running(ctx)
		if err != nil || !running || server.Ready {
			return server, running, err
		}
		select {
		case <-ctx.Done():
			return server, running, fmt.Errorf("wait for process %d, which neither serves nor ends (see %s): %w",
				server.PID, p.cluster().LogFile(), context.Cause(ctx))
		case <-tick.C:
		}
	}
}

// create runs initdb in a folder of another name and renames it when everything is there, so that a half-made
// instance is never taken for one.
func (p *postgres) create(ctx context.Context, find func() (binaries, error)) error {
	if _, err := os.Lstat(p.dir); !errors.Is(err, fs.ErrNotExist) {
		return errors.Join(err, setup("%s is there and was not made by dlockctl dev; move it away", p.dir))
	}
	found, err := find()
	if err != nil {
		return err
	}
	if err := p.removeHalfMade(ctx); err != nil {
		return err
	}
	p.rec = record{Bin: found.dir, Version: found.version.Text, Major: found.version.Major}
	part, err := os.MkdirTemp(p.env.dir, p.name+partInfix+"*")
	if err != nil {
		return unwritable(err)
	}
	p.env.progress("%s: making a PostgreSQL %s instance in %s", p.name, p.rec.Version, p.dir)
	err = p.fill(ctx, part)
	if err == nil {
		err = os.Rename(part, p.dir)
	}
	if err != nil {
		return errors.Join(err, removeGrowing(context.WithoutCancel(ctx), part))
	}
	return nil
}

const partInfix = ".part-"

func (p *postgres) fill(ctx context.Context, part string) error {
	if err := os.Chmod(part, mode()); err != nil {
		return fmt.Errorf("make the instance's folder: %w", err)
	}
	half := cluster.Cluster{Bin: p.rec.Bin, Dir: part, Account: p.env.account}
	if err := half.Init(ctx, cluster.InitOptions{Superuser: superuser, Sync: true, Checksums: true}); err != nil {
		return err
	}
	return p.save(part)
}

// identQuoted quotes a user's name as pg_ident.conf reads it: a doubled mark stands for itself, and a backslash, as
// in a domain's user, is a letter like any other.
func identQuoted(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }

// named lists what a folder holds under names of that beginning. Not by a pattern: the folder's own name may hold
// the letters of one, and match another folder.
func named(dir, prefix string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var paths []string
	for _, entry := range entries {
		if strings.HasPrefix(entry.Name(), prefix) {
			paths = append(paths, filepath.Join(dir, entry.Name()))
		}
	}
	return paths, nil
}

// removeHalfMade removes what a killed Up left. The caller holds the lock.
func (p *postgres) removeHalfMade(ctx context.Context) error {
	parts, err := named(p.env.dir, p.name+partInfix)
	if err != nil {
		return fmt.Errorf("look for half-made instances: %w", err)
	}
	for _, part := range parts {
		if err := removeGrowing(ctx, part); err != nil {
			return fmt.Errorf("remove a half-made instance: %w", err)
		}
	}
	return nil
}

// removeGrowing removes a folder into which a process of a killed initdb may still write for a moment.
func removeGrowing(ctx context.Context, dir string) error {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for range 100 {
		err := os.RemoveAll(dir)
		if !errors.Is(err, syscall.ENOTEMPTY) {
			return err
		}
		select {
		case <-ctx.Done():
			return errors.Join(err, context.Cause(ctx))
		case <-tick.C:
		}
	}
	return os.RemoveAll(dir)
}

// start starts a server that does not run, on its old port when that is free.
func (p *postgres) start(ctx context.Context, find func() (binaries, error)) error {
	if _, err := os.Stat(filepath.Join(p.cluster().Data(), "PG_VERSION")); err != nil {
		return fmt.Errorf("look into the data folder: %w; when a destroy was interrupted, run `dlockctl dev destroy` again", err)
	}
	if err := p.chooseBinaries(ctx, find); err != nil {
		return err
	}
	if err := p.cluster().ClearStale(ctx); err != nil {
		return err
	}
	if err := p.chooseSocketDir(); err != nil {
		return err
	}
	for attempt := 1; ; attempt++ {
		if err := p.choosePort(ctx); err != nil {
			return err
		}
		if err := p.configure(); err != nil {
			return err
		}
		// Before the start: a server that runs must be found by whoever comes after a kill.
		if err := p.save(p.dir); err != nil {
			return err
		}
		p.env.progress("%s: starting PostgreSQL %s on port %d", p.name, p.rec.Version, p.rec.Port)
		err := p.cluster().StartDaemon(ctx)
		if !errors.Is(err, cluster.ErrPortTaken) || attempt == 10 {
			return err
		}
		p.rec.Port = 0 // whatever PortFree says of it
	}
}

// chooseBinaries keeps the binaries of before, unless others are asked for or they are gone.
func (p *postgres) chooseBinaries(ctx context.Context, find func() (binaries, error)) error {
	told := p.env.opts.PGBin != "" || p.env.opts.Env("DLOCKCTL_PG_BIN") != ""
	version, err := cluster.ReadVersion(ctx, p.rec.Bin, p.env.account)
	if told || err != nil || version.Major != p.rec.Major {
		found, err := find()
		if err != nil {
			return err
		}
		p.rec.Bin, version = found.dir, found.version
	}
	p.rec.Version = version.Text
	return nil
}

func (p *postgres) choosePort(ctx context.Context) error {
	if p.rec.Port != 0 && cluster.PortFree(ctx, p.rec.Port) {
		return nil
	}
	port, err := cluster.FreePort(ctx)
	if err != nil {
		return err
	}
	if p.rec.Port != 0 {
		p.env.progress("%s: port %d is taken, taking %d", p.name, p.rec.Port, port)
	}
	p.rec.Port = port
	return nil
}

// maxSocketDir keeps <folder>/.s.PGSQL.31999 below the limit of a unix socket's path: 103 bytes on macOS, 107 on Linux.
const maxSocketDir = 103 - len("/.s.PGSQL.31999")

// chooseSocketDir takes the instance's own folder, or, when its name is too long, a short one of its own in /tmp.
func (p *postgres) chooseSocketDir() error {
	run := p.cluster().Run()
	if len(run) <= maxSocketDir {
		p.rec.SocketDir = run
		return nil
	}
	if p.rec.SocketDir != "" && p.ownsSocketDir() {
		return nil
	}
	dir, err := os.MkdirTemp("/tmp", shortSocketPrefix+"*")
	if err != nil {
		return fmt.Errorf("make a short folder for the unix socket: %w", err)
	}
	if err := p.env.account.Own(dir); err != nil {
		return err
	}
	p.rec.SocketDir = dir
	return nil
}

const shortSocketPrefix = "dlockctl-"

// ownsSocketDir looks whether the short folder is still the one made: /tmp is cleaned at boot, and anybody may take
// the name then.
func (p *postgres) ownsSocketDir() bool {
	info, err := os.Lstat(p.rec.SocketDir)
	if err != nil || !info.IsDir() || info.Mode().Perm() != 0o700 {
		return false
	}
	owner, ok := cluster.OwnerOf(info)
	return ok && owner == p.env.account.EffectiveUID()
}

// configure writes the server's configuration. The superuser comes in through the socket alone, and only the
// operating system user who made the instance; everybody else needs a password.
func (p *postgres) configure() error {
	me, err := user.Current()
	if err != nil {
		return fmt.Errorf("look up the current user: %w", err)
	}
	cfg := cluster.Config{
		Port: p.rec.Port, SocketDir: p.rec.SocketDir,
		Settings: map[string]string{
			"cluster_name": "dlockctl dev " + p.name, "password_encryption": "scram-sha-256", "max_connections": "100",
		},
		HBA: []string{
			"local all " + superuser + " peer map=maker",
			"host all " + superuser + " all reject",
			"local all all scram-sha-256",
			"host all all 127.0.0.1/32 scram-sha-256",
		},
		Ident: []string{fmt.Sprintf("maker %s %s", identQuoted(me.Username), superuser)},
	}
	if p.followed {
		cfg.HBA = append(cfg.HBA, "local replication "+superuser+" peer map=follower")
		cfg.Ident = append(cfg.Ident, fmt.Sprintf("follower %s %s", identQuoted(p.env.account.Name), superuser))
	}
	if p.upstream != nil {
		cfg.Settings["primary_conninfo"] = p.upstream.streams()
	}
	return p.cluster().Configure(cfg)
}

func (p *postgres) down(ctx context.Context) error {
	there, err := p.load()
	if err != nil || !there {
		return err
	}
	if _, running, err := p.cluster().Running(ctx); err != nil || !running {
		return err
	}
	p.env.progress("%s: stopping", p.name)
	return p.cluster().StopDaemon(ctx, cluster.Fast)
}

package devenv

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/dlockctl/dlockctl/internal/devenv/cluster"
)

// The standby of lockdb, and the primary that it has replaced.
const (
	lockStandby = LockDB + "-standby"
	lockGone    = LockDB + "-gone"
)

const (
	standbyPollEvery = 20 * time.Millisecond
	// standbyWithin bounds how long the standby may lag: nothing else runs here.
	standbyWithin = time.Minute
)

// followers are the instances that StandBy and FailOver leave, most often none.
func (e *Env) followers() []*postgres {
	return []*postgres{e.instance(lockStandby), e.instance(lockGone)}
}

// StandBy gives lockdb an asynchronous standby that streams from it. lockdb is restarted for the copy, so it ends every
// connection to it; its address stays.
func (e *Env) StandBy(ctx context.Context) error {
	primary, err := e.loaded(LockDB)
	if err != nil {
		return err
	}
	standby := e.instance(lockStandby)
	if err := primary.cluster().StopDaemon(ctx, cluster.Fast); err != nil {
		return fmt.Errorf("stop lockdb for a copy: %w", err)
	}
	copyErr := standby.copyOf(ctx, primary)
	primary.followed = true
	if err := errors.Join(copyErr, primary.startAgain(ctx)); err != nil {
		return fmt.Errorf("make a standby of lockdb: %w", err)
	}
	standby.upstream = primary
	if err := standby.start(ctx, standby.find(ctx)); err != nil {
		return fmt.Errorf("start the standby of lockdb: %w", err)
	}
	return nil
}

// CutOff waits until the standby has replayed all that lockdb has written, and ends the streaming. What lockdb writes
// from now on the standby never sees.
func (e *Env) CutOff(ctx context.Context) error {
	primary, err := e.loaded(LockDB)
	if err != nil {
		return err
	}
	standby, err := e.loaded(lockStandby)
	if err != nil {
		return err
	}
	var written string
	err = primary.as(ctx, "postgres", func(conn *pgx.Conn) error {
		return conn.QueryRow(ctx, "SELECT pg_current_wal_flush_lsn()::text").Scan(&written)
	})
	if err != nil {
		return fmt.Errorf("read how far lockdb is: %w", err)
	}
	return standby.as(ctx, "postgres", func(conn *pgx.Conn) error {
		err := becomes(ctx, conn, "the standby has streamed all of lockdb",
			"SELECT pg_last_wal_replay_lsn() >= $1::text::pg_lsn AND EXISTS (SELECT FROM pg_stat_wal_receiver WHERE status = 'streaming')", written)
		if err != nil {
			return err
		}
		for _, sql := range []string{"ALTER SYSTEM SET primary_conninfo = ''", "SELECT pg_reload_conf()"} {
			if _, err := conn.Exec(ctx, sql); err != nil {
				return fmt.Errorf("cut the standby of lockdb off: %w", err)
			}
		}
		return becomes(ctx, conn, "the standby's receiver is gone", "SELECT NOT EXISTS (SELECT FROM pg_stat_wal_receiver)")
	})
}

// FailOver lets lockdb die, and promotes the standby, which takes its place and its address.
func (e *Env) FailOver(ctx context.Context) error {
	primary, err := e.loaded(LockDB)
	if err != nil {
		return err
	}
	standby, err := e.loaded(lockStandby)
	if err != nil {
		return err
	}
	err = errors.Join(primary.cluster().StopDaemon(ctx, cluster.Immediate), standby.cluster().StopDaemon(ctx, cluster.Fast))
	if err != nil {
		return fmt.Errorf("stop lockdb and its standby: %w", err)
	}
	gone := e.instance(lockGone).dir
	moves := [][2]string{{primary.dir, gone}, {standby.dir, primary.dir}}
	for _, l := range logins(LockDB) {
		if _, err := os.Lstat(primary.dsnPath(l)); err == nil { // an older dlockctl made fewer
			moves = append(moves, [2]string{filepath.Join(gone, l.file), primary.dsnPath(l)})
		}
	}
	for _, move := range moves {
		if err := os.Rename(move[0], move[1]); err != nil {
			return fmt.Errorf("put the standby in lockdb's place: %w", err)
		}
	}
	promoted := e.instance(LockDB)
	promoted.rec = standby.rec
	promoted.rec.Port = primary.rec.Port
	if err := promoted.startAgain(ctx); err != nil {
		return fmt.Errorf("start the standby in lockdb's place: %w", err)
	}
	return promoted.as(ctx, "postgres", func(conn *pgx.Conn) error {
		if _, err := conn.Exec(ctx, "SELECT pg_promote(false)"); err != nil {
			return fmt.Errorf("promote the standby: %w", err)
		}
		return becomes(ctx, conn, "the standby is promoted", "SELECT NOT pg_is_in_recovery()")
	})
}

// loaded is an instance that must be there.
func (e *Env) loaded(name string) (*postgres, error) {
	p := e.instance(name)
	there, err := p.load()
	if err == nil && !there {
		err = &NotUpError{Name: name, Dir: e.dir}
	}
	return p, err
}

// copyOf makes the instance's folder from that of another, which does not run: under another name first, as create.
func (p *postgres) copyOf(ctx context.Context, other *postgres) error {
	if _, err := os.Lstat(p.dir); !errors.Is(err, fs.ErrNotExist) {
		return errors.Join(err, setup("%s is there already; start over with `dlockctl dev destroy`", p.dir))
	}
	p.rec = other.rec
	p.rec.Port, p.rec.SocketDir = 0, ""
	part, err := os.MkdirTemp(p.env.dir, p.name+partInfix+"*")
	if err != nil {
		return unwritable(err)
	}
	half := cluster.Cluster{Bin: p.rec.Bin, Dir: part, Account: p.env.account}
	err = os.Chmod(part, mode())
	if err == nil {
		err = half.CopyOf(ctx, other.cluster())
	}
	if err == nil {
		err = half.Follow(ctx)
	}
	if err == nil {
		err = p.save(part)
	}
	if err == nil {
		err = os.Rename(part, p.dir)
	}
	if err != nil {
		return errors.Join(err, removeGrowing(context.WithoutCancel(ctx), part))
	}
	return nil
}

// startAgain starts an instance where everybody knows it to be.
func (p *postgres) startAgain(ctx context.Context) error {
	port := p.rec.Port
	if err := p.start(ctx, p.find(ctx)); err != nil {
		return err
	}
	if p.rec.Port != port {
		return fmt.Errorf("start %s on port %d: %w", p.name, port, cluster.ErrPortTaken)
	}
	return nil
}

func (p *postgres) find(ctx context.Context) func() (binaries, error) {
	return func() (binaries, error) { return p.env.findBinaries(ctx, p.rec.Major) }
}

// streams is how a standby reaches the instance: through its socket, as the user that both servers run as.
func (p *postgres) streams() string {
	quoted := strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(p.rec.SocketDir)
	return fmt.Sprintf("host='%s' port=%d user=%s", quoted, p.rec.Port, superuser)
}

// becomes waits until the server says true.
func becomes(ctx context.Context, conn *pgx.Conn, what, sql string, args ...any) error {
	ctx, cancel := context.WithTimeoutCause(ctx, standbyWithin, fmt.Errorf("it has not come to that within %s", standbyWithin))
	defer cancel()
	tick := time.NewTicker(standbyPollEvery)
	defer tick.Stop()
	for {
		var yes bool
		if err := conn.QueryRow(ctx, sql, args...).Scan(&yes); err != nil && ctx.Err() == nil {
			return fmt.Errorf("wait until %s: %w", what, err)
		}
		if yes {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait until %s: %w", what, context.Cause(ctx))
		case <-tick.C:
		}
	}
}

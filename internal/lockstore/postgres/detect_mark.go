package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/lockstore/mark"
	"github.com/dlockctl/dlockctl/internal/pgtx"
)

// open asks, the first time, for what is known outside of lockdb: paydb's tokens
// and the mark. It returns *lockstore.GrantsClosedError or *lockstore.UnsafeError.
func (d *detector) open(ctx context.Context, conn *pgx.Conn) error {
	paid, err := d.paid(ctx)
	if err != nil {
		return err
	}
	deployment, err := d.openMark(ctx, conn)
	if err != nil {
		return err
	}
	last, err := d.compare(ctx, conn)
	if err != nil {
		return err
	}
	if last < paid {
		return d.fire(paid, "its last token is %s, and paydb holds token %s; it was restored or copied back", last, paid)
	}
	if d.mark != nil {
		if err := d.keep(ctx, conn, deployment, last); err != nil {
			return err
		}
		d.stop = d.start(ctx)
	}
	return nil
}

// paid is the highest token that paydb knows. One that cannot be read is no 0.
func (d *detector) paid(ctx context.Context) (lockstore.Token, error) {
	if d.options.PayHighest == nil {
		return 0, nil
	}
	paid, err := d.options.PayHighest(ctx)
	if err != nil && ctx.Err() == nil {
		return 0, grantsClosed("see that paydb can be read, then try again", "the tokens of paydb are not known: %v", err)
	}
	return paid, err
}

// openMark names the mark of the deployment, and makes it where there never was
// one. Nothing is told to lockdb yet.
func (d *detector) openMark(ctx context.Context, conn *pgx.Conn) (deployment lockstore.Deployment, err error) {
	if err := (oneTrip{Conn: conn}).QueryRow(ctx, rewindDeploymentQuery).Scan(&deployment.ID, &deployment.Kept); err != nil {
		return deployment, fmt.Errorf("read whether lockdb has an outside mark: %w", err)
	}
	switch {
	case d.options.MarkDir == "" && deployment.Kept:
		return deployment, &lockstore.UnsafeError{
			Clause:  "K-7.6",
			Problem: "lockdb has an outside mark, and this program is not told where: it could not tell a lockdb that was copied back",
			Fix:     fmt.Sprintf("set mark_dir to the folder that has dlock-mark-%s.json", deployment.ID),
		}
	case d.options.MarkDir == "":
		return deployment, nil
	}
	m, err := mark.Open(d.options.MarkDir, deployment.ID)
	if err != nil {
		return deployment, &lockstore.UnsafeError{Clause: "K-7.6", Problem: err.Error(), Fix: "set mark_dir to a folder that is there"}
	}
	_, err = m.Read()
	if errors.Is(err, mark.ErrMissing) && !deployment.Kept {
		_, err = m.Create(ctx, 0)
	}
	if err != nil {
		return deployment, markRefusal(err)
	}
	d.mark = m
	return deployment, nil
}

// keep says in lockdb that there is a mark, and then in the mark what was issued
// last: the commit in between waits for the disk, and a crash before it could
// have issued that token again.
func (d *detector) keep(ctx context.Context, conn *pgx.Conn, deployment lockstore.Deployment, last lockstore.Token) error {
	if deployment.Kept {
		return nil
	}
	if _, err := pgtx.Change(ctx, conn, pgtx.Milliseconds(d.options.LockTimeout), rewindKeepMarkQuery, nil, discard); err != nil {
		return fmt.Errorf("record in lockdb that an outside mark is kept: %w", err)
	}
	_, err := d.mark.Create(ctx, last)
	return markRefusal(err)
}

// start tells the mark what was shown, and hears what others were, until the
// returned function is called, which has the last word.
func (d *detector) start(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(flushEvery)
		defer tick.Stop()
		var told lockstore.Token
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				told = d.tell(ctx, told)
			}
		}
	}()
	return func() {
		cancel()
		<-done
		_ = d.flush(context.WithoutCancel(ctx)) // nobody is left to grant, or to be told
	}
}

// tell refuses grants while the mark cannot be written: what is shown meanwhile
// would be known to nobody after a restore.
func (d *detector) tell(ctx context.Context, told lockstore.Token) lockstore.Token {
	seen, err := d.mark.Seen(), error(nil)
	if seen != told || d.unwritten.Load() != nil {
		err = markRefusal(d.flush(ctx))
	}
	if err == nil {
		err = d.hear()
	}
	closed, is := errors.AsType[*lockstore.GrantsClosedError](err)
	switch {
	case err == nil:
		d.unwritten.Store(nil)
		return seen
	case ctx.Err() != nil: // the end
	case is:
		d.unwritten.Store(closed)
	default: // somebody sits on its lock
		d.unwritten.Store(grantsClosed("see who holds the outside mark's lock file, then try again", "%v", err))
	}
	return told
}

func (d *detector) flush(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, settling)
	defer cancel()
	return d.mark.Flush(ctx)
}

// hear takes over from the mark what others have shown.
func (d *detector) hear() error {
	if d.mark == nil {
		return nil
	}
	state, err := d.mark.Read()
	if err == nil {
		d.saw(state.Issued)
	}
	return markRefusal(err)
}

// close has the last word to the mark, after the last grant.
func (d *detector) close() {
	d.opening.Lock()
	defer d.opening.Unlock()
	if d.stop != nil {
		d.stop()
	}
}

// markRefusal is what a mark that cannot be read or raised answers. One that is
// gone is not made anew as if nothing had been granted.
func markRefusal(err error) error {
	_, damaged := errors.AsType[*mark.DamagedError](err)
	switch {
	case err == nil, errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	case damaged, errors.Is(err, mark.ErrMissing):
		return grantsClosed("bring the file back; if it is lost, run: dlockctl restore fast-forward --accept-missing outside_mark", "%v", err)
	default:
		return grantsClosed("see that the folder of the outside mark can be read and written, then try again", "%v", err)
	}
}

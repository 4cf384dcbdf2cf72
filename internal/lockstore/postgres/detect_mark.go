package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/lockstore/mark"
	"github.com/dlockctl/dlockctl/internal/pgtx"
)

// open asks, the first time, for what is known outside of lockdb: paydb's tokens
// and the mark. It returns *lockstore.GrantsClosedError or *lockstore.UnsafeError.
func (d *detector) open(ctx context.Context, conn *pgx.Conn) (last lockstore.Token, err error) {
	paid, err := d.paid(ctx)
	if err != nil {
		return 0, err
	}
	deployment, err := d.openMark(ctx, conn)
	if err != nil {
		return 0, err
	}
	last, err = d.compare(ctx, conn)
	if err != nil {
		return 0, err
	}
	forged := false
	if last < paid {
		if forged, err = calledForged(ctx, conn, paid); err != nil {
			return 0, err
		}
	}
	if last < paid && !forged {
		return 0, d.fire(paid, "its last token is %s, and paydb holds token %s; it was restored or copied back", last, paid)
	}
	if d.outside.Mark != nil {
		if err := d.keep(ctx, conn, deployment, last); err != nil {
			return 0, err
		}
		d.stop = d.outside.Start(ctx)
	}
	return last, nil
}

// calledForged tells whether an operator has said with a fast-forward that this very
// token was never issued (K-1.6): a fence is never lowered, so paydb shows it for
// ever, and what lies below it is not known then.
func calledForged(ctx context.Context, conn *pgx.Conn, token lockstore.Token) (forged bool, err error) {
	if err := (oneTrip{Conn: conn}).QueryRow(ctx, detectForgedQuery, lockstore.ActionFastForward, token.String()).Scan(&forged); err != nil {
		return false, fmt.Errorf("look whether token %s was called forged: %w", token, err)
	}
	return forged, nil
}

// skip draws numbers that nobody gets, from the token last issued up to the mark's
// ceiling: what lies there a process may have shown that died before it told the mark,
// on a database of which this is a copy that has them not. None lies higher.
func (d *detector) skip(ctx context.Context, conn *pgx.Conn, last lockstore.Token) error {
	if d.outside.Mark == nil {
		return nil
	}
	state, err := d.outside.Mark.Read()
	if err != nil {
		return d.outside.Refusal(err)
	}
	if last >= state.Ceiling {
		return nil
	}
	_, err = pgtx.Change(ctx, conn, pgtx.Milliseconds(d.options.LockTimeout), detectSkipQuery, []any{state.Ceiling - last}, discard)
	var pgErr *pgconn.PgError
	if errors.As(err, &pgErr) && pgErr.ConstraintName == "lock_gate" {
		return &lockstore.GrantsClosedError{Reason: pgErr.Message, Hint: pgErr.Hint}
	}
	if err != nil {
		return fmt.Errorf("skip the tokens below the outside mark's ceiling: %w", err)
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
		return deployment, d.outside.Refusal(err)
	}
	d.outside.Mark = m
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
	_, err := d.outside.Mark.Create(ctx, last)
	return d.outside.Refusal(err)
}

// close has the last word to the mark, after the last grant.
func (d *detector) close() {
	d.opening.Lock()
	defer d.opening.Unlock()
	if d.stop != nil {
		d.stop()
	}
}

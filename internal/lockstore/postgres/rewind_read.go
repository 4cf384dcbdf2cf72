package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgerrcode"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/dlockctl/dlockctl/internal/instance/owner"
	"github.com/dlockctl/dlockctl/internal/lockstore"
)

// sequenceTries is how often the sequence is read that was moved meanwhile.
const sequenceTries = 20

// settled repeats a read of the sequence while that is taken from under it.
func settled(read func() error) (err error) {
	for range sequenceTries {
		if err = read(); !movedAway(err) {
			return err
		}
	}
	return err
}

// movedAway tells that a sequence was read while it moved. ALTER SEQUENCE … RESTART gives
// it new storage, and who still reads the old one finds no row, a file of no length, or
// no file. Where the storage is damaged in truth, it is so at the next try as well.
func movedAway(err error) bool {
	return errors.Is(err, pgx.ErrNoRows) || hasCode(err, pgerrcode.DataCorrupted) || hasCode(err, pgerrcode.UndefinedFile)
}

// Source reads the sequence and what is wrong with it.
func (r *Rewinder) Source(ctx context.Context) (source lockstore.TokenSource, err error) {
	err = settled(func() error {
		return r.read(ctx, "read the token sequence", func(tx pgx.Tx) (err error) {
			source, err = readSource(ctx, tx)
			return err
		})
	})
	return source, err
}

func readSource(ctx context.Context, tx pgx.Tx) (lockstore.TokenSource, error) {
	source := lockstore.TokenSource{Problems: []lockstore.UnsafeError{}}
	if err := tx.QueryRow(ctx, rewindSourceQuery).Scan(&source.Last, &source.Max); err != nil {
		return source, err
	}
	q := oneTrip{Conn: tx.Conn()}
	for _, check := range []func(context.Context, oneTrip) error{checkSequence, checkGuards} {
		err := check(ctx, q)
		if unsafe, ok := errors.AsType[*lockstore.UnsafeError](err); ok {
			source.Problems = append(source.Problems, *unsafe)
		} else if err != nil {
			return source, err
		}
	}
	return source, nil
}

// Evidence reads every source of tokens in lockdb.
func (r *Rewinder) Evidence(ctx context.Context, limit lockstore.Token) (found []lockstore.Evidence, err error) {
	err = settled(func() error {
		return r.read(ctx, "read the evidence of lockdb", func(tx pgx.Tx) (err error) {
			found, err = readEvidence(ctx, tx, limit)
			return err
		})
	})
	return found, err
}

// readEvidence asks each source by itself: one that cannot be read is unavailable,
// and never 0 (K-7.2).
func readEvidence(ctx context.Context, tx pgx.Tx, limit lockstore.Token) ([]lockstore.Evidence, error) {
	found := make([]lockstore.Evidence, 0, len(evidenceSources))
	for _, source := range evidenceSources {
		e, err := readSourceOf(ctx, tx, source, limit)
		if err != nil {
			return nil, err
		}
		found = append(found, e)
	}
	return found, nil
}

func readSourceOf(ctx context.Context, tx pgx.Tx, source evidenceSource, limit lockstore.Token) (lockstore.Evidence, error) {
	e := lockstore.Evidence{Source: source.name, Status: lockstore.EvidenceRead}
	var above int64
	err := pgx.BeginFunc(ctx, tx, func(inner pgx.Tx) error { // a savepoint: the others are still asked
		return inner.QueryRow(ctx, source.sql, limit).Scan(&e.Value, &e.Row, timeTo(&e.At), &above, &e.Note)
	})
	var pgErr *pgconn.PgError
	switch {
	case source.file == sequenceEvidence && movedAway(err):
		return e, err
	case errors.As(err, &pgErr) && !tx.Conn().IsClosed():
		return lockstore.Evidence{Source: source.name, Status: lockstore.EvidenceUnavailable, Reason: pgErr.Message}, nil
	case err != nil:
		return lockstore.Evidence{}, fmt.Errorf("%s: %w", source.name, err)
	case e.Value == 0:
		e = lockstore.Evidence{Source: source.name, Status: lockstore.EvidenceEmpty, Note: e.Note}
	case e.At.Infinite: // a row written by hand
		e.At = lockstore.Time{}
	}
	if above > 0 {
		e.Above = lockstore.Token(above).String()
	}
	return e, nil
}

// FastForwards lists what this instance and timeline reached.
func (r *Rewinder) FastForwards(ctx context.Context) (found lockstore.FastForwards, err error) {
	err = r.read(ctx, "read the fast-forwards of the operator log", func(tx pgx.Tx) (err error) {
		found, err = readFastForwards(ctx, tx)
		return err
	})
	return found, err
}

func readFastForwards(ctx context.Context, tx pgx.Tx) (found lockstore.FastForwards, err error) {
	rows, err := tx.Query(ctx, rewindFastForwardsQuery)
	if err != nil {
		return found, err
	}
	if found.Targets, err = pgx.CollectRows(rows, pgx.RowTo[lockstore.Token]); err != nil {
		return found, err
	}
	err = tx.QueryRow(ctx, rewindLastRecordQuery).Scan(&found.LastAction, &found.LastToken, &found.LastHere)
	if errors.Is(err, pgx.ErrNoRows) {
		err = nil
	}
	return found, err
}

// Traffic tells who is connected, who holds the sequence, and what stands.
func (r *Rewinder) Traffic(ctx context.Context) (traffic lockstore.Traffic, err error) {
	err = r.read(ctx, "look who is connected to lockdb", func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, rewindConnectedQuery, r.conn.PIDs())
		if err != nil {
			return err
		}
		if traffic.Connected, err = owner.Scan(rows); err != nil {
			return err
		}
		if rows, err = tx.Query(ctx, rewindHoldingQuery); err != nil {
			return err
		}
		if traffic.Holding, err = owner.Scan(rows); err != nil {
			return err
		}
		return tx.QueryRow(ctx, rewindStandingQuery).Scan(&traffic.Sessions, &traffic.Locks, &traffic.LowestLock)
	})
	return traffic, err
}

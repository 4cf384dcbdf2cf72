package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/dlockctl/dlockctl/internal/instance/owner"
	"github.com/dlockctl/dlockctl/internal/lockstore"
)

// Advance moves the sequence forward in one transaction (K-7.4). Its order is
// that of every writer, behind the sequence: nobody can hold a row and come to
// want a number, since the gate is closed and the barrier passed.
func (r *Rewinder) Advance(ctx context.Context, params lockstore.AdvanceParams) (lockstore.Advance, error) {
	if err := errors.Join(lockstore.ValidOperator(params.Operator), lockstore.ValidReason(params.Reason)); err != nil {
		return lockstore.Advance{}, err
	}
	var done lockstore.Advance
	err := r.run(ctx, "advance", "move the token sequence forward", func(ctx context.Context, tx *owner.Tx) (err error) {
		done, err = advance(ctx, tx, params)
		return err
	})
	if err != nil {
		return lockstore.Advance{}, err
	}
	return done, nil
}

func advance(ctx context.Context, tx *owner.Tx, params lockstore.AdvanceParams) (lockstore.Advance, error) {
	if _, err := tx.Do(ctx, "stop draws", rewindStopQuery); err != nil {
		return lockstore.Advance{}, err
	}
	view, err := look(ctx, tx, params.Limit)
	if err != nil {
		return lockstore.Advance{}, err
	}
	if err := tx.Done(ctx, "read evidence"); err != nil {
		return lockstore.Advance{}, err
	}
	decision, err := params.Decide(view)
	if err != nil {
		return lockstore.Advance{}, err
	}
	done := lockstore.Advance{From: view.Source.Last, To: max(decision.Target, view.Source.Last)}
	if decision.Target <= view.Source.Last {
		return done, nil // only forward: what stands is not touched
	}
	if done.SessionsVoided, done.LocksVoided, err = void(ctx, tx, params); err != nil {
		return lockstore.Advance{}, err
	}
	// RESTART and not setval: it is undone by a rollback, and nobody reads it
	// before the commit.
	if _, err := tx.Do(ctx, "restart", fmt.Sprintf("ALTER SEQUENCE fencing_token_seq RESTART WITH %d", decision.Target+1)); err != nil {
		return lockstore.Advance{}, err
	}
	record := decision.Record
	record.From, record.To, record.Before, record.After = view.Source.Last, decision.Target, view.Gate.OpenedOn, view.Identity
	record.SessionsVoided, record.LocksVoided = done.SessionsVoided, done.LocksVoided
	details, err := json.Marshal(record)
	if err != nil {
		return lockstore.Advance{}, err
	}
	err = tx.QueryRow(ctx, rewindLogQuery, lockstore.ActionFastForward, params.Operator, params.Reason, decision.Target, details).Scan(&done.RecordID)
	if err != nil {
		return lockstore.Advance{}, err
	}
	done.Moved = true
	return done, errors.Join(tx.Done(ctx, "log"), standsAt(ctx, tx, decision.Target))
}

// look reads lockdb while nothing can be drawn.
func look(ctx context.Context, tx pgx.Tx, limit lockstore.Token) (view lockstore.AdvanceView, err error) {
	if view.Identity, view.Gate, err = readGate(ctx, tx); err != nil {
		return view, err
	}
	if view.Source, err = readSource(ctx, tx); err != nil {
		return view, err
	}
	if view.Evidence, err = readEvidence(ctx, tx, limit); err != nil {
		return view, err
	}
	view.FastForwards, err = readFastForwards(ctx, tx)
	return view, err
}

// void ends every session and lock that stands, with an audit row for each lock
// (K-7.5). Sessions first, entries in key order (K-2.4).
func void(ctx context.Context, tx *owner.Tx, params lockstore.AdvanceParams) (sessions, locks int, err error) {
	rows, err := tx.Query(ctx, rewindSessionsQuery)
	if err != nil {
		return 0, 0, err
	}
	ids, err := pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
	if err != nil {
		return 0, 0, err
	}
	if err := tx.Done(ctx, "lock sessions"); err != nil {
		return 0, 0, err
	}
	keys, tokens, forged, err := lockAllEntries(ctx, tx)
	if err != nil {
		return 0, 0, err
	}
	if _, err := tx.Do(ctx, "ending", rewindEndingQuery); err != nil {
		return 0, 0, err
	}
	audited, err := tx.Do(ctx, "void locks", revokeManyQuery, keys, tokens, params.Operator, params.Reason)
	if err != nil {
		return 0, 0, err
	}
	if len(forged) > 0 {
		if _, err := tx.Do(ctx, "void forged locks", rewindForgedQuery, forged); err != nil {
			return 0, 0, err
		}
	}
	ended, err := tx.Do(ctx, "void sessions", deleteSessionsQuery, ids)
	if err == nil && (int(audited) != len(keys) || int(ended) != len(ids)) {
		err = fmt.Errorf("voided %d of %d locks and %d of %d sessions that were locked", audited, len(keys), ended, len(ids))
	}
	return len(ids), len(keys) + len(forged), err
}

// lockAllEntries locks every entry in key order. The forged ones are above 2^53,
// where no audit row can be written.
func lockAllEntries(ctx context.Context, tx *owner.Tx) (keys []string, tokens []int64, forged []string, err error) {
	rows, err := tx.Query(ctx, selectEntriesQuery, nil, nil, nil, false)
	if err != nil {
		return nil, nil, nil, err
	}
	err = scanRows(rows, func() error {
		var key, holder string
		var session uuid.UUID
		var token int64
		if err := rows.Scan(&key, &holder, &session, &token); err != nil {
			return err
		}
		if lockstore.Token(token) > lockstore.MaxToken {
			forged = append(forged, key)
			return nil
		}
		keys, tokens = append(keys, key), append(tokens, token)
		return nil
	})
	return keys, tokens, forged, errors.Join(err, tx.Done(ctx, "lock entries"))
}

// standsAt reads back what was written, before it is committed.
func standsAt(ctx context.Context, tx pgx.Tx, target lockstore.Token) error {
	source, err := readSource(ctx, tx)
	if err == nil && source.Last != target {
		err = fmt.Errorf("the sequence stands at %s, not at %s", source.Last, target)
	}
	return err
}

package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/dlockctl/dlockctl/internal/lockstore"
)

// Revocations lists audit rows, newest first.
func (s *Store) Revocations(ctx context.Context, filter lockstore.RevocationFilter) ([]lockstore.Revocation, error) {
	return s.revocations(ctx, nil, filter)
}

// Revocation returns one audit row, or ErrNotFound.
func (s *Store) Revocation(ctx context.Context, id int64) (lockstore.Revocation, error) {
	found, err := s.revocations(ctx, &id, lockstore.RevocationFilter{})
	if err != nil {
		return lockstore.Revocation{}, err
	}
	if len(found) == 0 {
		return lockstore.Revocation{}, fmt.Errorf("audit row %d: %w", id, lockstore.ErrNotFound)
	}
	return found[0], nil
}

func (s *Store) revocations(ctx context.Context, id *int64, filter lockstore.RevocationFilter) ([]lockstore.Revocation, error) {
	if err := errors.Join(lockstore.LookupText("key", filter.Key), lockstore.LookupText("operator", filter.Operator)); err != nil {
		return nil, err
	}
	found := []lockstore.Revocation{}
	args := []any{id, null(filter.Key), null(filter.Operator), filter.After, null(filter.Limit)}
	err := s.read(ctx, "list revocations", listRevocationsQuery, args, func(rows pgx.Rows) error {
		return scanRows(rows, func() error {
			var r lockstore.Revocation
			err := rows.Scan(&r.ID, &r.Key, &r.PrevOwner, &r.PrevToken, &r.Operator, &r.Reason, timeTo(&r.RevokedAt), &r.LoginRole, &r.ClientAddress)
			found = append(found, r)
			return err
		})
	})
	if err != nil {
		return nil, err
	}
	return found, nil
}

// OperatorLog lists what operators did to the whole database.
func (s *Store) OperatorLog(ctx context.Context, filter lockstore.OperatorLogFilter) ([]lockstore.OperatorRecord, error) {
	if err := lockstore.LookupText("action", filter.Action); err != nil {
		return nil, err
	}
	found := []lockstore.OperatorRecord{}
	args := []any{null(filter.Action), filter.After, null(filter.Limit)}
	err := s.read(ctx, "list the operator log", listOperatorLogQuery, args, func(rows pgx.Rows) error {
		return scanRows(rows, func() error {
			var r lockstore.OperatorRecord
			err := rows.Scan(&r.ID, timeTo(&r.LoggedAt), &r.Action, &r.Operator, &r.Reason, &r.Token, &r.Details, &r.LoginRole, &r.ClientAddress)
			found = append(found, r)
			return err
		})
	})
	if err != nil {
		return nil, err
	}
	return found, nil
}

// GrantHistory returns what the journal knows of a token, or ErrNotFound.
func (s *Store) GrantHistory(ctx context.Context, token lockstore.Token) (lockstore.GrantRecord, error) {
	if err := lockstore.ValidToken(token); err != nil {
		return lockstore.GrantRecord{}, err
	}
	doing := "explain token " + token.String()
	var record lockstore.GrantRecord
	found := false
	err := s.read(ctx, doing, grantHistoryQuery, []any{token}, func(rows pgx.Rows) error {
		return scanRows(rows, func() error {
			found = true
			var id uuid.UUID
			err := rows.Scan(&record.Key, &record.Token, &record.Owner, &id, timeTo(&record.GrantedAt), timeTo(&record.EndedAt), &record.Ended)
			record.Session = lockstore.SessionID(id.String())
			return err
		})
	})
	if err == nil && !found {
		err = fmt.Errorf("token %s: %w in the grant journal", token, lockstore.ErrNotFound)
	}
	return record, err
}

package syncguard

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/dlockctl/dlockctl/internal/lockstore"
)

// Revocations lists the audit rows of revokes, newest first. Without the audit
// table it returns *lockstore.UnsafeError, as every method here.
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
	var keys []string // of all, without a key
	var err error
	if filter.Key != "" {
		keys, err = lookupKeys(filter.Key)
	}
	if err := errors.Join(err, lockstore.LookupText("operator", filter.Operator)); err != nil {
		return nil, err
	}
	found := []lockstore.Revocation{}
	args := []any{id, keys, null(filter.Operator), filter.After, null(filter.Limit)}
	err = s.read(ctx, "list revocations", s.sql.listRevocations, args, func(row pgx.Row) error {
		var r lockstore.Revocation
		err := row.Scan(&r.ID, &r.Key, &r.PrevToken, &r.LockIDHash, &r.PrevFence, &r.Operator, &r.Reason, &r.RevokedAt.Time, &r.LoginRole, &r.ClientAddress)
		r.RevokedAt.Time = r.RevokedAt.UTC()
		found = append(found, r)
		return err
	})
	if err != nil {
		return nil, err
	}
	return found, nil
}

// OperatorLog lists what operators did to the counters, newest first.
func (s *Store) OperatorLog(ctx context.Context, filter lockstore.OperatorLogFilter) ([]lockstore.OperatorRecord, error) {
	if err := lockstore.LookupText("action", filter.Action); err != nil {
		return nil, err
	}
	found := []lockstore.OperatorRecord{}
	args := []any{null(filter.Action), filter.After, null(filter.Limit)}
	err := s.read(ctx, "list the operator log", s.sql.listOperatorLog, args, func(row pgx.Row) error {
		var r lockstore.OperatorRecord
		err := row.Scan(&r.ID, &r.LoggedAt.Time, &r.Action, &r.Operator, &r.Reason, &r.Token, &r.Details, &r.LoginRole, &r.ClientAddress)
		r.LoggedAt.Time = r.LoggedAt.UTC()
		found = append(found, r)
		return err
	})
	if err != nil {
		return nil, err
	}
	return found, nil
}

// VerifyAudit looks whether the guard that refuses every change of the audit is in
// force. The rows are not chained: what its owner rewrote with the guard off does
// not show.
func (s *Store) VerifyAudit(ctx context.Context) (lockstore.AuditReport, error) {
	const doing = "verify the audit"
	report := lockstore.AuditReport{Findings: []lockstore.AuditFinding{}}
	err := s.read(ctx, doing, s.sql.countAudit, nil, func(row pgx.Row) error { return row.Scan(&report.Revocations, &report.Records) })
	if err != nil {
		return lockstore.AuditReport{}, err
	}
	var guarded bool
	table := s.names.Quoted(s.names.Audit)
	err = s.read(ctx, doing, verifyAuditQuery, []any{table}, func(row pgx.Row) error { return row.Scan(&guarded) })
	if err != nil {
		return lockstore.AuditReport{}, err
	}
	if !guarded {
		report.Findings = append(report.Findings, lockstore.AuditFinding{
			ID: "guard_off", Where: table + ".append_only", What: "the trigger that refuses every change is missing or not ENABLE ALWAYS",
		})
	}
	return report, nil
}

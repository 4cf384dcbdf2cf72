package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/dlockctl/dlockctl/internal/lockstore"
)

// mostFindings bounds the audit rows that VerifyAudit names: the first tells
// where to look.
const mostFindings = 100

// VerifyAudit looks for what only an owner of the tables can do: a guard taken
// off, a link taken out of the operator log or rewritten, a revocation without
// its row or a row without its revocation (K-3.3, K-3.6).
func (s *Store) VerifyAudit(ctx context.Context) (lockstore.AuditReport, error) {
	report := lockstore.AuditReport{Findings: []lockstore.AuditFinding{}}
	found := func(id, where, what string) {
		report.Findings = append(report.Findings, lockstore.AuditFinding{ID: id, Where: where, What: what})
	}
	const doing = "verify the audit"
	steps := []struct {
		sql  string
		args []any
		scan func(pgx.Rows) error
	}{
		{countAuditQuery, nil, func(rows pgx.Rows) error { return rows.Scan(&report.Revocations, &report.Records) }},
		{verifyGuardsQuery, nil, func(rows pgx.Rows) error {
			var table string
			err := rows.Scan(&table)
			found("guard_off", table, "its append-only trigger is missing or not ENABLE ALWAYS: rows could have been changed")
			return err
		}},
		{verifyChainQuery, nil, func(rows pgx.Rows) error {
			var id string
			var at int64
			err := rows.Scan(&id, &at)
			what := "its hash, or the hash of the record before it, is not what was written"
			if id == "chain_gap" {
				what = "the record before it is missing"
			}
			found(id, fmt.Sprintf("operator_log %d", at), what)
			return err
		}},
		{verifyRevocationsQuery, []any{mostFindings}, func(rows pgx.Rows) error {
			var id, key string
			var token lockstore.Token
			err := rows.Scan(&id, &token, &key)
			what := "the journal says it was revoked, and the audit has no row for it"
			if id == "revocation_unexplained" {
				what = "the audit has a row for it, and the journal knows of no such revocation"
			}
			found(id, fmt.Sprintf("token %s of lock %q", token, key), what)
			return err
		}},
	}
	for _, step := range steps {
		err := s.read(ctx, doing, step.sql, step.args, func(rows pgx.Rows) error {
			return scanRows(rows, func() error { return step.scan(rows) })
		})
		if err != nil {
			return lockstore.AuditReport{}, err
		}
	}
	return report, nil
}

package etcd

import (
	"context"
	"fmt"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/dlockctl/dlockctl/internal/lockstore"
)

// mostFindings bounds what VerifyAudit names: the first tells where to look.
const mostFindings = 100

// VerifyAudit looks for what whoever may write to etcd can do: a record taken out of a
// chain or rewritten, a revocation without its record or a record without its
// revocation (K-3.6). It reads audit, log and journal from end to end.
func (s *Store) VerifyAudit(ctx context.Context) (lockstore.AuditReport, error) {
	const doing = "verify the audit"
	report := lockstore.AuditReport{Findings: []lockstore.AuditFinding{}}
	revocations, broken, err := s.verifyChain(ctx, doing, auditChain, "lock_revocation")
	if err != nil {
		return lockstore.AuditReport{}, err
	}
	report.Revocations, report.Findings = revocations, append(report.Findings, broken...)
	records, broken, err := s.verifyChain(ctx, doing, logChain, "operator_log")
	if err != nil {
		return lockstore.AuditReport{}, err
	}
	report.Records, report.Findings = records, append(report.Findings, broken...)
	unexplained, err := s.verifyRevocations(ctx, doing)
	if err != nil {
		return lockstore.AuditReport{}, err
	}
	report.Findings = append(report.Findings, unexplained[:min(len(unexplained), mostFindings)]...)
	return report, nil
}

// verifyRevocations holds the journal against the audit, both at one revision: one
// transaction writes both.
func (s *Store) verifyRevocations(ctx context.Context, doing string) ([]lockstore.AuditFinding, error) {
	journal := &walk{first: s.keys.grants(), last: clientv3.GetPrefixRangeEnd(s.keys.grants())}
	lowest, order, revoked := lockstore.MaxToken, []lockstore.GrantRef(nil), make(map[lockstore.GrantRef]bool)
	err := s.walk(ctx, doing, journal, func(kv *mvccpb.KeyValue) (bool, error) {
		token, err := numberAfter(s.keys.grants(), kv)
		if err != nil {
			return false, err
		}
		var record grantRecord
		err = decode(kv, &record)
		ref := lockstore.GrantRef{Key: record.Key, Token: lockstore.Token(token)}
		lowest = min(lowest, ref.Token)
		if record.Ended == endRevoked || record.Ended == endVoided {
			order, revoked[ref] = append(order, ref), true
		}
		return true, err
	})
	if err != nil {
		return nil, err
	}
	var findings []lockstore.AuditFinding
	found := func(id string, ref lockstore.GrantRef, what string) {
		findings = append(findings, lockstore.AuditFinding{ID: id, Where: fmt.Sprintf("token %s of lock %q", ref.Token, ref.Key), What: what})
	}
	explained := make(map[lockstore.GrantRef]bool)
	w := s.keys.records(auditChain, 0, false)
	w.revision = journal.revision
	err = s.links(ctx, doing, auditChain, w, func(id int64, _ *mvccpb.KeyValue, l link) (bool, error) {
		row, err := revocation(id, l)
		ref := lockstore.GrantRef{Key: row.Key, Token: row.PrevToken}
		explained[ref] = true
		// What the journal no longer holds, it cannot explain.
		if err == nil && row.PrevToken >= lowest && !revoked[ref] {
			found("revocation_unexplained", ref, "the audit has a record for it, and the journal knows of no such revocation")
		}
		return true, err
	})
	if err != nil {
		return nil, err
	}
	for _, ref := range order {
		if !explained[ref] {
			found("revocation_missing", ref, "the journal says it was revoked, and the audit has no record for it")
		}
	}
	return findings, nil
}

package reconcile

import (
	"context"
	"maps"
	"slices"

	"github.com/jackc/pgx/v5"
)

// StoryQueries are the statements that attribute and explain.
func StoryQueries(ctx context.Context) ([]FamilyQuery, error) {
	onPay := map[string]string{
		"attribution_payouts": attributionPayoutsQuery, "attribution_drift": attributionDriftQuery, "attribution_names": attributionNamesQuery,
		"explain_payers": explainPayersQuery, "explain_pay": explainPayQuery, "explain_token": explainTokenQuery, "explain_fenced": explainFencedQuery,
	}
	onLock := map[string]string{"attribution_lock": attributionLockQuery, "explain_lock": explainLockQuery}
	args := pgx.NamedArgs{}
	for _, name := range []string{"payouts", "drift_accounts", "drifts", "tokens", "payers", "accounts", "account", "before", "after", "token", "most", "key"} {
		args[name] = nil
	}
	var all []FamilyQuery
	for _, queries := range []map[string]string{onPay, onLock} {
		for _, name := range slices.Sorted(maps.Keys(queries)) {
			text, _, err := args.RewriteQuery(ctx, nil, queries[name], nil)
			if err != nil {
				return nil, err
			}
			_, lock := onLock[name]
			all = append(all, FamilyQuery{Name: name, Text: text, Lock: lock})
		}
	}
	return all, nil
}

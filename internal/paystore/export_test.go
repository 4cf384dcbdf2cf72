package paystore

// Queries returns every statement of the package by name, as it is sent.
func Queries() map[string]string {
	return map[string]string{
		"blockers": blockersQuery, "check_tables": checkTablesQuery, "check_triggers": checkTriggersQuery,
		"list_accounts": listAccountsQuery, "list_payouts": listPayoutsQuery, "show_payout": showPayoutQuery,
		"lowest_open_claim": lowestOpenClaimQuery,
	}
}

package scenario

// Statements are those that the drill in place tries, as they are sent.
func Statements() map[string]string {
	return map[string]string{
		"account": statement("account", "account_id"),
		"debit":   statement("debit", "amount_minor", "token", "account_id", "currency"),
		"mark":    statement("mark", "account_id", "token"),
	}
}

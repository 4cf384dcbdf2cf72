package posting

import (
	"io/fs"
)

// Queries returns every statement of the package by name, as it is sent.
func Queries() map[string]string {
	return map[string]string{
		"debit": debitQuery, "debit_unfenced": debitUnfencedQuery, "leg": legQuery, "leg_unfenced": legUnfencedQuery,
		"post": postQuery, "post_unfenced": postUnfencedQuery, "credit": creditQuery, "lock_payout": lockPayoutQuery, "legs": legsQuery,
		"create": createQuery, "find_payout": findPayoutQuery, "claim": claimQuery, "take_over": takeOverQuery, "release": releaseQuery,
		"submit": submitQuery, "move": moveQuery, "give_up": giveUpQuery, "record_resolution": recordResolutionQuery,
		"verdict": verdictQuery, "unsettled": unsettledQuery, "standing": standingQuery, "open_on_account": openOnAccountQuery,
		"lock_account": lockAccountQuery, "raise_fence": raiseFenceQuery, "record_raise": recordRaiseQuery,
	}
}

// QueryFiles are the statements as they are written.
func QueryFiles() fs.FS { return queryFiles }

// Mutant is the store with another (a) or (b); an empty one is its own.
func (s *Store) Mutant(debit, leg string) *Store {
	m := *s
	if debit != "" {
		m.write.debit = debit
	}
	if leg != "" {
		m.write.leg = leg
	}
	return &m
}

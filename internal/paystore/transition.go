package paystore

// Transition is one row of the table of K-5.1.
type Transition struct {
	From   State
	Action Action
	To     State
	// Predicate is the WHERE of the statement, beside payout_id = :payout_id.
	Predicate string
	// Claim is what becomes of the claim.
	Claim ClaimChange
	// ZeroRows is what it means, and asks for, when no row was changed.
	ZeroRows string
}

// What 0 rows mean, by who acts. The payout is read again in each case.
const (
	zeroOwn  = "Another token took it over: stop, fenced out. In the state wanted under one's own token: one's own lost answer, success."
	zeroTake = "The state moved on: start over from what is there. A token at or above one's own claimed it, or the floor is: fenced out."
)

// Transitions is the full table: every way a payout may move, and no other. The
// trigger payout_guard of paydb holds the same, and a test compares them.
func Transitions() []Transition {
	return []Transition{
		{
			Pending, Claim, Claimed, "state = 'PENDING'", ClaimSet,
			"Claimed by another: contended. Still PENDING: a token at or above one's own had claimed it before, or the floor is: fenced out.",
		},
		{
			Pending, GiveUp, Failed, "state = 'PENDING'", ClaimKept,
			"Claimed meanwhile: take it over first. FAILED: done already.",
		},

		{Claimed, TakeOver, Claimed, "state = 'CLAIMED' AND claim_token < :token", ClaimSet, zeroTake},
		{
			Claimed, Release, Pending, "state = 'CLAIMED' AND claim_token = :token", ClaimForgotten,
			"Not one's own any more: nothing to release, success.",
		},
		{Claimed, Reject, Failed, "state = 'CLAIMED' AND claim_token = :token", ClaimKept, zeroOwn},
		{Claimed, GiveUp, Failed, "state = 'CLAIMED' AND claim_token = :token", ClaimKept, zeroOwn},
		{Claimed, Submit, RailSubmitted, "state = 'CLAIMED' AND claim_token = :token", ClaimKept, zeroOwn},

		{RailSubmitted, TakeOver, RailSubmitted, "state = 'RAIL_SUBMITTED' AND claim_token < :token", ClaimSet, zeroTake},
		{RailSubmitted, Ack, RailAcked, "state = 'RAIL_SUBMITTED' AND claim_token = :token", ClaimKept, zeroOwn},
		{RailSubmitted, Reject, Failed, "state = 'RAIL_SUBMITTED' AND claim_token = :token", ClaimKept, zeroOwn},
		{RailSubmitted, Timeout, RailAmbiguous, "state = 'RAIL_SUBMITTED' AND claim_token = :token", ClaimKept, zeroOwn},

		{RailAmbiguous, TakeOver, RailAmbiguous, "state = 'RAIL_AMBIGUOUS' AND claim_token < :token", ClaimSet, zeroTake},
		{RailAmbiguous, Resolve, RailAcked, "state = 'RAIL_AMBIGUOUS' AND claim_token = :token", ClaimKept, zeroOwn},
		{RailAmbiguous, Resolve, Failed, "state = 'RAIL_AMBIGUOUS' AND claim_token = :token", ClaimKept, zeroOwn},
		{RailAmbiguous, Abandon, Abandoned, "state = 'RAIL_AMBIGUOUS' AND claim_token = :token", ClaimKept, zeroOwn},

		{RailAcked, TakeOver, RailAcked, "state = 'RAIL_ACKED' AND claim_token < :token", ClaimSet, zeroTake},
		{
			RailAcked, Post, Posted, "state = 'RAIL_ACKED' AND claim_token <= :token", ClaimKept,
			"Roll back the posting. POSTED: another holder finished the work, success. Claimed by a higher token: fenced out.",
		},
		{RailAcked, Reject, Failed, "state = 'RAIL_ACKED' AND claim_token = :token", ClaimKept, zeroOwn},
	}
}

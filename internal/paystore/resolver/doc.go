// Package resolver finishes payouts by the rail's own record: those whose outcome
// nobody saw (K-5.3), and those that a restored paydb shows open though they were
// paid (K-7.9). It drives paystore/posting and paystore/rail, which know nothing of
// each other (K-6.2), along the arrows of K-5 and no others.
//
// # What becomes of a payout
//
//	the rail says   attempt here          what is done
//	ACKED           none                  evidence, claim, RAIL_SUBMITTED, Adopt, RAIL_ACKED
//	ACKED           in flight, TIMEOUT    the attempt is answered, evidence, claim, RAIL_ACKED
//	REJECTED        none, or as above     the same, to FAILED
//	NOT_FOUND       none                  evidence: the payout is free, and may be paid
//	NOT_FOUND       TIMEOUT               evidence, claim, FAILED: the slot is taken for
//	                                      ever, a retry is a new payout (K-5.3)
//	undecided       any                   evidence UNDETERMINED, which frees nothing
//	otherwise than  ACKED, REJECTED       the same; a payment that the rail says it made
//	the attempt                           is kept as PAID, so that nothing fails the payout
//
// # Invariants
//
//   - The caller holds the account's lock, and gives its token (K-5.3).
//   - Nothing is forwarded: no path leads to (*rail.Proxy).Submit.
//   - The evidence is committed before the payout is claimed, or the gate refuses the
//     claim; dead in between, [posting.Store.Unsettled] lists the payout again.
//   - K-4.11 what the rail does not know proves nothing until everything that may have
//     been on its way has arrived: an attempt that paydb has forgotten began before the
//     resolver did, and leaves within the forwarding deadline.
//   - What a rail does not know counts only after it knew a payment that it has
//     acknowledged; a test rail would set every payout free.
package resolver

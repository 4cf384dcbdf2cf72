// Package posting is the logic of payment-resource: it makes payouts, claims them,
// moves them along the arrows of K-5 and enters them into the ledger. It works as
// role payapp_resource and never touches the rail's mark; paystore/rail, which does,
// never moves a payout, and the two never import each other (K-4.6, K-6.2).
//
// # States
//
// Those of package paystore, whose table of transitions is the whole of it. A verb
// is one guarded statement that names the state it leaves and compares the claim:
//
//	Create      → PENDING
//	Claim       PENDING → CLAIMED; an open state → the same, under a higher token
//	Release     CLAIMED → PENDING
//	CheckFunds  looks, while CLAIMED
//	Submit      CLAIMED → RAIL_SUBMITTED, then the caller asks rail-proxy
//	Settle      RAIL_SUBMITTED → RAIL_ACKED | FAILED | RAIL_AMBIGUOUS, by the attempt
//	Resolve     RAIL_AMBIGUOUS → RAIL_ACKED | FAILED | ABANDONED, by evidence
//	Attest      keeps the rail's record of an open payout, and moves nothing (K-7.9)
//	Post        RAIL_ACKED → POSTED, with both legs
//	Reject      CLAIMED, RAIL_SUBMITTED, RAIL_ACKED → FAILED
//	GiveUp      PENDING, CLAIMED → FAILED
//
// # Invariants
//
//   - K-4.1 (a) to (c) are the specified statements, to the letter; (a) raises the
//     fence strictly, so one token posts one payout per account (K-4.2).
//   - K-4.3 0 rows are rolled back, read once and named; the same token is tried
//     again, a few times, and never a fresh one.
//   - K-4.7 payer first, clearing account last: (a), DEBIT, (c), clearing balance,
//     CREDIT. Payout, payer, clearing account is the order of every lock.
//   - K-4.10 account, amount, currency and clearing account come from the payout's
//     row, locked until the commit; no verb takes them from its caller.
//   - K-5.2 a claim is above every claim the payout ever had, and the state found is
//     kept. OpenOnAccount lists what the account's holder finishes first.
//   - K-5.4 amounts are int64 minor units; a sum that leaves them is ErrOverflow.
//
// # Failures
//
//	what happens                               answer
//	a token at or below the account's fence    *FencedError account, ledger
//	a later holder has the payout              *FencedError payout
//	a token from before a restore              *FencedError floor
//	an earlier holder still has the payout     *ClaimedError: Claim it first
//	the account cannot pay                     *RejectedError: Reject it (K-4.9, K-5.5)
//	no such arrow                              *StateError
//	the attempt or the evidence says no        *EvidenceError: nothing is guessed (K-5.3)
//	the key stands for another payout          *ConflictError
//	paydb was restored or closed               *GateClosedError (K-7.9)
//	COMMIT's answer lost                       *UnknownOutcomeError: the same call again
//	                                           tells, and does nothing twice
package posting

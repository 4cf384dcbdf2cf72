// Package paystore is the money: accounts, payouts and what became of them. It
// holds the types, the states and their arrows; paystore/posting writes them as
// role payapp_resource, paystore/rail as payapp_rail, and the two never import
// each other (K-6.2).
//
// # States of a payout
//
//	PENDING ─claim→ CLAIMED ─submit→ RAIL_SUBMITTED ─┬ack→ RAIL_ACKED ─post→ POSTED
//	   ↑               │ release  └reject→ FAILED    ├reject→ FAILED   └reject→ FAILED
//	   └───────────────┘                             └timeout→ RAIL_AMBIGUOUS ─┬resolve→ RAIL_ACKED
//	PENDING, CLAIMED ─give up→ FAILED                                          ├resolve→ FAILED
//	                                                                           └abandon→ ABANDONED
//
// A later holder takes a payout over in the state it finds it in. [Transitions] is
// the whole table; the trigger payout_guard allows exactly it, and docs/payouts.md
// prints it.
//
// # Invariants
//
//   - K-4.1 a posting advances the account's fence strictly: one grant, one payout
//     per account (K-4.2).
//   - K-4.7 a posting is one DEBIT on the payer and one CREDIT on a clearing account
//     of the currency, of the payout's amount, under the claim's token, or nothing.
//   - K-4.10 what a payout pays is fixed, fence and mark only rise, for every role.
//   - K-4.12 a token at or below the floor writes nothing anywhere.
//   - K-5.1 a payout moves along the arrows only, in one statement that names the
//     state it leaves and compares the claim.
//   - K-5.2 a claim needs a higher token than every claim the payout ever had.
//   - K-5.3 one forwardable rail attempt per payout, ever; unknown stays unknown.
//   - K-7.9 a restored paydb claims nothing before the rail's record was asked.
//   - INV-03 balance = opening + Σ CREDIT − Σ DEBIT, per account (package reconcile).
//
// # Failures
//
// The database answers in three ways, and each asks for another reaction:
//
//	answer                     meaning                              reaction
//	0 rows                     the token came too late, the state   read again and classify (K-4.3);
//	                           moved on, funds do not suffice       never a fresh token
//	23514, payout_rail_guard   the rail's evidence says otherwise   *EvidenceError: ask the rail (K-5.3)
//	23514, constraint = guard  an impossible request                a fault in the program: report it
//	42501, constraint = guard  evidence would be changed            a fault in the program: report it
//	55000, pay_gate            paydb was restored, or closed        refuse, show the hint (K-7.9)
//	55000, fence_floor_…       not READ COMMITTED                   a fault in the program: report it
//	23505, …attempt_uidx       the attempt exists                   answer with it, forward nothing (K-5.3)
//	22003                      a balance beyond 64 bits             ErrOverflow (K-5.4)
//	55P03                      another transaction holds the rows   *BlockedError, with its processes
//	COMMIT's answer lost       it may have happened                 *UnknownOutcomeError, never failed:
//	                                                                repeat with the same token
package paystore

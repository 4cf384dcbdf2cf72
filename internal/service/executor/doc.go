// Package executor is payout-executor: a worker that pays what is pending. It opens no
// database; locks, payouts and the rail it reaches over HTTP, through package client.
// Any number of executors may stand side by side.
//
// # The life of a visit
//
//	find an account that has work ── look: held by another? ─yes→ leave it for later
//	   │ no
//	acquire account:<uuid> ──▶ [ pick a payout ──▶ claim ──▶ walk it to its end ]
//	   ▲                            none │                         │
//	   └─ re-enter: a new token ◀────────┼─────────────────────────┘ next payout
//	                                release
//
// # Invariants
//
//   - K-4.2 one grant, one payout: before the next one it re-enters for a new token.
//   - K-4.3 a step whose answer is lost is repeated with the same token; a write that
//     was fenced out is not repeated at all.
//   - K-5.2 what others have begun on the account comes before what nobody has; it is
//     taken over in the state it is in.
//   - K-5.3 what the rail did is never guessed: it is asked, and only its own record, or
//     the attempt's, moves the payout.
//   - K-2.10 nothing is sent unless the lease may be trusted, and what is under way ends
//     when it may no longer be. What arrives too late all the same, the fence refuses.
//   - A payout that the rail has not decided does not block its account, and is asked
//     about less and less often.
//
// # Failures
//
//	what happens                     what the executor does
//	the lease or the session is gone stops at once; whoever comes next goes on
//	the executor dies                its locks lapse, another takes its payouts over
//	a service is away                the same step with the same token, a few times; then
//	                                 the account rests
//	fenced out                       stops; a later holder has been there
//	the account cannot pay           FAILED
//	the rail is silent               RAIL_AMBIGUOUS, asked again later
//	the rail does not know it        FAILED, once the rail has shown that it knows another
//	                                 payment that it acknowledged
//	SIGTERM                          takes nothing new, finishes what it has within the
//	                                 drain, gives the rest back
package executor

// Package rail is the logic of rail-proxy: the one door to the payment rail. It
// works as role payapp_rail, writes the rail's mark and the attempts, and moves no
// payout itself; paystore/posting, which moves them, never touches the mark, and
// the two never import each other (K-4.6, K-6.2).
//
// # States of an attempt
//
//	            ┌ answer ─→ ACKED | REJECTED
//	NULL ───────┤                  ↑ late answer, status query
//	(in flight) └ gave up ─→ TIMEOUT
//	FENCED: born so, forwarded nowhere, holds no slot
//	adopted: NULL and answered in one transaction, forwarded long ago (K-7.9)
//
// # Invariants
//
//   - K-4.1 the mark of an account rises strictly: statement (d), to the letter.
//   - K-4.10 account, amount, currency and the rail's key come from the payout row.
//   - K-4.11 mark and attempt are one transaction, and its COMMIT has answered
//     before anything is forwarded.
//   - K-4.11 nothing leaves for the rail after the forwarding deadline, counted
//     from before that transaction began: by then somebody may have asked the rail,
//     heard that it knows nothing, and resolved the payout. TIMEOUT says that it has
//     passed, and is not said before.
//   - K-5.3 one attempt per payout, ever; only the call that inserted it forwards
//     it, once. What is not known is NULL or TIMEOUT, never guessed.
//   - K-7.9 a payout whose payment is on record is never forwarded, though a restored
//     paydb has no attempt of it: Adopt takes it down.
//
// # Failures
//
//	what happens                      what is left         who goes on
//	COMMIT's answer is lost           NULL, or nothing     this call, when its own insert is
//	                                                       read back before the deadline; else
//	                                                       nobody forwards: Ask after the deadline
//	the proxy was closed before it    nothing              the caller, at another proxy
//	began
//	the process dies before or        NULL                 Ask after the deadline: TIMEOUT, then
//	while it forwards                                      the rail's own record
//	the rail does not answer in time  TIMEOUT              a late answer, or Ask
//	the rail's connection is cut      TIMEOUT, at the      Ask; it is not forwarded again
//	                                  deadline
//	the caller goes away              as without that      the proxy records what the rail says
//	paydb is gone when the rail       NULL or TIMEOUT      Ask
//	has answered
//	the rail says two things          the first            Observe: EventContradicted
//	a stale token                     FENCED               nobody: *paystore.FencedError
package rail

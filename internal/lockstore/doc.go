// Package lockstore is the fenced lock: who holds a key, until when, and under
// which fencing token. It holds the interface, the types and the errors;
// lockstore/postgres keeps them in lockdb.
//
// # States of a key
//
//	free ──acquire──▶ held ──renew──▶ held
//	  ▲                │ │
//	  │                │ └─re-enter (same owner and session)─▶ held, higher token
//	  ├──release───────┤
//	  ├──revoke────────┤       the lease lapses (expires_at <= now())
//	  ├──session ends──┘                │
//	  └────────────────── lapsed ◀──────┘ ──acquire by anyone──▶ held, higher token
//
// A lapsed entry is still a row, and nobody's lock: renew refuses it, the next
// acquire takes it over (K-2.6).
//
// # Invariants
//
//   - K-1.3 tokens rise strictly per key in grant order and are never issued
//     twice, over all keys, for ever. Gaps are harmless.
//   - K-1.4 a token is shown to nobody before its COMMIT has returned.
//   - K-2.1 the database's now() decides every expiry; a client's clock may
//     only shorten its own trust (K-2.10, see [Grant.TrustedUntil]).
//   - K-2.3 nothing is granted under a session that has lapsed.
//   - K-2.7 a release deletes its own token's row or nothing.
//   - K-3.1 a revoke deletes the grant the operator saw, with one audit row, or
//     nothing and none.
//
// # Failures
//
//	what happened                                  answer
//	held by a live other                           *HeldError
//	another transaction holds the key (2 s)        *BlockedError
//	the session has lapsed or is gone              ErrSessionLost
//	the lease has lapsed or the token moved on     ErrLockLost (renew), Stale (release)
//	grants are closed: frozen, restored, promoted  *GrantsClosedError
//	COMMIT was sent and its answer lost            *UnknownOutcomeError, never "failed"
//	the database could not be reached              *UnreachableError
//	it is a standby                                ErrNotPrimary
package lockstore

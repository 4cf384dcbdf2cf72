// Package engine carries out many callers' acquires and releases in few
// transactions, and queues those who wait. It decides nothing about locks that
// lockdb does not decide, and keeps no lock state of its own, so that many engines
// on one lockdb are as right as one.
//
//		caller ─▶ queue of its key ─▶ lane ─▶ one transaction for up to 64 keys ─▶ COMMIT ─▶ answers
//		              ▲                                 │
//		              └── waiters of the key, in order ◀┘ held; woken by release, revoke,
//		                                                  expiry and other replicas' releases
//
//	  - K-1.3 two calls of one key are never under way at once, and leave in the order
//	    in which they came; only a release and the acquire behind it share a
//	    transaction, the release first.
//	  - K-1.4 a caller is answered after the COMMIT that made its answer true.
//	  - K-2.4 a blocked key is taken out of its batch and goes on alone; the others
//	    wait for it no longer than the batch's lock timeout.
//	  - K-2.8 waiters stand in a queue for each key, one of them tries at a time, and
//	    what looks whether a key is free reads only.
//	  - K-2.9 a batch without an answer is unknown for everybody in it, but for the
//	    releases that a second try finds: those can only delete their own grant.
package engine

// Package locktest is what every backend of lockstore.Store must pass: a
// conformance suite ([Run]) and a linearizability check of what clients are told
// ([Workload], [Check]).
//
// The suite sees a store only through its interface. A clause that does not
// apply to a backend is not left out: the backend has declared that it differs
// (lockstore.Capabilities), and the suite asks it to differ, to answer
// lockstore.ErrUnsupported where it has nothing, and to need the declaration
// where it has less.
//
//	L1   the store declares what its documentation declares
//	L2   a free key is granted, and shown as it was granted (with secret ids: under
//	     one of its own)
//	L3   a live other keeps a key, and is named; nothing of its grant changes
//	L4   tokens rise on a key through release, re-creation and takeover
//	L5   tokens are unique and ordered over all keys (or: each key counts alone)
//	L6   the same owner and session re-enter with a higher token, and the older
//	     one is dead (or: the same owner is kept out like any other)
//	L7   two sessions of one owner keep each other out
//	L8   a lapsed lease is nobody's lock: renew refuses it, another takes it over
//	     (with a tolerance: not before that has passed)
//	L9   renew extends, and no renewal or re-entry shortens
//	L10  a release deletes its own token's grant or nothing, however often
//	L11  a heartbeat extends a session, never shortens it, never revives it
//	L12  nothing is granted under a session that is over
//	L13  locks die with their session, ended or reaped
//	L14  a batch answers each key by itself, in the order given
//	L15  a revoke deletes the grant the operator saw, with one audit row, or
//	     nothing and none
//	L16  a revoke can end the session with it, an audit row for each lock
//	L17  a bulk revoke takes exactly what was seen, or nothing (with a limit: what is
//	     above it is refused, and changes nothing)
//	L18  prune deletes lapsed entries and no other (where it is not known when
//	     a lease ended: to choose by age is refused)
//	L19  lists narrow, are sorted by key, and are bounded
//	L20  the audit can be followed
//	L21  the journal knows a grant and its end
//	L22  what is wrong in itself is refused, and nothing is changed
//	L23  a waiter gets the key when it is released
//	L24  many clients on one key hold it one after the other, tokens rising
//	L25  a call whose context is over changes nothing
//	L26  the audit of an untouched store verifies
package locktest

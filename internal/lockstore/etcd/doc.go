// Package etcd keeps fenced locks in an etcd cluster, for those who outgrow one
// PostgreSQL primary (K-10.1).
//
// # How it stands on etcd
//
// The token of a grant is the revision of the transaction that made it, which is the
// ModRevision of the lock's key: one counter for the whole cluster, so that tokens
// rise over all keys (K-1.3). Nothing but a grant ever writes that key.
//
// A session is an etcd lease. Only one key hangs on it, alive/ID, and every lock of
// the session stands and falls with that key: a lease's end frees all of them in one
// revision, whoever looks, and nothing has to be swept for that. A lock's own entry
// stays until somebody takes it over, reaps or prunes it, as in PostgreSQL, so that
// the journal knows of every grant how it ended.
//
// Every change is one transaction that compares what it relies on: the session is
// alive, the gate is open, the key is free or has the very token that was seen.
// Release, renew and revoke compare the grant's ModRevision with the token presented;
// one that was delayed, or sent again after its answer was lost, touches nothing newer
// (K-2.7).
//
// # What differs from PostgreSQL
//
// Capabilities declare it, and docs/backends.md prints them all:
//
//   - A lock has no lease of its own: it lasts as long as its session. Renew confirms
//     the grant and extends the session.
//   - etcd counts leases in whole seconds and has a minimum of its own (2 s by
//     default). A lease is never shorter than asked for.
//   - etcd tells no time of day. The times in answers are those of whoever wrote or
//     reads them, for people; nothing is decided by them. What is left of a lease is
//     the cluster's word.
//   - All keys of one transaction would share its revision, and so a token: there is
//     no batch of acquires.
package etcd

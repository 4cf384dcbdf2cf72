// Package client is how the executor and `dlockctl --server` reach the services:
// [Locks] is a lockstore.Store over lock-server, [Payments] and [Rail] speak to
// payment-resource and rail-proxy, and [Keep] holds a lock and renews it. It opens
// no database.
//
// # Promises
//
//   - A caller cannot tell an error from the store's own: what a service answers is
//     turned back into the type that the store returned there.
//   - Only what is safe is repeated by itself: reads, releases, heartbeats, renewals,
//     and whatever certainly did not arrive. An acquire that was sent and not answered
//     is *lockstore.UnknownOutcomeError, and its caller decides (K-2.9): under the same
//     session another one re-enters, with a new token. A move of a payout is not
//     repeated here either; with the same token it may be (K-4.3).
//   - Sent is read before a request leaves (K-2.10), before each of its tries.
//   - Renewals and heartbeats have connections of their own: no queue of other requests
//     delays them.
//   - No error, and no address in one, shows a key, a session id or a credential.
//
// # Failures
//
//	what happens                             what the caller gets
//	no connection, or the circuit is open    *UnreachableError: nothing was sent
//	the connection is lost after sending     *UnknownOutcomeError; a read: *UnreachableError
//	an answer that cannot be read            the same
//	5xx that no service wrote                the same
//	a problem of the store's                 the store's error
//	no credential, scope, rate               *problem.Problem: nothing was done
package client

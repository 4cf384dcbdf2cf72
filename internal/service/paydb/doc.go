// Package paydb is what payment-resource and rail-proxy both need of their database:
// a connection under a role of their own that comes back when paydb was away, and the
// truth about it for /readyz. It moves no money, and imports neither paystore/posting
// nor paystore/rail.
//
// # Invariants
//
//   - K-4.6 each service writes with the rights of its own role and has none of the
//     other's: a login that has is refused at start.
//   - K-6.1, K-6.3 what paystore.Open refuses is refused at start, but for a paydb that
//     is down or still a standby: the service starts, says so, and tries again.
package paydb

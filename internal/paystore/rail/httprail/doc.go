// Package httprail speaks to a payment rail over HTTP: the protocol of docs/rail.md,
// two calls and one answer. It implements rail.Rail.
//
// # Invariants
//
//   - K-4.11 nothing of a payment is handed to the network after the forwarding
//     deadline, and what the other side has not taken by then, or when the connection or
//     its process ends, is thrown away: a lost packet is not sent again a second later.
//     See guarded.
//   - K-5.3 a payment is sent once: no redirect is followed, no connection is used a
//     second time, so that nothing is repeated by the transport.
//   - An answer counts when it is 200, whole, and names the key that was asked about:
//     "no such payment" from the wrong server would let a payment out twice. Everything
//     else is an error, which says nothing about what the rail did.
//   - No error shows the key of the API; each names the rail's host.
package httprail

// Package railproxy is rail-proxy: paystore/rail over HTTP, under the role payapp_rail,
// which alone writes the rail's mark (K-4.6). It decides nothing that the store
// decides: the attempt is recorded before the rail is called, sent once, and what the
// rail said is recorded, whether or not anybody still waits for it.
//
// # Invariants
//
//   - K-4.4 a fenced token and a duplicate submission are counted, logged with key,
//     presented and stored token, and answered with 409, or with the attempt there is.
//   - K-4.5 the switch rail.proxy.fencing.enabled is loud: at start, in /readyz, in
//     dlockctl_fencing_enabled.
//   - K-4.10 a request names a payout and a token, and nothing of what is paid.
//   - K-5.3 an outcome that is unknown is answered as such: TIMEOUT, or none.
//   - Close returns when every payment under way is recorded, or its deadline has
//     passed: the process may end then.
package railproxy

// Package payresource is payment-resource: paystore/posting over HTTP, under the role
// payapp_resource (K-4.6). It decides nothing that the store decides, and adds to it
// what a service is: one answer for every error, pages, counters, the log, and the
// truth about paydb.
//
// # Invariants
//
//   - K-4.4 a fenced token is counted by what refused it, logged with key, presented
//     and stored token, and answered with 409.
//   - K-4.5 the switch payment.fencing.enabled is loud: at start, in /readyz, in
//     dlockctl_fencing_enabled.
//   - K-4.6 it neither reads nor writes rail_high_water; a login that may is refused.
//   - K-4.10 after a payout is made no request names its account, amount, currency or
//     key; a body that tries is refused.
//   - K-7.6 what it says to be the highest token is the highest of everything its role
//     may read, or an error.
package payresource

// Package railsim is a payment rail for tests, drills and demos: the protocol of
// docs/rail.md, in whatever mood it is put into. It counts what reaches it, so that a
// test can tell whether a payout was sent twice and whether it was paid twice. No
// money is behind it.
//
// # Invariants
//
//   - One key is paid once, however often it is asked for: what was decided first is
//     the answer ever after. Only the mood "broken" pays again.
//   - With a state file nothing is forgotten: a request is on disk before it is
//     answered, and a line that a crash tore was never answered.
//   - The moods are drawn from seed, key and count of the request: the same requests
//     meet the same mood again, in whatever order they come.
package railsim

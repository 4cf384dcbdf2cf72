// Package owner runs transactions as dlock_owner, for the few changes that no
// service may make: gates, floors, the token sequence. It names who is in the
// way of a lock, can end them, and tells each statement to a hook, so that a test
// can stop the process behind any of them.
//
// It knows neither locks nor money; both stores stand on it, each with a
// connection of its own (K-6.2).
package owner

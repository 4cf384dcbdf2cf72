// Package doctor looks at every precondition of the contract that a database
// can tell about: each is a [Check] with an id, a severity, what it means, and a
// [Fix] that can be run word for word.
//
// It reads and never writes: the checks of a database share one connection and
// one READ ONLY transaction, each behind a savepoint of its own. What cannot be
// read is unknown, never ok.
package doctor

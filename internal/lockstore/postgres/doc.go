// Package postgres keeps fenced locks in lockdb, a PostgreSQL database.
//
// The statements of acquire, renew, release and heartbeat are the specified
// ones, to the letter (queries/*.sql); what they lack, the order of tokens
// above all, is done by triggers of the migrations, for every writer (K-1).
//
// Every change is one transaction of its own, sent in one round trip: the
// statement alone on a connection whose server session is its own; behind a
// transaction-pooling proxy BEGIN, its local settings, the statement and COMMIT,
// so that nothing relies on the state of a session (K-12.3).
package postgres

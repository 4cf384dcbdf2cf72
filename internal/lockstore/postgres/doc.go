// Package postgres keeps fenced locks in lockdb, a PostgreSQL database.
//
// The statements of acquire, renew, release and heartbeat are the specified
// ones, to the letter (queries/*.sql); what they lack, the order of tokens
// above all, is done by triggers of the migrations, for every writer (K-1).
//
// Every change is one transaction of its own, sent in one round trip: BEGIN,
// its local settings, the statement and COMMIT. Nothing relies on the state of
// a session, so that a transaction-pooling proxy may stand between (K-12.3).
package postgres

// Package pgtx is how both stores change a PostgreSQL database: each change one
// transaction with bounded waits and durable commits, safe behind a
// transaction-pooling proxy (K-12.3), and never a guess about what became of it
// (K-2.9). It knows neither locks nor money.
package pgtx

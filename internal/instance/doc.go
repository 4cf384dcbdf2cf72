// Package instance reads what a PostgreSQL server is: its identity and
// timeline, whether it is a standby, its version, its roles. It decides
// nothing about locks or money.
package instance

package instance

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
)

// ValidEnvironment refuses a name that is not lower case letters, digits, dots,
// dashes and underscores, at most 63 of them.
func ValidEnvironment(name string) error {
	const letters = "abcdefghijklmnopqrstuvwxyz0123456789"
	if name == "" || len(name) > 63 || strings.Trim(name, letters+"._-") != "" || !strings.Contains(letters, name[:1]) {
		return fmt.Errorf("environment %q is not 1 to 63 of a-z, 0-9, '.', '_' and '-', beginning with a letter or digit", name)
	}
	return nil
}

// EnvironmentError is returned by CheckEnvironment: the database is not the one
// that the profile means.
type EnvironmentError struct {
	Database string // lockdb or paydb
	// Marked is what the database says it is; Configured what the profile
	// says, "" when it says nothing.
	Marked, Configured string
}

func (e *EnvironmentError) Error() string {
	if e.Configured == "" {
		return fmt.Sprintf("%s belongs to environment %q, and the configuration names none", e.Database, e.Marked)
	}
	return fmt.Sprintf("%s belongs to environment %q, not to %q", e.Database, e.Marked, e.Configured)
}

// Environment returns the mark of the database, "" when it has none.
func Environment(ctx context.Context, q Querier) (string, error) {
	var name string
	err := q.QueryRow(ctx, `SELECT environment FROM deployment`).Scan(&name)
	if errors.Is(err, pgx.ErrNoRows) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("read the environment mark: %w", err)
	}
	return name, nil
}

// CheckEnvironment returns an *EnvironmentError unless the database is marked
// as the configured environment, or not marked at all.
func CheckEnvironment(ctx context.Context, q Querier, database, configured string) error {
	marked, err := Environment(ctx, q)
	if err != nil {
		return err
	}
	if marked != "" && marked != configured {
		return &EnvironmentError{Database: database, Marked: marked, Configured: configured}
	}
	return nil
}

// MarkEnvironment marks the database, once: a database that is marked otherwise
// is refused with an *EnvironmentError. The connection must belong to the owner
// of the tables, or be able to become it.
func MarkEnvironment(ctx context.Context, conn *pgx.Conn, database, name string) error {
	if err := ValidEnvironment(name); err != nil {
		return err
	}
	if err := asOwner(ctx, conn, `INSERT INTO deployment (environment) VALUES ($1) ON CONFLICT (one) DO NOTHING`, name); err != nil {
		return fmt.Errorf("mark %s as %s: %w", database, name, err)
	}
	return CheckEnvironment(ctx, conn, database, name)
}

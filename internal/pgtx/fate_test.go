package pgtx_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"
	"testing/fstest"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/dlockctl/dlockctl/internal/pgtx"
)

// What was sent and not answered is unknown, whatever the error; what the server
// refused, or never got, was not done.
//
// Clauses: K-2.9
// Mutation: swap two cases of FateOf.
func TestFateOf(t *testing.T) {
	t.Parallel()
	refused := &pgconn.PgError{Code: "23514", SeverityUnlocalized: "ERROR"}
	gone := &pgconn.PgError{Code: "57P01", SeverityUnlocalized: "FATAL"}
	for _, tt := range []struct {
		err  error
		want pgtx.Fate
	}{
		{nil, pgtx.Done},
		{refused, pgtx.NotDone},
		{fmt.Errorf("wrapped: %w", refused), pgtx.NotDone},
		{&pgtx.UnsentError{Err: refused}, pgtx.NotDone},
		{pgx.ErrTxCommitRollback, pgtx.NotDone},
		{&pgtx.UnsentError{Err: io.ErrUnexpectedEOF}, pgtx.Unsent},
		{&pgtx.UnsentError{Err: gone}, pgtx.Unsent},
		{gone, pgtx.Unknown},
		{io.ErrUnexpectedEOF, pgtx.Unknown},
		{context.Canceled, pgtx.Unknown},
		{errors.New("anything else"), pgtx.Unknown},
	} {
		if got := pgtx.FateOf(tt.err); got != tt.want {
			t.Errorf("%v: %d, want %d", tt.err, got, tt.want)
		}
	}
}

// A statement's parameters are numbered in the order of the list, casts are left
// alone, and a file that disagrees with its list is found when it is loaded.
//
// Mutation: number each use anew, or let a name pass that is not in the list.
func TestStatement(t *testing.T) {
	t.Parallel()
	queries := fstest.MapFS{"queries/good.sql": {Data: []byte("-- :not a parameter\nSELECT :first::text, :second::int, :first\n  FROM x;\n")}}
	got := pgtx.Statement(queries, "good", "second", "first")
	if want := "SELECT $2::text, $1::int, $2\n  FROM x"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	for name, params := range map[string][]string{"too many": {"first", "second", "third"}, "too few": {"first"}} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s parameters were let pass", name)
				}
			}()
			pgtx.Statement(queries, "good", params...)
		}()
	}
}

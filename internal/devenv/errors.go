package devenv

import (
	"errors"
	"fmt"
	"syscall"

	"github.com/jackc/pgerrcode"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/dlockctl/dlockctl/internal/devenv/cluster"
)

// SetupError is returned for a folder, or for binaries, that cannot be used as
// told: the caller names another.
type SetupError struct{ Err error }

func (e *SetupError) Error() string { return e.Err.Error() }

func (e *SetupError) Unwrap() error { return e.Err }

// setup makes a *SetupError of a format.
func setup(format string, args ...any) error { return &SetupError{fmt.Errorf(format, args...)} }

// NotMadeError is returned by Destroy for a folder that it did not make.
type NotMadeError struct{ Dir string }

func (e *NotMadeError) Error() string {
	return fmt.Sprintf("%s has no %s, so dlockctl dev did not make it; remove it by hand", e.Dir, marker)
}

// NotUpError is returned by LockDSN and PayDSN where there is no such instance.
type NotUpError struct{ Name, Dir string }

func (e *NotUpError) Error() string { return fmt.Sprintf("there is no %s in %s", e.Name, e.Dir) }

// diskFull recognises a full disk however it was noticed: by us, by initdb, by the server. It adds ErrDiskFull and
// what to do.
func diskFull(err error) error {
	var pgErr *pgconn.PgError
	switch {
	case err == nil, errors.Is(err, cluster.ErrDiskFull):
		return err
	case errors.Is(err, syscall.ENOSPC), errors.As(err, &pgErr) && pgErr.Code == pgerrcode.DiskFull:
		return fmt.Errorf("%w: %w; free some space or choose another state folder", cluster.ErrDiskFull, err)
	}
	return err
}

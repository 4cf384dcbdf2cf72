package devenv

import (
	"errors"
	"fmt"
	"syscall"

	"github.com/jackc/pgerrcode"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/dlockctl/dlockctl/internal/devenv/cluster"
)

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

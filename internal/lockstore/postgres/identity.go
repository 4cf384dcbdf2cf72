package postgres

import (
	"context"

	"github.com/dlockctl/dlockctl/internal/instance"
	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/pgtx"
)

// Identity names the lockdb that the store is connected to. See [instance.Identity].
func (s *Store) Identity(ctx context.Context) (string, error) {
	id, err := instance.Identity(ctx, s.pool)
	if pgtx.Unanswered(err) {
		return "", &lockstore.UnreachableError{Doing: "ask which database lockdb is", Err: err}
	}
	return id, err
}

package client

import (
	"context"
	"fmt"
	"net/http"

	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/service/lockapi"
	"github.com/dlockctl/dlockctl/internal/service/problem"
)

// Capabilities are those of the store that lock-server keeps its locks in, as Learn was
// told; before that those of lockdb.
func (l *Locks) Capabilities() lockstore.Capabilities {
	if told := l.capabilities.Load(); told != nil {
		return *told
	}
	return lockstore.Capabilities{Backend: "postgres", Sessions: true, GlobalTokens: true, OwnTTL: true, Batches: true, Journal: true}
}

// Learn asks lock-server what keeps its locks, once: whoever asks next is told why it
// does not answer. One that is too old to be asked keeps them in lockdb, which is no
// error.
func (l *Locks) Learn(ctx context.Context) error {
	var answer lockapi.Backend
	_, err := l.work.try(ctx, request{method: http.MethodGet, path: "/v1/backend", out: &answer}, nil)
	p, refused := problem.From(err)
	switch {
	case refused && noSuchPath(p), err == nil && answer.Backend == "":
		return nil
	case err != nil:
		return fmt.Errorf("ask lock-server at %s what keeps its locks: %w", l.work.host(), err)
	}
	told := answer.Value()
	l.capabilities.Store(&told)
	return nil
}

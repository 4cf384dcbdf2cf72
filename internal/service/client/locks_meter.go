package client

import (
	"context"
	"errors"
	"fmt"
	"net/url"

	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/service/lockapi"
)

// Pulse reads how busy the store behind lock-server is. It returns
// lockstore.ErrUnsupported where that does not count, or where lock-server is too old
// to be asked.
func (l *Locks) Pulse(ctx context.Context, since lockstore.Token) (lockstore.Pulse, error) {
	const doing = "read how busy lock-server's store is"
	var answer lockapi.Pulse
	err := l.get(ctx, doing, "/v1/locks/pulse", url.Values{"since": {since.String()}}, &answer)
	if errors.Is(err, lockstore.ErrInvalid) || errors.Is(err, lockstore.ErrNotFound) {
		return lockstore.Pulse{}, fmt.Errorf("%s: %w: %w", doing, lockstore.ErrUnsupported, err)
	}
	return answer.Value(), err
}

package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/dlockctl/dlockctl/internal/service/httpd"
)

// mostHealth bounds an answer of /readyz.
const mostHealth = 1 << 20

// Health asks a service how it is. A service that is not ready is no error; one that
// does not answer, or answers with something else, is.
func Health(ctx context.Context, opts Options) (health httpd.Health, err error) {
	c, err := opts.connect(0)
	if err != nil {
		return health, err
	}
	defer c.http.CloseIdleConnections()
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, c.base.JoinPath("readyz").String(), http.NoBody)
	if err != nil {
		return health, fmt.Errorf("ask the service at %s how it is: %w", c.base.Host, err)
	}
	response, err := c.http.Do(request)
	if err != nil {
		return health, fmt.Errorf("ask the service how it is: %w", err)
	}
	defer response.Body.Close() //nolint:errcheck // it was only read
	if err := json.NewDecoder(io.LimitReader(response.Body, mostHealth)).Decode(&health); err != nil || health.Service == "" {
		return health, errors.New("the answer of " + c.base.Host + " is not what /readyz says")
	}
	return health, nil
}

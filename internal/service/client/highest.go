package client

import (
	"context"
	"net/http"

	"github.com/dlockctl/dlockctl/internal/paystore"
	"github.com/dlockctl/dlockctl/internal/service/payapi"
)

// Highest is the highest token that the service's database knows of, 0 for none
// (K-7.6).
func (p *Payments) Highest(ctx context.Context) (paystore.Token, error) {
	return highest(ctx, p.conn, "payment-resource")
}

// Highest is the highest token that the rail's marks know of, 0 for none (K-7.6).
func (r *Rail) Highest(ctx context.Context) (paystore.Token, error) {
	return highest(ctx, r.conn, "rail-proxy")
}

func highest(ctx context.Context, c *conn, service string) (paystore.Token, error) {
	var out payapi.Highest
	_, err := pay(ctx, c, service, "ask for the highest token", request{method: http.MethodGet, path: payapi.PathHighest, out: &out, safe: true})
	return out.Token, err
}

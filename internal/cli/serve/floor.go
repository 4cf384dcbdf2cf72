package serve

import (
	"context"

	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/paystore"
	"github.com/dlockctl/dlockctl/internal/service/client"
	"github.com/dlockctl/dlockctl/internal/service/lockserver"
)

// floorSources are the two payment services, which lock-server asks for the highest
// token that they have seen (K-7.6).
func (f *frame) floorSources() (sources []lockserver.FloorSource, closeAll func(), err error) {
	payments, err := client.NewPayments(f.to(f.cfg.Services.PayURL))
	if err != nil {
		return nil, nil, err
	}
	rail, err := client.NewRail(f.to(f.cfg.Services.RailURL))
	if err != nil {
		payments.Close()
		return nil, nil, err
	}
	sources = []lockserver.FloorSource{
		{Name: "payment-resource", Highest: lockToken(payments.Highest)},
		{Name: "rail-proxy", Highest: lockToken(rail.Highest)},
	}
	return sources, func() {
		payments.Close()
		rail.Close()
	}, nil
}

// lockToken reads a token of the payments' as one of the locks': it is the same
// number, in two packages that never meet (K-6.2).
func lockToken(highest func(context.Context) (paystore.Token, error)) func(context.Context) (lockstore.Token, error) {
	return func(ctx context.Context) (lockstore.Token, error) {
		token, err := highest(ctx)
		return lockstore.Token(token), err
	}
}

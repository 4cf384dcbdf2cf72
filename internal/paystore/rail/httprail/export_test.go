package httprail

import (
	"context"
	"net"
	"time"
)

// Decode reads an answer about a key.
var Decode = decode

// Dial connects for a payment whose deadline left tells.
func Dial(ctx context.Context, left func() time.Duration, address string) (net.Conn, error) {
	return dial(withDeadline(ctx, left), "tcp", address)
}

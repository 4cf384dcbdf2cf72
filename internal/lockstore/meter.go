package lockstore

import "context"

// Meter is what a backend may also be: one that tells how busy it is. Reading
// it takes nothing from those who acquire.
type Meter interface {
	// Pulse reads how far the tokens have come, and counts the grants above since.
	Pulse(ctx context.Context, since Token) (Pulse, error)
}

// Pulse is what happened up to a moment.
type Pulse struct {
	// Last is the highest token drawn. A plain grant draws two and a contended try
	// one, so that draws tell contention where grants do not.
	Last Token
	// Grants counts those with a token above since.
	Grants int
	// Waiting counts the server processes that wait for another's transaction
	// (K-2.11); whoever waits by --wait or in a lock server's queue is not there.
	Waiting int
}

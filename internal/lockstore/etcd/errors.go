package etcd

import (
	"context"
	"errors"
	"fmt"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/dlockctl/dlockctl/internal/lockstore"
)

// classify turns what a change ended in into the store's errors. What the cluster
// refused was not done; what was sent and not answered is unknown, and never failed
// (K-2.9).
func classify(ctx context.Context, doing string, sent bool, err error) error {
	switch {
	case turnedAway(err):
		return &lockstore.UnreachableError{Doing: doing, Err: err}
	case refused(err):
		return fmt.Errorf("%s: %w", doing, err)
	case sent:
		return &lockstore.UnknownOutcomeError{Doing: doing, Err: err}
	default:
		return unsent(ctx, doing, err)
	}
}

// classifyRead is the same for what changes nothing: there is no unknown outcome.
func classifyRead(ctx context.Context, doing string, err error) error {
	if refused(err) && !turnedAway(err) {
		return fmt.Errorf("%s: %w", doing, err)
	}
	return unsent(ctx, doing, err)
}

// unsent is a request that certainly did nothing: its caller gave up, or the cluster
// was not to be reached.
func unsent(ctx context.Context, doing string, err error) error {
	if ctx.Err() != nil {
		return &lockstore.UnreachableError{Doing: doing, Err: errors.Join(context.Cause(ctx), err)}
	}
	return &lockstore.UnreachableError{Doing: doing, Err: err}
}

// turnedAway tells that nothing was carried out because of the state that the cluster is
// in, or because it does not know who asks: it has no leader (which is asked for, and so
// looked at first), has too much to do, or was slower than a lease that was just made.
func turnedAway(err error) bool {
	for _, cause := range []error{
		rpctypes.ErrNoLeader, rpctypes.ErrTooManyRequests, rpctypes.ErrLeaseNotFound,
		rpctypes.ErrAuthFailed, rpctypes.ErrUserEmpty, rpctypes.ErrInvalidAuthToken,
	} {
		if errors.Is(err, cause) {
			return true
		}
	}
	return false
}

// refused tells that the cluster answered, and carried nothing out. Its other codes
// come from requests that were on their way to the log: they time out, or the member
// stops or loses its leader, and the log may have them all the same.
func refused(err error) bool {
	code := status.Code(err)
	if etcdErr := (rpctypes.EtcdError{}); errors.As(err, &etcdErr) {
		code = etcdErr.Code()
	}
	switch code {
	case codes.InvalidArgument, codes.NotFound, codes.AlreadyExists, codes.PermissionDenied, codes.ResourceExhausted,
		codes.FailedPrecondition, codes.OutOfRange, codes.Unimplemented, codes.Unauthenticated, codes.DataLoss:
		return true
	default:
		return false
	}
}

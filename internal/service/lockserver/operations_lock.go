package lockserver

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/service/httpd"
	"github.com/dlockctl/dlockctl/internal/service/lockapi"
	"github.com/dlockctl/dlockctl/internal/service/lockserver/engine"
	"github.com/dlockctl/dlockctl/internal/service/problem"
	"github.com/dlockctl/dlockctl/internal/telemetry"
)

// withToken is a request that presents a fencing token.
type withToken[T any] struct {
	Token string `header:"X-Fencing-Token" doc:"The grant's fencing token"`
	Body  T
}

func (in *withToken[T]) token() (lockstore.Token, error) {
	if in.Token == "" {
		return 0, fmt.Errorf("%w: the header X-Fencing-Token is missing; give the token that acquire answered", lockstore.ErrInvalid)
	}
	return lockstore.ParseToken(in.Token)
}

// tokened is an answer that carries a fencing token in a header too.
type tokened[T any] struct {
	Token string `header:"X-Fencing-Token" doc:"The grant's fencing token"`
	Body  T
}

func (s *Service) registerLocks(api huma.API) {
	huma.Post(api, "/v1/locks/acquire", s.acquire, operation("acquire-lock", "Take a lock, at once or after a wait", httpd.Acquire), hot)
	huma.Post(api, "/v1/locks/renew", s.renew, operation("renew-lock", "Extend a lease, never shorten it", httpd.Acquire), hot)
	huma.Post(api, "/v1/locks/release", s.release, operation("release-lock", "Give a lock back", httpd.Acquire), hot)
}

// hot leaves out the library's own look at the body: every value is checked by
// the rules of the store anyway, with the store's words.
func hot(op *huma.Operation) { op.SkipValidateBody = true }

func (s *Service) acquire(ctx context.Context, in *body[lockapi.AcquireRequest]) (*tokened[lockapi.Grant], error) {
	ttl, most, err := durations("ttl_ms", "wait_ms", in.Body.TTLMS, in.Body.WaitMS)
	if err == nil && most > s.opts.MostWait {
		err = fmt.Errorf("%w: wait_ms %d is above the maximum of %d; ask again when it is over", lockstore.ErrInvalid, in.Body.WaitMS, s.opts.MostWait.Milliseconds())
	}
	if err != nil {
		return nil, s.refusal(err)
	}
	params := lockstore.AcquireParams{Key: in.Body.Key, Session: lockstore.SessionID(in.Body.SessionID), TTL: ttl}
	if params.Owner, err = s.sessionOwner(ctx, params.Session); err != nil {
		s.countLost(err)
		return nil, s.refusal(err)
	}
	grant, err := s.engine.Acquire(ctx, params, engine.Wait{Most: most, Stop: httpd.Draining(ctx)})
	if err != nil {
		return nil, s.refusedGrant(err)
	}
	if ctx.Err() != nil {
		// The client hung up at the very last moment: nobody will give it back.
		s.engine.GiveBack(grant)
		return nil, s.refusal(&lockstore.UnknownOutcomeError{Doing: "acquire", Err: context.Cause(ctx)})
	}
	if httpd.CallerOf(ctx).Name != "" {
		s.grants.put(lockstore.GrantRef{Key: grant.Key, Token: grant.Token}, grant.Owner)
	}
	answer := lockapi.NewGrant(grant)
	return &tokened[lockapi.Grant]{answer.TokenStr, answer}, nil
}

func (s *Service) renew(ctx context.Context, in *withToken[lockapi.RenewRequest]) (*tokened[lockapi.Grant], error) {
	token, err := in.token()
	ttl, ttlErr := lockapi.Duration("ttl_ms", in.Body.TTLMS)
	if err := errors.Join(err, ttlErr, lockstore.LookupKey(in.Body.Key)); err != nil {
		return nil, s.refusal(err)
	}
	ref := lockstore.GrantRef{Key: in.Body.Key, Token: token}
	owned, err := s.ownsGrant(ctx, ref, lockstore.SessionID(in.Body.SessionID))
	var grant lockstore.Grant
	switch {
	case err != nil:
	case !owned:
		err = fmt.Errorf("renew lock %q with token %s: %w", ref.Key, token, lockstore.ErrLockLost)
	default:
		err = s.keeping(ctx, func(ctx context.Context, store Backend) (err error) {
			grant, err = store.Renew(ctx, ref.Key, token, ttl)
			return err
		})
	}
	if errors.Is(err, lockstore.ErrLockLost) {
		s.metrics.Lost.Inc()
		s.metrics.Expired.Inc()
		s.metrics.SessionLost.Inc() // C1 1.4 counts a lapsed lease so
		s.log.Warn(telemetry.EventLeaseExpired, slog.String("key", ref.Key), slog.Int64("token", int64(token)))
	}
	if err != nil {
		return nil, s.refusal(err)
	}
	s.metrics.Renewed.Inc()
	answer := lockapi.NewGrant(grant)
	return &tokened[lockapi.Grant]{answer.TokenStr, answer}, nil
}

func (s *Service) release(ctx context.Context, in *withToken[lockapi.ReleaseRequest]) (*tokened[lockapi.Release], error) {
	token, err := in.token()
	if err := errors.Join(err, lockstore.LookupKey(in.Body.Key)); err != nil {
		return nil, s.refusal(err)
	}
	ref := lockstore.GrantRef{Key: in.Body.Key, Token: token}
	owned, err := s.ownsGrant(ctx, ref, lockstore.SessionID(in.Body.SessionID))
	if err != nil {
		return nil, s.refusal(err)
	}
	released := lockstore.Release{Key: ref.Key, Token: token, Stale: true}
	if owned {
		if released, err = s.engine.Release(ctx, ref.Key, token); err != nil {
			return nil, s.refusal(err)
		}
	}
	answer := lockapi.NewRelease(released)
	return &tokened[lockapi.Release]{answer.TokenStr, answer}, nil
}

// showSessions tells whether session ids are shown in full: to an operator who
// asks (K-2.12).
func showSessions(ctx context.Context, asked bool) (bool, error) {
	if asked && !may(httpd.CallerOf(ctx), httpd.Operate) {
		return false, problem.New(http.StatusForbidden, problem.Forbidden, "show_session takes the scope operate: session ids are secrets")
	}
	return asked, nil
}

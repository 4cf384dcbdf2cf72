package lockserver

import (
	"context"
	"errors"
	"fmt"

	"github.com/danielgtaylor/huma/v2"

	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/service/httpd"
	"github.com/dlockctl/dlockctl/internal/service/lockapi"
	"github.com/dlockctl/dlockctl/internal/service/problem"
)

func (s *Service) registerBatches(api huma.API) {
	huma.Post(api, "/v1/locks/acquire-batch", s.acquireBatch, operation("acquire-locks", "Try for many locks in one transaction, each answered by itself", httpd.Acquire))
	huma.Post(api, "/v1/locks/release-batch", s.releaseBatch, operation("release-locks", "Give many locks back in one transaction", httpd.Acquire))
}

func (s *Service) acquireBatch(ctx context.Context, in *body[lockapi.AcquireBatchRequest]) (*body[lockapi.AcquireBatchResponse], error) {
	params := make([]lockstore.AcquireParams, len(in.Body.Locks))
	for i, item := range in.Body.Locks {
		ttl, err := lockapi.Duration("ttl_ms", item.TTLMS)
		if err != nil {
			return nil, s.refusal(err)
		}
		params[i] = lockstore.AcquireParams{Key: item.Key, Session: lockstore.SessionID(item.SessionID), TTL: ttl}
	}
	if err := errors.Join(batchSize(len(params)), s.link.Granting()); err != nil {
		return nil, s.refusedGrant(err)
	}
	results := make([]lockstore.AcquireResult, len(params))
	var places []int // of those whose session is the caller's
	var mine []lockstore.AcquireParams
	for i := range params {
		var err error
		params[i].Owner, err = s.sessionOwner(ctx, params[i].Session)
		if errors.Is(err, lockstore.ErrSessionLost) {
			results[i].Err = err
			continue
		}
		if err != nil {
			return nil, s.refusal(err)
		}
		places, mine = append(places, i), append(mine, params[i])
	}
	if len(mine) > 0 {
		var got []lockstore.AcquireResult
		err := s.changing(ctx, func(ctx context.Context, store Backend) (err error) {
			got, err = store.AcquireBatch(ctx, mine)
			return err
		})
		if err != nil {
			return nil, s.refusedGrant(err)
		}
		for i, place := range places {
			results[place] = got[i]
		}
	}
	return &body[lockapi.AcquireBatchResponse]{s.batchAnswer(ctx, results)}, nil
}

func (s *Service) batchAnswer(ctx context.Context, results []lockstore.AcquireResult) lockapi.AcquireBatchResponse {
	answer := lockapi.AcquireBatchResponse{Results: make([]lockapi.AcquireResult, len(results))}
	for i, result := range results {
		_, held := errors.AsType[*lockstore.HeldError](result.Err)
		switch {
		case result.Err == nil:
			s.link.Saw(result.Grant.Token)
			s.metrics.Grants.Inc()
			if ctx.Err() != nil {
				s.engine.GiveBack(result.Grant)
			} else if httpd.CallerOf(ctx).Name != "" {
				s.grants.put(lockstore.GrantRef{Key: result.Grant.Key, Token: result.Grant.Token}, result.Grant.Owner)
			}
			grant := lockapi.NewGrant(result.Grant)
			answer.Results[i].Grant = &grant
			continue
		case held:
			s.metrics.Contended.Inc()
		default:
			s.countLost(result.Err)
		}
		p, _ := problem.From(s.refusal(result.Err))
		answer.Results[i].Problem = lockapi.Nest(p)
	}
	return answer
}

func (s *Service) releaseBatch(ctx context.Context, in *body[lockapi.ReleaseBatchRequest]) (*body[lockapi.ReleaseBatchResponse], error) {
	if err := batchSize(len(in.Body.Grants)); err != nil {
		return nil, s.refusal(err)
	}
	releases := make([]lockstore.Release, len(in.Body.Grants))
	var places []int // of those that are the caller's
	var refs []lockstore.GrantRef
	for i, grant := range in.Body.Grants {
		token, err := tokenFrom(grant.Token, grant.TokenStr)
		if err := errors.Join(err, lockstore.LookupKey(grant.Key)); err != nil {
			return nil, s.refusal(err)
		}
		ref := lockstore.GrantRef{Key: grant.Key, Token: token}
		owned, err := s.ownsGrant(ctx, ref, lockstore.SessionID(grant.SessionID))
		if err != nil {
			return nil, s.refusal(err)
		}
		releases[i] = lockstore.Release{Key: ref.Key, Token: token, Stale: true}
		if owned {
			places, refs = append(places, i), append(refs, ref)
		}
	}
	if len(refs) > 0 {
		var got []lockstore.Release
		err := s.changing(ctx, func(ctx context.Context, store Backend) (err error) {
			got, err = store.ReleaseBatch(ctx, refs)
			return err
		})
		if err != nil {
			return nil, s.refusal(err)
		}
		for i, place := range places {
			releases[place] = got[i]
		}
	}
	answer := lockapi.ReleaseBatchResponse{Results: make([]lockapi.Release, len(releases))}
	for i, release := range releases {
		answer.Results[i] = lockapi.NewRelease(release)
		if !release.Stale {
			s.metrics.Released.Inc()
			s.engine.LookNow(release.Key)
		}
	}
	return &body[lockapi.ReleaseBatchResponse]{answer}, nil
}

func batchSize(n int) error {
	if n == 0 || n > lockstore.MaxBatch {
		return fmt.Errorf("%w: a batch of %d; give 1 to %d", lockstore.ErrInvalid, n, lockstore.MaxBatch)
	}
	return nil
}

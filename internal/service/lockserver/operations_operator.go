package lockserver

import (
	"context"

	"github.com/danielgtaylor/huma/v2"

	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/service/httpd"
	"github.com/dlockctl/dlockctl/internal/service/lockapi"
)

func (s *Service) registerOperator(api huma.API) {
	huma.Post(api, "/v1/locks/revoke", s.revoke, operation("revoke-lock", "Take a lock from its holder: the very grant that was seen, or nothing", httpd.Operate))
	huma.Post(api, "/v1/locks/revoke-many", s.revokeMany, operation("revoke-locks", "Revoke all that match, in one transaction", httpd.Operate))
	huma.Post(api, "/v1/locks/prune", s.prune, operation("prune-locks", "Delete entries whose lease ended long ago", httpd.Operate))
}

// operatorFor is who the audit names: a credential's operator is the credential's,
// as a session's owner is.
func operatorFor(ctx context.Context, operator string) (string, error) {
	if err := lockstore.ValidOperator(operator); err != nil {
		return "", err
	}
	return ownerFor(httpd.CallerOf(ctx), operator), nil
}

func (s *Service) revoke(ctx context.Context, in *body[lockapi.RevokeRequest]) (*body[lockapi.LockOutcome], error) {
	token, err := tokenFrom(in.Body.Token, in.Body.TokenStr)
	if err != nil {
		return nil, s.refusal(err)
	}
	operator, err := operatorFor(ctx, in.Body.Operator)
	if err != nil {
		return nil, s.refusal(err)
	}
	var outcome lockstore.LockOutcome
	err = s.changing(ctx, func(ctx context.Context, store Backend) (err error) {
		outcome, err = store.Revoke(ctx, lockstore.RevokeParams{
			Key: in.Body.Key, Token: token, Operator: operator, Reason: in.Body.Reason,
			EndSession: in.Body.EndSession, FenceAccounts: in.Body.FenceAccounts,
		})
		return err
	})
	if err != nil {
		return nil, s.refusal(err)
	}
	s.revoked(outcome)
	return &body[lockapi.LockOutcome]{lockapi.NewLockOutcome(outcome, in.Body.ShowSession)}, nil
}

// revoked wakes those who wait for what was taken.
func (s *Service) revoked(outcome lockstore.LockOutcome) {
	if outcome.Outcome != lockstore.Revoked {
		return
	}
	s.engine.LookNow(outcome.Key)
	for _, also := range outcome.AlsoRevoked {
		s.engine.LookNow(also.Key)
	}
}

func (s *Service) revokeMany(ctx context.Context, in *body[lockapi.RevokeManyRequest]) (*body[lockapi.LockOutcomes], error) {
	operator, err := operatorFor(ctx, in.Body.Operator)
	if err != nil {
		return nil, s.refusal(err)
	}
	var outcomes []lockstore.LockOutcome
	err = s.changing(ctx, func(ctx context.Context, store Backend) (err error) {
		outcomes, err = store.RevokeMany(ctx, lockstore.RevokeManyParams{
			Filter:   lockstore.Filter{Owner: in.Body.Owner, Prefix: in.Body.Prefix, Session: lockstore.SessionID(in.Body.SessionID), Expired: in.Body.Expired},
			Operator: operator, Reason: in.Body.Reason, Expect: in.Body.Expect,
		})
		return err
	})
	if err != nil {
		return nil, s.refusal(err)
	}
	answer := lockapi.LockOutcomes{Outcomes: make([]lockapi.LockOutcome, len(outcomes))}
	for i, outcome := range outcomes {
		s.revoked(outcome)
		answer.Outcomes[i] = lockapi.NewLockOutcome(outcome, false)
	}
	return &body[lockapi.LockOutcomes]{answer}, nil
}

func (s *Service) prune(ctx context.Context, in *body[lockapi.PruneRequest]) (*body[lockapi.EntryList], error) {
	age, err := lockapi.Duration("older_than_ms", in.Body.OlderThanMS)
	if err != nil {
		return nil, s.refusal(err)
	}
	var entries []lockstore.Entry
	err = s.changing(ctx, func(ctx context.Context, store Backend) (err error) {
		entries, err = store.Prune(ctx, age, in.Body.Limit)
		return err
	})
	if err != nil {
		return nil, s.refusal(err)
	}
	return &body[lockapi.EntryList]{newEntryList(entries, false)}, nil
}

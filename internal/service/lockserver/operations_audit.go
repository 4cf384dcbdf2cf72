package lockserver

import (
	"context"

	"github.com/danielgtaylor/huma/v2"

	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/service/httpd"
	"github.com/dlockctl/dlockctl/internal/service/lockapi"
)

type revocationsInput struct {
	Key      string `query:"key" doc:"Only of this lock"`
	Operator string `query:"operator" doc:"Only by this operator"`
	After    int64  `query:"after" minimum:"-1" default:"-1" doc:"Only rows with a higher id, oldest first; 0 is all of them"`
	Limit    int    `query:"limit" minimum:"0" doc:"At most so many; 0 is all"`
}

type operatorLogInput struct {
	Action string `query:"action" doc:"Only of this action"`
	After  int64  `query:"after" minimum:"-1" default:"-1" doc:"Only records with a higher id, oldest first; 0 is all of them"`
	Limit  int    `query:"limit" minimum:"0" doc:"At most so many; 0 is all"`
}

type revocationInput struct {
	ID int64 `query:"id" required:"true" doc:"The audit row's id"`
}

type historyInput struct {
	Token       string `query:"token" required:"true" doc:"Fencing token"`
	ShowSession bool   `query:"show_session" doc:"The session id in full; it takes the scope operate"`
}

func (s *Service) registerAudit(api huma.API) {
	huma.Get(api, "/v1/audit/revocations", s.revocations, operation("list-revocations", "List audit rows, newest first", httpd.Audit))
	huma.Get(api, "/v1/audit/revocations/show", s.revocation, operation("show-revocation", "Show one audit row", httpd.Audit))
	huma.Get(api, "/v1/audit/operator-log", s.operatorLog, operation("list-operator-log", "List what operators did to the whole database, newest first", httpd.Audit))
	huma.Get(api, "/v1/audit/verify", s.verifyAudit, operation("verify-audit", "Look for rows taken out of, or rewritten in, the audit", httpd.Audit))
	huma.Get(api, "/v1/tokens/history", s.history, operation("show-token", "What the journal knows of a token", httpd.Audit))
}

// after is a bound that was given, or nil.
func after(id int64) *int64 {
	if id < 0 {
		return nil
	}
	return &id
}

func (s *Service) revocations(ctx context.Context, in *revocationsInput) (*body[lockapi.RevocationList], error) {
	var rows []lockstore.Revocation
	err := s.reading(ctx, func(ctx context.Context, store reader) (err error) {
		rows, err = store.Revocations(ctx, lockstore.RevocationFilter{Key: in.Key, Operator: in.Operator, After: after(in.After), Limit: in.Limit})
		return err
	})
	if err != nil {
		return nil, s.refusal(err)
	}
	list := lockapi.RevocationList{Revocations: make([]lockapi.Revocation, len(rows))}
	for i, row := range rows {
		list.Revocations[i] = lockapi.NewRevocation(row)
	}
	return &body[lockapi.RevocationList]{list}, nil
}

func (s *Service) revocation(ctx context.Context, in *revocationInput) (*body[lockapi.Revocation], error) {
	var row lockstore.Revocation
	err := s.reading(ctx, func(ctx context.Context, store reader) (err error) {
		row, err = store.Revocation(ctx, in.ID)
		return err
	})
	if err != nil {
		return nil, s.refusal(err)
	}
	return &body[lockapi.Revocation]{lockapi.NewRevocation(row)}, nil
}

func (s *Service) operatorLog(ctx context.Context, in *operatorLogInput) (*body[lockapi.OperatorLog], error) {
	var records []lockstore.OperatorRecord
	err := s.reading(ctx, func(ctx context.Context, store reader) (err error) {
		records, err = store.OperatorLog(ctx, lockstore.OperatorLogFilter{Action: in.Action, After: after(in.After), Limit: in.Limit})
		return err
	})
	if err != nil {
		return nil, s.refusal(err)
	}
	log := lockapi.OperatorLog{Records: make([]lockapi.OperatorRecord, len(records))}
	for i, record := range records {
		log.Records[i] = lockapi.NewOperatorRecord(record)
	}
	return &body[lockapi.OperatorLog]{log}, nil
}

func (s *Service) verifyAudit(ctx context.Context, _ *struct{}) (*body[lockapi.AuditReport], error) {
	var report lockstore.AuditReport
	err := s.reading(ctx, func(ctx context.Context, store reader) (err error) {
		report, err = store.VerifyAudit(ctx)
		return err
	})
	if err != nil {
		return nil, s.refusal(err)
	}
	return &body[lockapi.AuditReport]{lockapi.NewAuditReport(report)}, nil
}

func (s *Service) history(ctx context.Context, in *historyInput) (*body[lockapi.GrantRecord], error) {
	show, err := showSessions(ctx, in.ShowSession)
	if err != nil {
		return nil, err
	}
	token, err := lockstore.ParseToken(in.Token)
	if err != nil {
		return nil, s.refusal(err)
	}
	var record lockstore.GrantRecord
	err = s.reading(ctx, func(ctx context.Context, store reader) (err error) {
		record, err = store.GrantHistory(ctx, token)
		return err
	})
	if err != nil {
		return nil, s.refusal(err)
	}
	return &body[lockapi.GrantRecord]{lockapi.NewGrantRecord(record, show)}, nil
}

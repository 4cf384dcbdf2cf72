package payresource

import (
	"context"
	"embed"
	"log/slog"

	"github.com/dlockctl/dlockctl/internal/telemetry"
)

// Fail is how a service with this log and these metrics answers an error.
func Fail(log *slog.Logger, metrics *telemetry.Metrics) func(context.Context, error) error {
	s := &Service{opts: Options{Log: log}, metrics: metrics.Payments()}
	return s.fail
}

// Queries are the statements, by their files' names.
func Queries() map[string]string {
	return map[string]string{"list_newest": listNewestQuery, "list_oldest": listOldestQuery, "highest": highestQuery}
}

// QueryFiles are the files of the statements.
func QueryFiles() embed.FS { return queryFiles }

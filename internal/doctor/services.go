package doctor

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/dlockctl/dlockctl/internal/flyway"
	"github.com/dlockctl/dlockctl/internal/service/httpd"
)

// Service is a service that the configuration names.
type Service struct {
	// Name is what it must call itself, such as lock-server.
	Name string
	// Ask asks it how it is.
	Ask func(context.Context) (httpd.Health, error)
}

// The services that are looked at.
const (
	lockServer      = "lock-server"
	paymentResource = "payment-resource"
	railProxy       = "rail-proxy"
)

// fencingCondition is how a service tells that its switch is off (K-4.5).
const fencingCondition = "fencing"

// service looks at one service. Where none is configured there is nothing to look
// at: a deployment may work on the databases alone.
func service(name string) func(context.Context, *exam) (finding, error) {
	return func(ctx context.Context, e *exam) (finding, error) {
		for _, s := range e.target.Services {
			if s.Name == name {
				return e.askService(ctx, s)
			}
		}
		return finding{OK, "the configuration names none", nil}, nil
	}
}

func (e *exam) askService(ctx context.Context, s Service) (finding, error) {
	health, err := s.Ask(ctx)
	switch {
	case err != nil:
		return finding{Fail, plain(err), advice("is it up, and are address, certificate and key of services.* right?")}, nil
	case health.Service != s.Name:
		return finding{Fail, fmt.Sprintf("the address is that of %s", health.Service), advice("correct the address in services.*")}, nil
	}
	var failed, seen []string
	for _, c := range health.Conditions {
		if apart, err := e.otherDatabase(ctx, c); err != nil || apart.status == Fail {
			return apart, err
		}
		switch {
		case c.Name == fencingCondition && c.State != httpd.Good:
			failed = append(failed, c.Reason)
		case c.State == httpd.Failed:
			failed = append(failed, c.Name+": "+c.Reason)
		case c.State == httpd.Warning:
			seen = append(seen, c.Name+": "+c.Reason)
		}
	}
	const look = "it works on the schema and the instance that it found at its start: see its conditions at /readyz, and what this page says of the databases"
	switch {
	case len(failed) > 0:
		return finding{Fail, strings.Join(failed, ", "), advice(look)}, nil
	case !health.Ready:
		return finding{Fail, "not ready", advice(look)}, nil
	case len(seen) > 0:
		return finding{Warn, strings.Join(seen, ", "), advice(look)}, nil
	}
	return finding{OK, "ready", nil}, nil
}

// otherDatabase compares the database that a condition is about with the one that is
// looked at here, and its schema with those that the service's program knows. What
// cannot be compared is no finding of its own.
func (e *exam) otherDatabase(ctx context.Context, c httpd.Condition) (finding, error) {
	side := map[string]*side{LockDB: e.lock, PayDB: e.pay}[c.Name]
	if side == nil || side.tx == nil || side.identity == "" || c.Database == nil {
		return finding{OK, "", nil}, nil
	}
	at := c.Database
	if at.Identity != side.identity {
		return finding{
			Fail, fmt.Sprintf("its %s is %s, and the one of this configuration is %s", c.Name, at.Identity, side.identity),
			advice("services.* and the connection string name two deployments: correct one of them"),
		}, nil
	}
	var have int
	err := side.read(ctx, func(tx pgx.Tx) error {
		rows, err := flyway.Applied(ctx, tx, "")
		have, _ = flyway.CurrentVersion(rows)
		return err
	})
	if err != nil {
		return finding{}, err
	}
	if have < at.MinSchema || have > at.MaxSchema {
		return finding{
			Fail, fmt.Sprintf("its program knows %s's schema from %d to %d, and that is at %d", c.Name, at.MinSchema, at.MaxSchema, have),
			advice("it works as long as it runs, and refuses to start again: bring program and schema together (runbooks/upgrade-schema.md)"),
		}, nil
	}
	return finding{OK, "", nil}, nil
}

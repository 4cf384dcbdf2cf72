package paydb

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/dlockctl/dlockctl/internal/paystore"
	"github.com/dlockctl/dlockctl/internal/service/httpd"
)

// The names of the conditions.
const (
	ConditionPaydb   = "paydb"
	ConditionGate    = "pay_gate"
	ConditionFloor   = "fence_floor"
	ConditionFencing = "fencing"
)

// Ready tells how paydb stands, asked anew. A closed gate is a warning: postings,
// releases and resolutions go on, and a claim that it refuses is told what to run
// (K-7.9).
func (l *Link) Ready(ctx context.Context) []httpd.Condition {
	paydb := httpd.Condition{Name: ConditionPaydb, State: httpd.Good}
	db, err := l.DB(ctx)
	var s status
	if err == nil {
		s, err = l.status(ctx, db)
	}
	switch {
	case err != nil:
		paydb.State, paydb.Reason = httpd.Failed, reason(err)
		return []httpd.Condition{paydb}
	case s.standby:
		paydb.State, paydb.Reason = httpd.Failed, "standby: "+paystore.ErrNotPrimary.Error()
		return []httpd.Condition{paydb}
	}
	paydb.Database = &httpd.Database{Identity: s.identity, MinSchema: paystore.MinSchema, MaxSchema: paystore.MaxSchema}
	return []httpd.Condition{paydb, s.gate(), s.floor(l.opts.Role)}
}

// reason is why paydb cannot be used, without its address.
func reason(err error) string {
	if _, away := errors.AsType[*paystore.UnreachableError](err); away {
		return "down: paydb does not answer"
	}
	return err.Error()
}

// status is one row of queries/status.sql.
type status struct {
	standby, here, floored bool
	closedBy, closedReason string
	identity               string
}

func (l *Link) status(ctx context.Context, db *paystore.DB) (s status, err error) {
	err = db.Read(ctx, "look how paydb stands", statusQuery, []any{l.opts.Role.point()}, func(rows pgx.Rows) error {
		return paystore.ScanRows(rows, func() error {
			return rows.Scan(&s.standby, &s.here, &s.closedBy, &s.closedReason, &s.floored, &s.identity)
		})
	})
	return s, err
}

func (s status) gate() httpd.Condition {
	c := httpd.Condition{Name: ConditionGate, State: httpd.Good}
	switch {
	case s.closedBy != "":
		c.State, c.Reason = httpd.Warning, fmt.Sprintf("closed by %s: %s", s.closedBy, s.closedReason)
	case !s.here:
		c.State, c.Reason = httpd.Warning, "closed: paydb was restored, promoted or copied; no payout is claimed or attempted that was not settled by the rail's record: dlockctl restore plan"
	}
	return c
}

func (s status) floor(role Role) httpd.Condition {
	c := httpd.Condition{Name: ConditionFloor, State: httpd.Good}
	if !s.floored {
		c.State, c.Reason = httpd.Failed, fmt.Sprintf("the floor of %s is missing: every token is refused; dlockctl doctor prints the statement that puts it back", role.point())
	}
	return c
}

// Fencing tells whether a switch of K-4.5 is off, loudly; name is the switch.
func Fencing(name string, disabled bool) httpd.Condition {
	c := httpd.Condition{Name: ConditionFencing, State: httpd.Good}
	if disabled {
		c.State, c.Reason = httpd.Warning, FencingOff(name)
	}
	return c
}

// FencingOff is what a service with its fence switched off says of itself.
func FencingOff(name string) string {
	return "FENCING IS OFF (" + name + "=false): stale holders are not refused, money can be paid twice; for negative controls alone"
}

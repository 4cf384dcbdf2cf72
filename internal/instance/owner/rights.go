package owner

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/dlockctl/dlockctl/internal/instance"
)

// Rights returns what the login lacks to act as dlock_owner, each as the SQL that
// a stronger role has to run; empty when it lacks nothing.
func (c *Conn) Rights(ctx context.Context) ([]string, error) {
	missing := []string{}
	// Trying it is the only question with one answer on every version: membership
	// alone does not give SET ROLE on 16. It is rolled back.
	errTried := errors.New("tried")
	err := pgx.BeginFunc(ctx, c.watcher, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "SET LOCAL ROLE "+instance.OwnerRole); err != nil {
			return err
		}
		return errTried
	})
	switch {
	case Denied(err):
		missing = append(missing, "GRANT dlock_operator TO "+pgx.Identifier{c.Login()}.Sanitize())
	case !errors.Is(err, errTried):
		return nil, fmt.Errorf("look at the rights of the login: %w", err)
	}
	rows, err := c.watcher.Query(ctx, strangers)
	if err != nil {
		return nil, fmt.Errorf("look at the rights of %s: %w", instance.OwnerRole, err)
	}
	wrong, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, fmt.Errorf("look at the rights of %s: %w", instance.OwnerRole, err)
	}
	return append(missing, wrong...), nil
}

// strangers are the tables and sequences beside the migration history that
// somebody else owns, and a schema in which the owner may make nothing, no partition
// of the journal either, as the statements that give them back. In a database that was
// made anew for pg_restore the schema is whose the database is.
const strangers = `
SELECT CASE WHEN n.nspowner = 'pg_database_owner'::regrole
            THEN format('ALTER DATABASE %I OWNER TO dlock_owner', current_database())
            ELSE format('GRANT USAGE, CREATE ON SCHEMA %I TO dlock_owner', n.nspname) END
  FROM pg_namespace n
 WHERE n.oid = current_schema()::regnamespace AND EXISTS (SELECT FROM pg_roles WHERE rolname = 'dlock_owner')
   AND NOT has_schema_privilege('dlock_owner', n.oid, 'CREATE')
UNION ALL
(SELECT format('ALTER %s %I OWNER TO dlock_owner', CASE c.relkind WHEN 'S' THEN 'SEQUENCE' ELSE 'TABLE' END, c.relname)
  FROM pg_class c
 WHERE c.relname IN ('fencing_token_seq', 'lock_entry', 'lock_session', 'lock_revocation', 'lock_gate', 'lock_grant', 'operator_log', 'outside_mark',
                     'account', 'payout', 'rail_high_water', 'fence_floor', 'pay_gate')
   AND c.relnamespace = current_schema()::regnamespace AND c.relkind IN ('r', 'p', 'S')
   AND EXISTS (SELECT FROM pg_roles WHERE rolname = 'dlock_owner')
   AND NOT pg_has_role('dlock_owner', c.relowner, 'USAGE')
 ORDER BY c.relname)`

// terminate ends processes and waits until they have gone. A prepared
// transaction has none to end: only who prepared it may decide it.
func (c *Conn) terminate(ctx context.Context, doing string, blockers []Process) error {
	for _, p := range blockers {
		if p.Prepared != "" {
			return &BlockedError{Doing: doing, Blockers: blockers}
		}
		if _, err := c.watcher.Exec(ctx, "SELECT pg_terminate_backend($1)", p.PID); Denied(err) {
			return &RightsError{Doing: "end " + p.String(), Login: c.Login(), Missing: []string{"GRANT pg_signal_backend TO " + pgx.Identifier{c.Login()}.Sanitize()}}
		} else if err != nil {
			return fmt.Errorf("end %s: %w", p, err)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, goneWithin)
	defer cancel()
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	for {
		var left int
		if err := c.watcher.QueryRow(ctx, "SELECT count(*) FROM pg_stat_activity WHERE pid = ANY($1)", pids(blockers)).Scan(&left); err != nil {
			return fmt.Errorf("wait for the ended processes to go: %w", err)
		}
		if left == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return &BlockedError{Doing: doing, Blockers: blockers}
		case <-tick.C:
		}
	}
}

func pids(processes []Process) []int32 {
	pids := make([]int32, len(processes))
	for i, p := range processes {
		pids[i] = p.PID
	}
	return pids
}

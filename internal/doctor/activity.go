package doctor

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// leastConnections is the room below which the next deployment or the next person
// with a pager may find the door shut.
const leastConnections = 5

// connections compares what is open with what the server and the database let in.
func connections(ctx context.Context, _ *exam, s *side, tx pgx.Tx) (finding, error) {
	var all, most, here, limit int64
	if err := tx.QueryRow(ctx, connectionsQuery).Scan(&all, &most, &here, &limit); err != nil {
		return finding{}, err
	}
	switch {
	case limit >= 0 && limit-here < leastConnections:
		return finding{Warn, fmt.Sprintf("%d of the %d that the database lets in", here, limit), s.sql(Superuser, "ALTER DATABASE "+s.database+" CONNECTION LIMIT -1")}, nil
	case most-all < max(leastConnections, most/10):
		return finding{Warn, fmt.Sprintf("%d of the %d that the server lets in", all, most), advice("close what is idle, put a pooler in front, or raise max_connections and restart")}, nil
	}
	return finding{OK, fmt.Sprintf("%d of %d", all, most), nil}, nil
}

// longTransactions looks for what has been open for longer than any statement of
// this program takes: it keeps keys blocked past their leases, and the fence
// floors' barrier waiting.
func longTransactions(ctx context.Context, _ *exam, s *side, tx pgx.Tx) (finding, error) {
	var open []string
	var fix []string
	hidden := 0
	var pid, seconds int64
	var user, program, state string
	var unseen bool
	err := eachRow(ctx, tx, longTransactionsQuery, nil, []any{&pid, &user, &program, &state, &seconds, &unseen}, func() error {
		if unseen {
			hidden++
			return nil
		}
		who := strings.TrimSpace(user + " " + program)
		open = append(open, fmt.Sprintf("process %d (%s) has been %s for %s", pid, who, state, time.Duration(seconds)*time.Second))
		fix = append(fix, fmt.Sprintf("SELECT pg_terminate_backend(%d)", pid))
		return nil
	})
	switch {
	case err != nil:
		return finding{}, err
	case len(open) > 0:
		found := finding{Warn, strings.Join(open, ", "), s.sql(Superuser, fix...)}
		found.fix.Advice = "find out what it does first: terminating it rolls its work back"
		return found, nil
	case hidden > 0:
		return finding{Unknown, fmt.Sprintf("%d sessions are not shown to this login", hidden), s.sql(Superuser, "GRANT pg_read_all_stats TO "+s.login)}, nil
	}
	return finding{OK, "none is older than a minute", nil}, nil
}

// standbys looks at what a fail-over would lose (K-7.1).
func standbys(ctx context.Context, _ *exam, _ *side, tx pgx.Tx) (finding, error) {
	var connected int64
	var names string
	if err := tx.QueryRow(ctx, standbysQuery).Scan(&connected, &names); err != nil {
		return finding{}, err
	}
	switch {
	case connected == 0 && names == "":
		return finding{OK, "no standby is connected", nil}, nil
	case connected == 0:
		return finding{Fail, fmt.Sprintf("commits wait for %s, and no standby is connected", names), advice("bring the standby back, or take it out of synchronous_standby_names and reload")}, nil
	case names == "":
		return finding{
			Warn, fmt.Sprintf("%d connected, and no commit waits for any", connected),
			advice("set synchronous_standby_names, or go by docs/runbooks/failover.md after each promotion: tokens that were acknowledged here are issued again there"),
		}, nil
	}
	return finding{OK, fmt.Sprintf("%d connected, commits wait for %s", connected, names), nil}, nil
}

// lapsed looks for what no reaper clears away.
func lapsed(ctx context.Context, _ *exam, _ *side, tx pgx.Tx) (finding, error) {
	var sessions, entries int64
	if err := tx.QueryRow(ctx, lapsedQuery).Scan(&sessions, &entries); err != nil {
		return finding{}, err
	}
	switch {
	case sessions > 0:
		return finding{Warn, fmt.Sprintf("%d sessions lapsed more than a minute ago", sessions), command("dlockctl session reap")}, nil
	case entries > 0:
		return finding{Warn, fmt.Sprintf("%d leases ended more than a day ago", entries), command("dlockctl lock prune")}, nil
	}
	return finding{OK, "nothing is left over", nil}, nil
}

package owner

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// Process is a server process, or a prepared transaction, which has none.
type Process struct {
	PID         int32  `json:"pid,omitempty"`
	Role        string `json:"role,omitempty"`
	Application string `json:"application,omitempty"`
	Client      string `json:"client,omitempty"`
	State       string `json:"state,omitempty"`
	// Since is when its transaction began; zero when it is in none, or when the
	// login may not see it.
	Since time.Time `json:"since,omitzero"`
	// Prepared is the name of a prepared transaction.
	Prepared string `json:"prepared,omitempty"`
}

// String names the process for a message.
func (p Process) String() string {
	if p.Prepared != "" {
		return fmt.Sprintf("prepared transaction %q", p.Prepared)
	}
	var of []string
	for _, text := range []string{p.Role, p.Application, p.Client} {
		if text != "" {
			of = append(of, text)
		}
	}
	if len(of) == 0 {
		return fmt.Sprintf("server process %d", p.PID)
	}
	return fmt.Sprintf("server process %d (%s)", p.PID, strings.Join(of, ", "))
}

// blockersOf names the ends of the queue in front of a process: ending one that
// waits itself would help nobody. A blocker of number 0 is a prepared
// transaction, and those of the database are named.
const blockersOf = `
WITH RECURSIVE queue (pid) AS (
  SELECT unnest(pg_blocking_pids($1))
   UNION
  SELECT b.pid FROM queue q CROSS JOIN LATERAL unnest(pg_blocking_pids(q.pid)) b (pid) WHERE q.pid <> 0
)
SELECT a.pid, coalesce(a.usename, ''), coalesce(a.application_name, ''), coalesce(host(a.client_addr), ''), coalesce(a.state, ''), a.xact_start, ''
  FROM queue q JOIN pg_stat_activity a ON a.pid = q.pid
 WHERE a.pid <> $1 AND cardinality(pg_blocking_pids(a.pid)) = 0
 UNION ALL
SELECT 0, x.owner, '', '', 'prepared', x.prepared, x.gid
  FROM pg_prepared_xacts x
 WHERE x.database = current_database() AND EXISTS (SELECT FROM queue WHERE pid = 0)
 ORDER BY 1`

// Scan reads processes as queries of this shape give them: pid, role,
// application, client address, state, start of the transaction, prepared name.
func Scan(rows pgx.Rows) ([]Process, error) {
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (Process, error) {
		var p Process
		var since *time.Time
		err := row.Scan(&p.PID, &p.Role, &p.Application, &p.Client, &p.State, &since, &p.Prepared)
		if since != nil {
			p.Since = since.UTC()
		}
		return p, err //nolint:wrapcheck // the caller says what was being looked at
	})
}

// watch asks again and again who blocks pid, until stop is called, which returns
// the last answer that named somebody: once the wait has ended in an error,
// nobody is blocked any more.
func watch(ctx context.Context, conn *pgx.Conn, pid int32) (stop func() []Process) {
	// A channel, not a cancelled context: that would cut the connection too.
	done, found := make(chan struct{}), make(chan []Process, 1)
	go func() {
		var last []Process
		tick := time.NewTicker(watchEvery)
		defer tick.Stop()
		for {
			select {
			case <-done:
				found <- last
				return
			case <-tick.C:
			}
			rows, err := conn.Query(ctx, blockersOf, pid)
			if err != nil {
				continue
			}
			if now, err := Scan(rows); err == nil && len(now) > 0 {
				last = now
			}
		}
	}()
	return func() []Process {
		close(done)
		return <-found
	}
}

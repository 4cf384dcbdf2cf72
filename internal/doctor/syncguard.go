package doctor

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/dlockctl/dlockctl/internal/lockstore/syncguard"
	"github.com/dlockctl/dlockctl/internal/lockstore/syncguard/tables"
)

// SyncGuard is the database with SyncGuard's tables, where those keep the locks.
const SyncGuard = "syncguard"

// SyncGuardTarget is where SyncGuard's tables are. With one, its checks are made and
// no others.
type SyncGuardTarget struct {
	Config *pgx.ConnConfig
	Names  tables.Names
}

var (
	guardOwnerQuery    = query("syncguard_owner")
	guardBehindQuery   = query("syncguard_behind")
	guardHighQuery     = query("syncguard_high")
	guardOddQuery      = query("syncguard_odd")
	guardLapsedQuery   = query("syncguard_lapsed")
	guardBlockersQuery = query("syncguard_blockers")
	guardAuditQuery    = query("syncguard_audit")
)

// The commands of fixes.
const (
	guardMigrate = "dlockctl migrate up --target syncguard"
	guardAudit   = guardMigrate + " --audit"
	guardForward = "dlockctl restore fast-forward --reason TEXT"
	guardPrune   = "dlockctl lock prune"
)

// tableNames are those of the target; only looks at SyncGuard's side ask.
func (e *exam) tableNames() tables.Names { return e.target.SyncGuard.Names }

// guardOwner is the role that may change the tables.
func (e *exam) guardOwner(ctx context.Context, tx pgx.Tx) (string, error) {
	owner := ""
	err := tx.QueryRow(ctx, guardOwnerQuery, e.tableNames().QuotedLock()).Scan(&owner)
	return owner, err
}

// guardShape looks at the differences of some kinds.
func guardShape(kinds ...tables.Kind) func(context.Context, *exam, *side, pgx.Tx) (finding, error) {
	return func(ctx context.Context, e *exam, s *side, tx pgx.Tx) (finding, error) {
		found, err := tables.Look(ctx, tx, e.tableNames())
		if err != nil {
			return finding{}, err
		}
		if found.Absent() {
			return finding{Fail, "there are no tables", command(guardMigrate)}, nil
		}
		var saw, fix []string
		for _, d := range found.Differences {
			for _, kind := range kinds {
				if d.Kind != kind {
					continue
				}
				saw = append(saw, d.String())
				if d.Fix != "" {
					fix = append(fix, d.Fix)
				}
			}
		}
		if len(saw) == 0 {
			return finding{OK, "in schema " + found.Schema, nil}, nil
		}
		bad := finding{Fail, strings.Join(saw, "; "), advice("give the names of SyncGuard's own tables in syncguard.lock_table and syncguard.fence_table, or make these as the library does")}
		if len(fix) == len(saw) {
			owner, err := e.guardOwner(ctx, tx)
			if err != nil {
				return finding{}, err
			}
			bad.fix = s.sql(owner, fix...)
		}
		return bad, nil
	}
}

// guardTwins looks for copies that another search_path leads to: whoever works on
// one of them excludes nobody who works on the other.
func guardTwins(ctx context.Context, e *exam, s *side, tx pgx.Tx) (finding, error) {
	names := e.tableNames()
	twins, err := tables.Twins(ctx, tx, names)
	if err != nil || len(twins) == 0 {
		return finding{OK, "one copy of each", nil}, err
	}
	var saw, fix []string
	for _, twin := range twins {
		hidden := pgx.Identifier{twin.Hidden, twin.Table}.Sanitize()
		saw = append(saw, fmt.Sprintf("%s stands in schema %s, which is in use here, and in %s", twin.Table, twin.Used, twin.Hidden))
		if twin.Table == names.Fence {
			used := pgx.Identifier{twin.Used, twin.Table}.Sanitize()
			fix = append(fix, fmt.Sprintf("INSERT INTO %[1]s AS c (fence_key, fence, key_debug) SELECT fence_key, fence, key_debug FROM %[2]s ON CONFLICT (fence_key) DO UPDATE SET fence = greatest(c.fence, excluded.fence)", used, hidden))
		}
		fix = append(fix, fmt.Sprintf("ALTER TABLE %s RENAME TO %s", hidden, ident(cut(twin.Table+"_retired"))))
	}
	owner, err := e.guardOwner(ctx, tx)
	if err != nil {
		return finding{}, err
	}
	found := finding{Fail, strings.Join(saw, "; "), s.sql(owner, fix...)}
	found.fix.Advice = "stop the clients of the other copy first, and give all of them one search_path: the renaming makes those that still use it fail instead of granting a lock twice"
	return found, nil
}

// guardActs looks for row-level security and triggers: SyncGuard makes none, and its
// statements do not expect them. What is a matter of the tables' shape is seen there.
func guardActs(ctx context.Context, e *exam, s *side, tx pgx.Tx) (finding, error) {
	names := e.tableNames()
	acts, err := syncguard.Acts(ctx, tx, names.QuotedLock(), names.SQL(tables.DefaultFence))
	if err != nil {
		return finding{}, err
	}
	status := Warn
	var saw, fix []string
	for _, act := range acts {
		if act.Shape {
			continue
		}
		if act.Breaks {
			status = Fail
		}
		saw, fix = append(saw, act.String()), append(fix, act.Fix)
	}
	if len(saw) == 0 {
		return finding{OK, "neither row-level security nor a trigger is in force", nil}, nil
	}
	owner, err := e.guardOwner(ctx, tx)
	if err != nil {
		return finding{}, err
	}
	found := finding{status, some(saw), s.sql(owner, fix...)}
	found.fix.Advice = "find out first who put it there: what it did ends with it. One that only looks, such as a trigger that keeps a history, may stay: the check goes on to warn of it"
	return found, nil
}

// cut is a name as the server keeps it.
func cut(name string) string { return name[:min(len(name), 63)] }

// guardCounters looks for counters that would issue a fence again.
func guardCounters(ctx context.Context, e *exam, _ *side, tx pgx.Tx) (finding, error) {
	var saw []string
	var key string
	var counter, fence int64
	err := eachRow(ctx, tx, e.tableNames().SQL(guardBehindQuery), nil, []any{&key, &counter, &fence}, func() error {
		saw = append(saw, fmt.Sprintf("the counter of %q stands at %d, and its lock has %d", key, counter, fence))
		return nil
	})
	if err != nil {
		return finding{}, err
	}
	if len(saw) == 0 {
		return finding{OK, "every counter is at or above its lock", nil}, nil
	}
	found := finding{Fail, some(saw), command(guardForward)}
	found.fix.Advice = "an earlier export of counters or locks knows more than the rows that are left: give it with --from FILE"
	return found, nil
}

// guardHeadroom looks for counters near the end of the 15 digits.
func guardHeadroom(ctx context.Context, e *exam, _ *side, tx pgx.Tx) (finding, error) {
	var saw []string
	status := Warn
	var key string
	var counter int64
	err := eachRow(ctx, tx, e.tableNames().SQL(guardHighQuery), nil, []any{&key, &counter}, func() error {
		if counter >= int64(syncguard.MaxFence) {
			status = Fail
		}
		saw = append(saw, fmt.Sprintf("%s stands at %d of %d", key, counter, syncguard.MaxFence))
		return nil
	})
	if err != nil {
		return finding{}, err
	}
	if len(saw) == 0 {
		return finding{OK, fmt.Sprintf("none is above %d", syncguard.WarnFence), nil}, nil
	}
	return finding{status, some(saw), advice("move what it protects to another key, where fences begin at 1 again, and start its resource's own mark anew; no counter may be lowered")}, nil
}

// guardRows looks for rows that SyncGuard would not have written.
func guardRows(ctx context.Context, e *exam, _ *side, tx pgx.Tx) (finding, error) {
	var saw []string
	var counter, locks, counters bool
	var key, what string
	err := eachRow(ctx, tx, e.tableNames().SQL(guardOddQuery), nil, []any{&counter, &key, &what}, func() error {
		kind := "lock"
		if counter {
			kind = "counter"
		}
		locks, counters = locks || !counter, counters || counter
		saw = append(saw, fmt.Sprintf("%s %q: %s", kind, key, what))
		return nil
	})
	if err != nil {
		return finding{}, err
	}
	fix := []string{"find out who wrote it"}
	if locks {
		fix = append(fix, "once nobody relies on a lock, take it away by the hash of its lock id, which dlockctl lock show KEY prints: dlockctl revoke KEY --reason TEXT --lock-id-hash HASH")
	}
	if counters {
		fix = append(fix, "no fence is drawn from such a counter: DELETE it by hand once nobody else reads it")
	}
	if len(saw) == 0 {
		return finding{OK, "every row is as the library writes it", nil}, nil
	}
	return finding{Warn, some(saw), advice(strings.Join(fix, "; "))}, nil
}

// guardLapsed looks for rows that nobody will clear away.
func guardLapsed(ctx context.Context, e *exam, _ *side, tx pgx.Tx) (finding, error) {
	var lapsed int64
	if err := tx.QueryRow(ctx, e.tableNames().SQL(guardLapsedQuery)).Scan(&lapsed); err != nil {
		return finding{}, err
	}
	if lapsed > 0 {
		return finding{Warn, fmt.Sprintf("%d leases ended more than a day ago", lapsed), command(guardPrune)}, nil
	}
	return finding{OK, "nothing is left over", nil}, nil
}

// guardBlockers looks for transactions behind which the library waits without a bound.
// It ends none of their connections: which of them is the library's, whose whole
// program would end with it, no name that a connection gives itself can tell.
func guardBlockers(ctx context.Context, e *exam, s *side, tx pgx.Tx) (finding, error) {
	var saw, fix []string
	var pid, seconds, waiting int64
	var user, program, state, what string
	err := eachRow(ctx, tx, e.tableNames().SQL(guardBlockersQuery), nil, []any{&pid, &user, &program, &state, &seconds, &what, &waiting}, func() error {
		saw = append(saw, fmt.Sprintf("process %d (%s) has been %s for %s on %s; %d wait", pid, strings.TrimSpace(user+" "+program), state, time.Duration(seconds)*time.Second, what, waiting))
		if state == "active" { // to cancel what is idle does nothing
			fix = append(fix, fmt.Sprintf("SELECT pg_cancel_backend(%d)", pid))
		}
		return nil
	})
	switch {
	case err != nil:
		return finding{}, err
	case len(saw) == 0:
		return finding{OK, "none is older than five seconds", nil}, nil
	}
	found := finding{Warn, strings.Join(saw, "; "), advice("")}
	if len(fix) > 0 {
		found.fix = s.sql(Superuser, fix...)
	}
	found.fix.Advice = "find out what it does first. To cancel it rolls its work back; one that is idle in a transaction is ended from its own side, by who runs it. Never terminate its connection: where it is one of SyncGuard's, whatever name it goes by, the whole program can end with it"
	return found, nil
}

// guardAudited wants a place to record in, which is made on request only.
func guardAudited(ctx context.Context, _ *exam, _ *side, tx pgx.Tx) (finding, error) {
	var there, guarded bool
	if err := tx.QueryRow(ctx, guardAuditQuery, ident(syncguard.DefaultAuditTable)).Scan(&there, &guarded); err != nil {
		return finding{}, err
	}
	switch {
	case !there:
		return finding{Warn, "there is no table " + syncguard.DefaultAuditTable, command(guardAudit)}, nil
	case !guarded:
		return finding{Warn, "the trigger that refuses every change of it is missing, or not ENABLE ALWAYS", advice("the owner puts it back: the last statements of R__keep_audit.sql in migrations/audit/syncguard")}, nil
	}
	return finding{OK, "append-only", nil}, nil
}

// mostNamed bounds what one line names.
const mostNamed = 5

// some joins the first of many, and counts the rest.
func some(texts []string) string {
	text := strings.Join(texts[:min(len(texts), mostNamed)], "; ")
	if more := len(texts) - mostNamed; more > 0 {
		text += fmt.Sprintf("; and %d more", more)
	}
	return text
}

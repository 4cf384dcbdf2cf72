package restore_test

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/dlockctl/dlockctl/internal/instance/owner"
	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/restore"
)

// A sequence that repeats or reorders tokens, or cannot reach the target, and a
// guard that is off are refused before anything is closed, with the statement that
// helps, word for word.
//
// Clauses: K-1.5, K-1.1, K-7.4
// Mutation: drop the problems of the source, or the Max, from refuse.
func TestRefusedConfig(t *testing.T) {
	t.Parallel()
	onMajors(t, func(t *testing.T, w *world) {
		s := w.stores(t, how{})
		for _, tt := range []struct{ fault, says string }{
			{`ALTER SEQUENCE fencing_token_seq CACHE 20`, "CACHE 20"},
			{`ALTER SEQUENCE fencing_token_seq CYCLE`, "CYCLE"},
			{`ALTER SEQUENCE fencing_token_seq INCREMENT BY 2`, "INCREMENT 2"},
			{`ALTER SEQUENCE fencing_token_seq SET UNLOGGED`, "not logged"},
			{`ALTER SEQUENCE fencing_token_seq AS integer`, "integer"},
			{`ALTER SEQUENCE fencing_token_seq MAXVALUE 1000000`, "ends at 1000000"},
			{`ALTER TABLE lock_entry DISABLE TRIGGER lock_entry_gate`, "lock_entry_gate"},
		} {
			exec(t, w.lock, tt.fault)
			result := forward(t, s, options())
			if result.Outcome != restore.RefusedConfig || !strings.Contains(fmt.Sprint(result.Why), tt.says) || !result.GateOpen || len(result.Fixes) == 0 {
				t.Fatalf("%s: %s %q %q", tt.fault, result.Outcome, result.Why, result.Fixes)
			}
			exec(t, w.lock, "SET ROLE dlock_owner")
			for _, fix := range result.Fixes {
				_, sql, _ := strings.Cut(fix, ": ")
				exec(t, w.lock, sql)
			}
			exec(t, w.lock, "RESET ROLE")
			if plan, err := restore.Prepare(t.Context(), s, options()); err != nil || plan.Outcome != restore.Advanced {
				t.Fatalf("%s: after the fix: %s %q, %v", tt.fault, plan.Outcome, plan.Why, err)
			}
		}
	})
}

// A source that cannot be read is missing and never 0, whichever it is; only who
// names it goes on without it.
//
// Clauses: K-7.2
// Mutation: take a refused SELECT for an empty table in readSourceOf or (*Keeper).Evidence.
func TestRefusedEvidence(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 16)
	tables := map[string]string{
		"account.fence": "account", "rail_high_water.highest_token": "rail_high_water", "ledger_entry.fence": "ledger_entry",
		"payout.claim_token": "payout", "payout_claim.claim_token": "payout_claim", "rail_submission.presented_token": "rail_submission",
		"account_fence_raise.raised_to": "account_fence_raise", "fence_floor.account": "fence_floor",
		"lock_entry.fencing_token": "lock_entry", "lock_grant.fencing_token": "lock_grant", "lock_revocation.prev_token": "lock_revocation",
		"operator_log.token": "operator_log",
	}
	s := w.stores(t, how{})
	for source, table := range tables {
		conn := w.pay
		if strings.HasPrefix(table, "lock_") || table == "operator_log" {
			conn = w.lock
		}
		exec(t, conn, fmt.Sprintf("REVOKE SELECT ON %s FROM dlock_auditor, dlock_operator, dlock_owner", table))
		plan, err := restore.Prepare(t.Context(), s, options())
		exec(t, conn, fmt.Sprintf("GRANT SELECT ON %s TO dlock_operator", table))
		switch {
		case table == "lock_entry" || table == "operator_log" || table == "fence_floor":
			// The plan reads them for more than their tokens: it cannot be made.
			if err == nil && plan.Outcome != restore.RefusedEvidence {
				t.Errorf("%s: %s", source, plan.Outcome)
			}
		case err != nil:
			t.Errorf("%s: %v", source, err)
		case plan.Outcome != restore.RefusedEvidence || !slices.Contains(plan.Missing, source):
			t.Errorf("%s: %s, missing %q", source, plan.Outcome, plan.Missing)
		}
	}
	exec(t, w.lock, "REVOKE SELECT ON SEQUENCE fencing_token_seq FROM dlock_operator, dlock_owner")
	if plan, err := restore.Prepare(t.Context(), s, options()); err == nil {
		t.Errorf("a sequence that cannot be read: %+v", plan)
	}
}

// What is accepted, and what is not configured, refuses nothing; a mark that
// lockdb says is kept is missing when nobody says where, and so is a lost one.
//
// Clauses: K-7.2, K-7.6
// Mutation: drop Kept from markEvidence.
func TestMissingSources(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 16)
	accept := func(sources ...string) restore.Options {
		opts := options()
		opts.AcceptMissing = sources
		return opts
	}
	for _, tt := range []struct {
		name string
		how  how
		opts restore.Options
		want restore.Outcome
	}{
		{"paydb is down", how{noPay: true}, options(), restore.RefusedEvidence},
		{"some of paydb accepted", how{noPay: true}, accept("account.fence"), restore.RefusedEvidence},
		{"paydb accepted", how{noPay: true}, accept("paydb"), restore.Advanced},
		{"the mark's folder is not configured", how{noMark: true}, options(), restore.RefusedEvidence},
		{"the mark accepted", how{noMark: true}, accept("outside_mark"), restore.Advanced},
		{"all there", how{}, options(), restore.Advanced},
	} {
		if plan, err := restore.Prepare(t.Context(), w.stores(t, tt.how), tt.opts); err != nil || plan.Outcome != tt.want {
			t.Errorf("%s: %s %q, %v", tt.name, plan.Outcome, plan.Why, err)
		}
	}
	s := w.stores(t, how{noPay: true})
	s.PayProblem, s.NoPayments = nil, true
	s.OldProblem = errors.New("no route to host")
	if plan, err := restore.Prepare(t.Context(), s, options()); err != nil || !slices.Equal(plan.Missing, []string{"old_primary"}) {
		t.Errorf("no payments, an old primary that does not answer: missing %q, %v", plan.Missing, err)
	}
	if _, err := restore.Prepare(t.Context(), s, accept("everything")); !errors.Is(err, lockstore.ErrInvalid) {
		t.Errorf("an unknown source: %v", err)
	}
	exec(t, w.lock, `UPDATE outside_mark SET kept = false, kept_since = NULL`)
	if plan, err := restore.Prepare(t.Context(), w.stores(t, how{noMark: true}), options()); err != nil || plan.Outcome != restore.Advanced {
		t.Errorf("no mark kept: %s %q, %v", plan.Outcome, plan.Why, err)
	}
}

// Who may write locks may write audit rows with any token: without a grant in the
// journal they are no evidence, and the plan says so. A number above 2^53 refuses,
// until an operator vouches that none that high was issued; one that leaves no room
// does too.
//
// Clauses: K-1.6, K-7.2
// Mutation: drop the EXISTS of rewind_evidence_revocation.sql, or forged from assess.
func TestForgedEvidence(t *testing.T) {
	t.Parallel()
	onMajors(t, func(t *testing.T, w *world) {
		last := hold(t, w.grantor(t), "a").Token
		lockapp := w.dbs.Lock.Conn(t, "t_lockapp")
		exec(t, lockapp, `INSERT INTO lock_revocation (lock_key, prev_owner, prev_token, operator, reason) VALUES ('a', 'x', 9007199254740991, 'erin', 'forged')`)
		s := w.stores(t, how{})
		plan, err := restore.Prepare(t.Context(), s, options())
		if err != nil || plan.Outcome != restore.Advanced || plan.Observed != last || !strings.Contains(note(plan, "lock_revocation.prev_token"), "9007199254740991") {
			t.Fatalf("a forged audit row: %s, observed %d, note %q, %v", plan.Outcome, plan.Observed, note(plan, "lock_revocation.prev_token"), err)
		}

		vouch := options()
		vouch.NoTokenAbove = 1_000_000
		for _, tt := range []struct {
			name, forge string
			want        restore.Outcome
		}{
			{"above 2^53", `ALTER TABLE account DROP CONSTRAINT account_fence_bound_ck; UPDATE account SET fence = 9223372036854775807 WHERE account_id = (SELECT account_id FROM account EXCEPT SELECT account_id FROM clearing_account LIMIT 1)`, restore.RefusedEvidence},
			{"no room", `ALTER TABLE account DISABLE TRIGGER ALL; UPDATE account SET fence = 9007199254740000 WHERE fence > 0`, restore.RefusedConfig},
		} {
			if _, err := w.pay.PgConn().Exec(t.Context(), tt.forge).ReadAll(); err != nil {
				t.Fatal(err)
			}
			if plan, err := restore.Prepare(t.Context(), s, options()); err != nil || plan.Outcome != tt.want || !strings.Contains(fmt.Sprint(plan.Why), "account.fence") {
				t.Errorf("%s: %s %q, %v", tt.name, plan.Outcome, plan.Why, err)
			}
			if plan, err := restore.Prepare(t.Context(), s, vouch); err != nil || plan.Outcome != restore.Advanced || plan.Observed != last || note(plan, "account.fence") == "" {
				t.Errorf("%s, vouched: %s %q observed %d, %v", tt.name, plan.Outcome, plan.Why, plan.Observed, err)
			}
		}
		vouch.Observed = 2_000_000
		if _, err := restore.Prepare(t.Context(), s, vouch); !errors.Is(err, lockstore.ErrInvalid) {
			t.Errorf("observed above what nobody was issued: %v", err)
		}
	})
}

func note(plan restore.Plan, source string) string {
	for _, e := range plan.Evidence {
		if e.Source == source {
			return e.Note
		}
	}
	return ""
}

// An open transaction that used the sequence is named, by the process or, when it
// was prepared, by its name, and lockdb stays shut; --terminate ends the one and
// cannot end the other. Then the rerun completes.
//
// Clauses: K-7.4, K-2.11
// Mutation: drop the watch of owner.Conn, or its terminate.
func TestLockTimeout(t *testing.T) {
	t.Parallel()
	onMajors(t, func(t *testing.T, w *world) {
		for _, tt := range []struct {
			name, sql string
			step      restore.Step
		}{
			{"a grant that has not ended", `INSERT INTO lock_session (session_id, owner_id, expires_at) VALUES ('10000000-0000-4000-8000-00000000000a', 'x', now() + interval '1 hour');
				INSERT INTO lock_entry (lock_key, owner_id, session_id, fencing_token, expires_at) VALUES ('k', 'x', '10000000-0000-4000-8000-00000000000a', 1, now() + interval '1 hour')`, restore.StepBarrier},
			{"a bare nextval", `SELECT nextval('fencing_token_seq')`, restore.StepAdvance},
			{"a heartbeat that has not ended", `UPDATE lock_session SET expires_at = expires_at + interval '1 s'`, restore.StepAdvance},
			{"a posting that has not ended", ``, restore.StepBarrierAccount},
		} {
			hold(t, w.grantor(t), "held")
			db := w.dbs.Lock
			if tt.step == restore.StepBarrierAccount {
				db, tt.sql = w.dbs.Pay, `UPDATE account SET updated_at = now()`
			}
			holder, pid := openTransaction(t, db.Conn(t, "super"), tt.sql)
			result := forward(t, w.stores(t, how{timeout: naming}), options())
			if result.Outcome != restore.LockTimeout || result.Step != tt.step || result.GateOpen || len(result.Blockers) != 1 || result.Blockers[0].PID != pid {
				t.Fatalf("%s: %s at %s, open %v, blockers %v of %d", tt.name, result.Outcome, result.Step, result.GateOpen, result.Blockers, pid)
			}
			if err := tryGrant(t, w.grantor(t)); !isClosed(err) {
				t.Errorf("%s: a grant was answered %v", tt.name, err)
			}
			if tt.step == restore.StepAdvance && strings.Contains(tt.sql, "nextval") {
				if plan, err := restore.Prepare(t.Context(), w.stores(t, how{}), options()); err != nil || len(plan.Traffic.Holding) != 1 || plan.Traffic.Holding[0].PID != pid {
					t.Errorf("%s: who holds the sequence: %+v, %v", tt.name, plan.Traffic.Holding, err)
				}
			}
			ended := forward(t, w.stores(t, how{timeout: time.Second, terminate: true, login: "super"}), options())
			if ended.Outcome != restore.Advanced || !ended.GateOpen {
				t.Fatalf("%s: terminate: %+v", tt.name, ended)
			}
			if err := holder.Ping(t.Context()); err == nil {
				t.Errorf("%s: its process lives", tt.name)
			}
		}
	})
}

func openTransaction(t *testing.T, conn *pgx.Conn, sql string) (*pgx.Conn, int32) {
	t.Helper()
	if _, err := conn.PgConn().Exec(t.Context(), "BEGIN; "+sql).ReadAll(); err != nil {
		t.Fatal(err)
	}
	return conn, int32(conn.PgConn().PID())
}

// A role that may only read makes the plan and is told what it lacks to carry it
// out; so is one that may end nobody.
//
// Clauses: K-12.1, K-7.4
// Mutation: drop Rights from Prepare, the Denied case of terminate, or the schema from
// strangers.
func TestRights(t *testing.T) {
	t.Parallel()
	onMajors(t, func(t *testing.T, w *world) {
		auditor := w.stores(t, how{login: "t_auditor"})
		plan, err := restore.Prepare(t.Context(), auditor, options())
		if err != nil || plan.Outcome != restore.Advanced || len(plan.Missing) != 0 || !strings.Contains(fmt.Sprint(plan.Rights), `lockdb: GRANT dlock_operator TO "t_auditor"`) {
			t.Fatalf("the auditor's plan: %s, missing %q, rights %q, %v", plan.Outcome, plan.Missing, plan.Rights, err)
		}
		_, err = restore.FastForward(t.Context(), auditor, options())
		if rights, ok := errors.AsType[*owner.RightsError](err); !ok || len(rights.Missing) != 2 {
			t.Errorf("the auditor's fast-forward: %v", err)
		}
		exec(t, w.lock, `ALTER SEQUENCE fencing_token_seq OWNER TO CURRENT_USER; GRANT SELECT ON SEQUENCE fencing_token_seq TO dlock_operator`)
		plan, err = restore.Prepare(t.Context(), w.stores(t, how{}), options())
		if err != nil || !slices.Equal(plan.Rights, []string{"lockdb: ALTER SEQUENCE fencing_token_seq OWNER TO dlock_owner"}) {
			t.Errorf("a sequence of somebody else's: %q, %v", plan.Rights, err)
		}
		exec(t, w.lock, `ALTER SEQUENCE fencing_token_seq OWNER TO dlock_owner`)
		database := `ALTER DATABASE ` + w.dbs.Lock.Name + ` OWNER TO `
		exec(t, w.lock, database+`CURRENT_USER`)
		exec(t, w.lock, `REVOKE CREATE ON SCHEMA public FROM dlock_owner`)
		plan, err = restore.Prepare(t.Context(), w.stores(t, how{}), options())
		if err != nil || !slices.Equal(plan.Rights, []string{"lockdb: " + database + "dlock_owner"}) {
			t.Errorf("a database of somebody else's: %q, %v", plan.Rights, err)
		}
		exec(t, w.lock, database+`dlock_owner`)

		openTransaction(t, w.dbs.Lock.Conn(t, "super"), `SELECT nextval('fencing_token_seq')`)
		_, err = restore.FastForward(t.Context(), w.stores(t, how{timeout: time.Second, terminate: true}), options())
		if rights, ok := errors.AsType[*owner.RightsError](err); !ok || !strings.Contains(fmt.Sprint(rights.Missing), "pg_signal_backend") {
			t.Errorf("ending a superuser's process: %v", err)
		}
	})
}

// A plan file is carried out as long as the world stands where it stood; one that
// was edited, and one that anything has moved under, is refused, and says where.
//
// Clauses: K-7.4
// Mutation: leave Evidence out of the fingerprint.
func TestPlanFile(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 16)
	store := w.grantor(t)
	hold(t, store, "a")
	w.rewound(t, 5)
	s := w.stores(t, how{})
	plan, err := restore.Prepare(t.Context(), s, options())
	if err != nil {
		t.Fatal(err)
	}
	var file bytes.Buffer
	if err := plan.Write(&file); err != nil {
		t.Fatal(err)
	}
	edited := strings.Replace(file.String(), fmt.Sprintf(`"target": %d`, plan.Target), `"target": 100`, 1)
	if _, err := restore.ReadPlan(strings.NewReader(edited)); !isPlanFile(err) {
		t.Errorf("an edited plan: %v", err)
	}
	if _, err := restore.ReadPlan(strings.NewReader("{")); !isPlanFile(err) {
		t.Errorf("no plan: %v", err)
	}
	for _, twin := range []string{fmt.Sprintf(`"target_str": "%d"`, plan.Target), fmt.Sprintf(`"system_identifier_str": "%d"`, plan.Identity.SystemIdentifier)} {
		if !strings.Contains(file.String(), twin) {
			t.Errorf("the plan has no %s", twin)
		}
	}
	read, err := restore.ReadPlan(&file)
	if err != nil {
		t.Fatal(err)
	}
	opts := options()
	opts.Plan = &read
	for _, tt := range []struct{ name, move string }{
		// Below the highest: the target stays, and still the world has moved.
		{"rail_high_water.highest_token", `INSERT INTO rail_high_water (account_id, highest_token) VALUES (` + anyAccount + `, 1)`},
		{"account.fence", `UPDATE account SET fence = fence + 500 WHERE account_id = ` + anyAccount},
	} {
		exec(t, w.pay, tt.move)
		_, err := restore.FastForward(t.Context(), s, opts)
		if stale, ok := errors.AsType[*restore.StalePlanError](err); !ok || !strings.Contains(fmt.Sprint(stale.Moved), tt.name) {
			t.Errorf("%s moved: %v", tt.name, err)
		}
	}
	if plan, err = restore.Prepare(t.Context(), s, options()); err != nil {
		t.Fatal(err)
	}
	opts.Plan = &plan
	if result := forward(t, s, opts); result.Outcome != restore.Advanced || result.To != plan.Target {
		t.Errorf("the plan's fast-forward: %+v", result)
	}
	if got := one[string](t, w.lock, `SELECT details->>'plan' FROM operator_log WHERE action = 'fast_forward'`); got != plan.Fingerprint {
		t.Errorf("the record's plan is %q", got)
	}
	if _, err := restore.FastForward(t.Context(), s, opts); err == nil {
		t.Error("a plan was carried out twice")
	}
}

func isPlanFile(err error) bool {
	_, ok := errors.AsType[*restore.PlanFileError](err)
	return ok
}

// Somebody who draws tokens past the closed gate is refused by name of what he
// does, while lockdb stays shut; once he has stopped, the rerun completes.
//
// Clauses: K-7.4
// Mutation: drop the comparison with still from decide.
func TestDrawsPastTheGate(t *testing.T) {
	t.Parallel()
	onMajors(t, func(t *testing.T, w *world) {
		s, opts := w.stores(t, how{}), options()
		opts.Progress = func(step restore.Step) {
			if step == restore.StepAdvance {
				exec(t, w.lock, `SELECT nextval('fencing_token_seq')`)
			}
		}
		result := forward(t, s, opts)
		if result.Outcome != restore.RefusedTraffic || result.Step != restore.StepAdvance || result.GateOpen || len(result.Fixes) == 0 {
			t.Errorf("a draw past the gate: %+v", result)
		}
		if err := tryGrant(t, w.grantor(t)); !isClosed(err) {
			t.Errorf("a grant was answered %v", err)
		}
		if result := forward(t, s, options()); result.Outcome != restore.Advanced || !result.GateOpen {
			t.Errorf("the rerun: %+v", result)
		}
	})
}

// What an operator says is refused by name before anything is looked at, and a
// fast-forward without a reason too.
func TestOptionsAreRefused(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*restore.Options){
		"reason":       func(o *restore.Options) { o.Reason = " " },
		"operator":     func(o *restore.Options) { o.Operator = "" },
		"margin":       func(o *restore.Options) { o.Margin = -1 },
		"2^53":         func(o *restore.Options) { o.Observed = lockstore.MaxToken + 1 },
		"no source":    func(o *restore.Options) { o.AcceptMissing = []string{"account"} },
		"one of the t": func(o *restore.Options) { o.Observed, o.NoTokenAbove = 10, 5 },
	} {
		opts := options()
		change(&opts)
		_, err := restore.FastForward(t.Context(), restore.Stores{}, opts)
		if !errors.Is(err, lockstore.ErrInvalid) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

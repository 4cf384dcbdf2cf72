package doctor_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/spf13/cobra"

	"github.com/dlockctl/dlockctl/internal/cli"
	"github.com/dlockctl/dlockctl/internal/cli/app"
	"github.com/dlockctl/dlockctl/internal/doctor"
	"github.com/dlockctl/dlockctl/internal/pgtest"
	"github.com/dlockctl/dlockctl/internal/ui"
)

// patient is a healthy pair of databases, and what a fault does to it.
type patient struct {
	dbs    pgtest.Databases
	target doctor.Target
}

func newPatient(t *testing.T) *patient {
	t.Helper()
	p := &patient{dbs: pgtest.Migrated(t, 16)}
	p.exec(t, p.dbs.Lock, "ALTER ROLE t_lockapp IN DATABASE "+quoted(p.dbs.Lock)+" SET idle_in_transaction_session_timeout = '30s'")
	p.target = doctor.Target{Lock: p.dbs.Lock.Config(t, "t_auditor"), Pay: p.dbs.Pay.Config(t, "t_auditor")}
	return p
}

func quoted(db pgtest.DB) string { return pgx.Identifier{db.Name}.Sanitize() }

func (p *patient) db(database string) pgtest.DB {
	if database == doctor.PayDB {
		return p.dbs.Pay
	}
	return p.dbs.Lock
}

// exec runs statements as a superuser.
func (p *patient) exec(t *testing.T, db pgtest.DB, sql string) {
	t.Helper()
	conn := db.Conn(t, "super")
	defer conn.Close(t.Context())
	if _, err := conn.PgConn().Exec(t.Context(), sql).ReadAll(); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

// notOK examines the patient and returns what is not ok.
func (p *patient) notOK(t *testing.T) map[string]doctor.Result {
	t.Helper()
	report, err := doctor.Run(t.Context(), p.target)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]doctor.Result{}
	for _, r := range report.Results {
		if r.Status != doctor.OK {
			found[r.ID] = r
		}
	}
	return found
}

func statuses(found map[string]doctor.Result) map[string]doctor.Status {
	s := map[string]doctor.Status{}
	for id, r := range found {
		s[id] = r.Status
	}
	return s
}

func said(found map[string]doctor.Result) string {
	var b strings.Builder
	for id, r := range found {
		fmt.Fprintf(&b, "%s %s: %s\n", id, r.Status, r.Saw)
	}
	return b.String()
}

// dlockctl runs the program on the patient's databases.
func (p *patient) dlockctl(t *testing.T, args ...string) (exit app.Exit, out, errOut string) {
	t.Helper()
	login := "t_owner"
	if args[1] == "roles" {
		login = "super"
	}
	streams, stdout, stderr := ui.Test("", map[string]string{
		"DLOCKCTL_LOCK_DSN": p.dbs.Lock.DSN(login), "DLOCKCTL_PAY_DSN": p.dbs.Pay.DSN(login), "DLOCKCTL_SEED": "true",
	})
	exit = cli.Run(t.Context(), app.New(streams, args), args)
	return exit, stdout.String(), stderr.String()
}

const restorePlan = "dlockctl restore plan"

// follow is the command to run at last: restore plan changes nothing, and names
// what does.
func (p *patient) follow(t *testing.T, fix *doctor.Fix) string {
	t.Helper()
	if fix.Run != restorePlan {
		return fix.Run
	}
	_, out, errOut := p.dlockctl(t, "restore", "plan", "-o", "json")
	var plan struct{ Signs []struct{ Command string } }
	if err := json.Unmarshal([]byte(out), &plan); err != nil || len(plan.Signs) == 0 {
		t.Fatalf("%s names no sign: %v\n%s%s", restorePlan, err, out, errOut)
	}
	return plan.Signs[0].Command
}

// run carries a fix out, word for word, as whom and where it says.
func (p *patient) run(t *testing.T, fix *doctor.Fix) {
	t.Helper()
	if fix.On != doctor.Shell {
		sql := fix.Run
		if fix.As != doctor.Superuser {
			sql = "SET ROLE " + fix.As + ";" + sql
		}
		p.exec(t, p.db(fix.On), sql)
		return
	}
	command := p.follow(t, fix)
	args := strings.Fields(strings.TrimPrefix(command, "dlockctl "))
	if slices.Contains([]string{"repair", "fast-forward", "paydb"}, args[1]) {
		args = append(args, "--yes") // there is no terminal to be asked on
	}
	if exit, out, errOut := p.dlockctl(t, args...); exit != app.OK {
		t.Fatalf("%s: exit %d\n%s%s", command, exit, out, errOut)
	}
}

// isVerb tells whether the program has the command of a fix.
func isVerb(text string) bool {
	streams, _, _ := ui.Test("", nil)
	words := strings.Fields(text)[1:]
	found, rest, err := cli.NewRoot(app.New(streams, nil)).Find(words)
	if err != nil || !found.HasParent() || isGroup(found) {
		return false
	}
	return !slices.ContainsFunc(rest, func(word string) bool {
		flag, isFlag := strings.CutPrefix(word, "--")
		return isFlag && found.Flags().Lookup(flag) == nil
	})
}

func isGroup(cmd *cobra.Command) bool { return cmd.HasSubCommands() }

// fault is one thing that goes wrong, and the check that must find it.
type fault struct {
	check string
	// sql plants it, as a superuser, on the check's database. {db} is its name.
	sql string
	// plant is for what SQL cannot do; it returns what undoes it, if the fix is
	// not something to run.
	plant func(t *testing.T, p *patient) (cure func(t *testing.T))
	// cure undoes a fault whose fix is advice, or a verb that comes later: what
	// the person would do who follows it.
	cure string
	// warn: the check warns instead of failing.
	warn bool
	// saw is a part of what the check must have seen, like a pattern in its place: two
	// clocks are never read at once.
	saw, like string
	// also are the checks that cannot be ok while the fault stands.
	also map[string]doctor.Status
}

func (f fault) database() string {
	database, _, _ := strings.Cut(f.check, "_")
	return database
}

// suffer plants the fault, wants exactly its check to find it, runs the fix, and
// wants the patient well.
func (p *patient) suffer(t *testing.T, f fault) {
	t.Helper()
	var undo func(*testing.T)
	if f.plant != nil {
		undo = f.plant(t, p)
	}
	if f.sql != "" {
		p.exec(t, p.db(f.database()), p.fill(f, f.sql))
	}
	want := map[string]doctor.Status{f.check: doctor.Fail}
	if f.warn {
		want[f.check] = doctor.Warn
	}
	maps.Copy(want, f.also)
	found := p.notOK(t)
	if diff := cmp.Diff(want, statuses(found)); diff != "" {
		t.Fatalf("checks that are not ok (-want +got):\n%s%s", diff, said(found))
	}
	r := found[f.check]
	if !strings.Contains(r.Saw, f.saw) || !regexp.MustCompile(f.like).MatchString(r.Saw) {
		t.Errorf("saw %q, want %q in it, or what is like %q", r.Saw, f.saw, f.like)
	}
	p.cure(t, f, r, undo)
	getsWell(t, r.Fix, p.notOK)
}

// getsWell waits until nothing is found any more: a session that was ended is gone a
// moment later.
func getsWell(t *testing.T, fix *doctor.Fix, notOK func(*testing.T) map[string]doctor.Result) {
	t.Helper()
	var found map[string]doctor.Result
	defer func() {
		if t.Failed() {
			t.Logf("after the fix %+v:\n%s", fix, said(found))
		}
	}()
	pgtest.Eventually(t, "nothing is found after the fix", func(context.Context) (bool, error) {
		found = notOK(t)
		return len(found) == 0, nil
	})
}

func (p *patient) cure(t *testing.T, f fault, r doctor.Result, undo func(*testing.T)) {
	t.Helper()
	byHand := undo != nil || f.cure != ""
	command := ""
	if r.Fix != nil && r.Fix.On == doctor.Shell {
		command = p.follow(t, r.Fix)
	}
	switch {
	case r.Fix == nil:
		t.Fatalf("%s has no fix", f.check)
	case r.Fix.Run == "" && (r.Fix.Advice == "" || !byHand):
		t.Fatalf("the fix of %s is %+v, and nothing follows it", f.check, r.Fix)
	case command != "" && !isVerb(command):
		t.Fatalf("%s is no command of this program", command)
	case r.Fix.Run != "":
		if byHand {
			t.Fatalf("%s has the fix %q: run it, instead of curing it by hand", f.check, r.Fix.Run)
		}
		p.run(t, r.Fix)
		return
	}
	if undo != nil {
		undo(t)
	}
	if f.cure != "" {
		p.exec(t, p.db(f.database()), p.fill(f, f.cure))
	}
}

func (p *patient) fill(f fault, sql string) string {
	return strings.ReplaceAll(sql, "{db}", quoted(p.db(f.database())))
}

package doctor_test

import (
	"encoding/json"
	"net"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"

	"github.com/dlockctl/dlockctl/internal/cli/app"
	verb "github.com/dlockctl/dlockctl/internal/cli/doctor"
	"github.com/dlockctl/dlockctl/internal/doctor"
	"github.com/dlockctl/dlockctl/internal/ui"
)

// examine runs the verb on the databases of an environment.
func examine(t *testing.T, env map[string]string, args ...string) (exit app.Exit, out, errOut string) {
	t.Helper()
	streams, stdout, stderr := ui.Test("", env)
	a := app.New(streams, args)
	defer a.Close()
	root := &cobra.Command{Use: "dlockctl", SilenceErrors: true, SilenceUsage: true, PersistentPreRun: func(cmd *cobra.Command, _ []string) { a.Use(cmd) }}
	a.GlobalFlags(root.PersistentFlags())
	root.AddCommand(verb.New(a))
	root.SetArgs(append([]string{"doctor"}, args...))
	if err := root.ExecuteContext(t.Context()); err != nil {
		exit = a.Report(err)
	}
	return exit, stdout.String(), stderr.String()
}

func (p *patient) env(t *testing.T, login string) map[string]string {
	t.Helper()
	return map[string]string{"DLOCKCTL_LOCK_DSN": p.dbs.Lock.DSN(login), "DLOCKCTL_PAY_DSN": p.dbs.Pay.DSN(login), "DLOCKCTL_STATE_DIR": t.TempDir()}
}

// A person sees the worst first, with its meaning and its fix; a script sees the
// exit code it asked for, and the same report as JSON.
//
// Clauses: K-1.1
// Mutation: drop a case of runDoctor, or sort the results by id.
func TestDoctorTellsWhatFails(t *testing.T) {
	t.Parallel()
	p := newPatient(t)
	env := p.env(t, "t_auditor")
	exit, out, errOut := examine(t, env, "--exit-code")
	if exit != app.OK || !strings.HasSuffix(errOut, " ok\n") || strings.Contains(out, "fix") {
		t.Errorf("healthy: exit %d\n%s%s", exit, out, errOut)
	}
	p.exec(t, p.dbs.Lock, `ALTER TABLE lock_entry DISABLE TRIGGER lock_entry_order; ALTER DATABASE `+quoted(p.dbs.Lock)+` SET synchronous_commit = 'off'`)
	if exit, out, errOut = examine(t, env); exit != app.OK {
		t.Errorf("without --exit-code: exit %d\n%s%s", exit, out, errOut)
	}
	for _, want := range []string{
		"fail    lockdb    every guard trigger is in place and fires always",
		"\nfail  lockdb_guards (critical, K-1.1)\n    saw    lock_entry_order on lock_entry is disabled\n",
		"    fix    on lockdb, as dlock_owner:\n           ALTER TABLE lock_entry ENABLE ALWAYS TRIGGER lock_entry_order\n",
		"\nwarn  lockdb_synchronous_commit (medium, K-1.4)\n",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	lines := strings.Split(out, "\n")
	if !strings.HasPrefix(lines[1], "fail ") || !strings.HasPrefix(lines[2], "warn ") || !strings.HasPrefix(lines[3], "ok ") {
		t.Errorf("the worst does not come first:\n%s", out)
	}
	exit, out, errOut = examine(t, env, "--exit-code", "-o", "json")
	var report doctor.Report
	var problem struct {
		Code string `json:"code"`
	}
	if err := json.Unmarshal([]byte(out), &report); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(errOut), &problem); err != nil {
		t.Fatal(err)
	}
	if exit != app.Findings || problem.Code != "findings" || report.Fail != 1 || report.Warn != 1 || report.Results[0].ID != "lockdb_guards" || !report.Complete {
		t.Errorf("exit %d, code %s, %+v", exit, problem.Code, report)
	}
	if _, out, _ = examine(t, env, "-o", "name"); !strings.HasPrefix(out, "lockdb_guards\nlockdb_synchronous_commit\n") {
		t.Errorf("-o name: %s", out)
	}
}

// Unknown is never ok: 11 for a script when one database is missing, 8 for
// everybody when nothing could be read; no secret is shown.
//
// Clauses: K-6.1
// Mutation: drop the Complete or the Reached case of runDoctor.
func TestDoctorWithoutADatabase(t *testing.T) {
	t.Parallel()
	p := newPatient(t)
	one := p.env(t, "t_auditor")
	delete(one, "DLOCKCTL_PAY_DSN")
	const secret = "hunter2-planted"
	closed := map[string]string{"DLOCKCTL_LOCK_DSN": "postgres://u:" + secret + "@127.0.0.1:1/lockdb", "DLOCKCTL_STATE_DIR": t.TempDir()}
	// It takes connections, and says nothing.
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	silent := map[string]string{"DLOCKCTL_LOCK_DSN": "postgres://u:" + secret + "@" + listener.Addr().String() + "/lockdb", "DLOCKCTL_STATE_DIR": t.TempDir()}
	for _, tt := range []struct {
		name string
		env  map[string]string
		args []string
		exit app.Exit
		says []string
	}{
		{"one", one, nil, app.OK, []string{"paydb is not configured", "DLOCKCTL_PAY_DSN"}},
		{"one, for a script", one, []string{"--exit-code"}, app.Incomplete, []string{"nothing failed", "could not be made"}},
		{"closed", closed, nil, app.Unreachable, []string{"connection refused", "neither database could be read"}},
		{"none", map[string]string{"DLOCKCTL_STATE_DIR": t.TempDir()}, nil, app.Unreachable, []string{"lockdb is not configured", "dlockctl dev up"}},
		{"malformed", map[string]string{"DLOCKCTL_LOCK_DSN": "postgres://u:" + secret + "@[::1/x"}, nil, app.Usage, []string{"malformed"}},
		{"an argument", one, []string{"lockdb"}, app.Usage, []string{`takes no argument "lockdb"`}},
		{"silent", silent, []string{"--timeout", "1s"}, app.Unreachable, []string{"gave up after 1s"}},
	} {
		exit, out, errOut := examine(t, tt.env, tt.args...)
		if exit != tt.exit {
			t.Errorf("%s: exit %d, want %d\n%s%s", tt.name, exit, tt.exit, out, errOut)
		}
		for _, want := range tt.says {
			if !strings.Contains(out+errOut, want) {
				t.Errorf("%s: no %q in\n%s%s", tt.name, want, out, errOut)
			}
		}
		if strings.Contains(out+errOut, secret) {
			t.Errorf("%s shows the secret:\n%s%s", tt.name, out, errOut)
		}
	}
}

// What stands in a database is shown, and does nothing to the terminal.
func TestHostileTextIsVisible(t *testing.T) {
	t.Parallel()
	p := newPatient(t)
	p.exec(t, p.dbs.Lock, `UPDATE lock_gate SET closed_by = E'\x1b[2Jerin', closed_at = now(), closed_reason = E'one\ntwo'`)
	for _, format := range []string{"table", "json"} {
		_, out, errOut := examine(t, p.env(t, "t_auditor"), "-o", format)
		if strings.ContainsRune(out+errOut, '\x1b') || strings.Contains(out, "one\ntwo") || !strings.Contains(out, "erin") {
			t.Errorf("-o %s: %q", format, out)
		}
	}
}

// The page and the JSON have the same ids.
func TestJSONHasEveryCheck(t *testing.T) {
	t.Parallel()
	_, out, _ := examine(t, map[string]string{"DLOCKCTL_STATE_DIR": t.TempDir()}, "-o", "json")
	var report doctor.Report
	if err := json.Unmarshal([]byte(out), &report); err != nil {
		t.Fatal(err)
	}
	var got, want []string
	for _, r := range report.Results {
		got = append(got, r.ID)
	}
	for _, c := range doctor.Checks() {
		want = append(want, c.ID)
	}
	slices.Sort(got)
	slices.Sort(want)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

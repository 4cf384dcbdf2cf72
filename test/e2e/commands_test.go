package e2e_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/dlockctl/dlockctl/internal/pgtest"
)

// commands are what a script may call beside testscript's own.
//
//	exits CODE PROGRAM ARG…       runs it and wants this very exit code; no output may show a password
//	problem [-data] CODE          stderr is one JSON error of this code, stdout is empty (or not, with -data)
//	json FIELD REGEXP             the field of the JSON on stdout matches as a whole; [! json FIELD]: it is absent
//	setjson VARIABLE FIELD        keeps the field in an environment variable
//	[!] sql lock|pay STATEMENT    runs it as superuser; rows go to stdout as psql -At prints them, an error to stderr;
//	                              by its DSN file on an embedded database
//	lapse KEY|SESSION             ends the lease now, by lockdb's clock, with all that hangs on the same session
//	signals NAME CODE WHERE WHEN PROGRAM ARG…
//	                              runs it, sends it INT or TERM once WHEN comes about, and wants this very exit code;
//	                              WHERE is stdout or stderr and WHEN a regexp, or WHERE is lock or pay and WHEN a condition
//	                              in SQL, in which newcomer is pg_stat_activity of who has connected since
//	login [lock|pay|rail] ROLE    goes on as another of pgtest's logins; without a database in both, rail being paydb's
//	emptydb                       goes on with two empty databases
//	rail [broken|KEY OUTCOME [REFERENCE]]  gives the script a payment rail, out of order or with this in its record
//	payments N                    the rail was asked to pay so often
//	statedir                      goes on with the embedded default, in a folder of the script's own
//
// A FIELD is a path such as 0.token; count is the number of elements of a list.
func commands() map[string]func(*testscript.TestScript, bool, []string) {
	positive := map[string]struct {
		usage string
		run   func(ts *testscript.TestScript, s *stage, args []string)
		args  func(n int) bool
	}{
		"exits":    {"exits CODE PROGRAM ARG…", runExits, func(n int) bool { return n >= 2 }},
		"problem":  {"problem [-data] CODE", runProblem, func(n int) bool { return n == 1 || n == 2 }},
		"setjson":  {"setjson VARIABLE FIELD", runSetJSON, func(n int) bool { return n == 2 }},
		"lapse":    {"lapse KEY|SESSION", runLapse, func(n int) bool { return n == 1 }},
		"signals":  {"signals NAME CODE WHERE WHEN PROGRAM ARG…", runSignals, func(n int) bool { return n >= 5 }},
		"login":    {"login [lock|pay|rail] ROLE", runLogin, func(n int) bool { return n == 1 || n == 2 }},
		"emptydb":  {"emptydb", runEmptyDB, func(n int) bool { return n == 0 }},
		"rail":     {"rail [broken|KEY OUTCOME [REFERENCE]]", runRail, func(n int) bool { return n <= 3 }},
		"payments": {"payments N", runPayments, func(n int) bool { return n == 1 }},
		"statedir": {"statedir", runStateDir, func(n int) bool { return n == 0 }},
	}
	all := map[string]func(*testscript.TestScript, bool, []string){"json": runJSON, "sql": runSQL}
	for name, cmd := range positive {
		all[name] = func(ts *testscript.TestScript, neg bool, args []string) {
			if neg || !cmd.args(len(args)) {
				ts.Fatalf("usage: %s", cmd.usage)
			}
			cmd.run(ts, stageOf(ts), args)
		}
	}
	return all
}

func stageOf(ts *testscript.TestScript) *stage { return ts.Value(stageKey{}).(*stage) }

func runExits(ts *testscript.TestScript, s *stage, args []string) {
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	err = ts.Exec(args[1], args[2:]...)
	s.exit = 0
	if exit, isExit := errors.AsType[*exec.ExitError](err); isExit {
		s.exit = exit.ExitCode()
	} else {
		ts.Check(err)
	}
	s.showNoSecret(ts, ts.ReadFile("stdout")+ts.ReadFile("stderr"))
	if s.exit != want {
		ts.Fatalf("exit %d, want %d", s.exit, want)
	}
}

func (s *stage) showNoSecret(ts *testscript.TestScript, output string) {
	secrets, err := s.secrets()
	ts.Check(err)
	for _, secret := range secrets {
		if strings.Contains(output, secret) {
			ts.Fatalf("the output shows a password")
		}
	}
}

func runProblem(ts *testscript.TestScript, s *stage, args []string) {
	data := args[0] == "-data"
	want := args[len(args)-1]
	if stdout := ts.ReadFile("stdout"); !data && stdout != "" {
		ts.Fatalf("stdout is not empty")
	}
	problem, err := decodeJSON(ts.ReadFile("stderr"))
	if err != nil {
		ts.Fatalf("stderr is not one JSON object: %v", err)
	}
	fields, isObject := problem.(map[string]any)
	if !isObject {
		ts.Fatalf("stderr is no JSON object but %T", problem)
	}
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		if !slices.Contains([]string{"code", "message", "hint", "exit_code", "details"}, name) {
			ts.Fatalf("the error has the undocumented field %q", name)
		}
	}
	if fields["code"] != want || fields["message"] == "" || text(fields["exit_code"]) != strconv.Itoa(s.exit) {
		ts.Fatalf("the error is %v %v %q, want code %s and exit code %d", fields["code"], fields["exit_code"], fields["message"], want, s.exit)
	}
}

func runJSON(ts *testscript.TestScript, neg bool, args []string) {
	if neg && len(args) == 1 {
		if value, err := field(ts.ReadFile("stdout"), args[0]); err == nil {
			ts.Fatalf("%s is there: %s", args[0], text(value))
		}
		return
	}
	if neg || len(args) != 2 {
		ts.Fatalf("usage: json FIELD REGEXP, or: ! json FIELD")
	}
	value, err := field(ts.ReadFile("stdout"), args[0])
	ts.Check(err)
	pattern, err := regexp.Compile(`^(?s:` + args[1] + `)$`)
	ts.Check(err)
	if !pattern.MatchString(text(value)) {
		ts.Fatalf("%s is %q, want %q", args[0], text(value), args[1])
	}
}

func runSetJSON(ts *testscript.TestScript, _ *stage, args []string) {
	value, err := field(ts.ReadFile("stdout"), args[1])
	ts.Check(err)
	ts.Setenv(args[0], text(value))
}

func runSQL(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: [!] sql lock|pay|DSN-FILE STATEMENT")
	}
	s := stageOf(ts)
	results, err := s.conn(ts, args[0]).PgConn().Exec(s.t.Context(), args[1]).ReadAll()
	if err != nil {
		fmt.Fprintln(ts.Stderr(), err)
	}
	for _, result := range results {
		for _, row := range result.Rows {
			fmt.Fprintf(ts.Stdout(), "%s\n", bytes.Join(row, []byte("|")))
		}
	}
	if (err != nil) != neg {
		ts.Fatalf("sql: error %v, want one: %t", err, neg)
	}
	ts.Stdout() // no rows are an empty stdout, not the one of the program before
}

// runLapse ends the lease itself: a short one might be over before the lock is granted,
// and a long one is not waited for.
func runLapse(ts *testscript.TestScript, s *stage, args []string) {
	var batch pgx.Batch // one transaction
	guards := func(state string) {
		for _, table := range []string{"lock_session", "lock_entry"} {
			batch.Queue("ALTER TABLE " + table + " " + state + " TRIGGER " + table + "_guard")
		}
	}
	guards("DISABLE") // they never cut what was promised (K-2.10)
	batch.Queue(`
		WITH over AS (SELECT session_id FROM lock_entry WHERE lock_key = $1 UNION SELECT session_id FROM lock_session WHERE session_id::text = $1),
		     locks AS (UPDATE lock_entry SET expires_at = least(expires_at, now()) WHERE session_id IN (SELECT session_id FROM over))
		UPDATE lock_session SET expires_at = least(expires_at, now()) WHERE session_id IN (SELECT session_id FROM over)`,
		args[0]).Exec(func(done pgconn.CommandTag) error {
		if done.RowsAffected() == 0 {
			return fmt.Errorf("there is no lock and no session %q", args[0])
		}
		return nil
	})
	guards("ENABLE ALWAYS")
	ts.Check(s.conn(ts, "lock").SendBatch(s.t.Context(), &batch).Close())
}

func runLogin(ts *testscript.TestScript, s *stage, args []string) {
	role := args[len(args)-1]
	dsns := map[string]string{"lock": s.dbs.Lock.DSN(role), "pay": s.dbs.Pay.DSN(role), "rail": s.dbs.Pay.DSN(role)}
	names := []string{"lock", "pay"}
	if len(args) == 2 {
		names = args[:1]
	}
	for _, name := range names {
		if dsns[name] == "" {
			ts.Fatalf("there is no database %q; lock, pay or rail", name)
		}
		ts.Setenv("DLOCKCTL_"+strings.ToUpper(name)+"_DSN", dsns[name])
	}
}

func runEmptyDB(ts *testscript.TestScript, s *stage, _ []string) {
	servers := pgtest.Servers(s.t, postgresVersion)
	s.use(pgtest.Databases{Lock: servers.Lock.EmptyDB(s.t), Pay: servers.Pay.EmptyDB(s.t)})
	runLogin(ts, s, []string{login})
}

func runStateDir(ts *testscript.TestScript, s *stage, _ []string) {
	s.folder = stateFolder(s.t)
	for name, value := range map[string]string{
		"DLOCKCTL_STATE_DIR": s.folder,
		// demo makes its folder where temporary files go.
		"TMPDIR":          s.folder,
		"DLOCKCTL_PG_BIN": testBinaries(),
		// An empty variable counts as unset.
		"DLOCKCTL_LOCK_DSN": "", "DLOCKCTL_PAY_DSN": "", "DLOCKCTL_SEED": "",
	} {
		ts.Setenv(name, value)
	}
}

// field follows a path into a JSON text.
func field(jsonText, path string) (any, error) {
	value, err := decodeJSON(jsonText)
	if err != nil {
		return nil, fmt.Errorf("stdout is not one JSON value: %w", err)
	}
	for step := range strings.SplitSeq(path, ".") {
		switch inner := value.(type) {
		case map[string]any:
			var found bool
			if value, found = inner[step]; !found {
				return nil, fmt.Errorf("there is no field %q in %s", step, text(inner))
			}
		case []any:
			if step == "count" {
				value = json.Number(strconv.Itoa(len(inner)))
				continue
			}
			i, err := strconv.Atoi(step)
			if err != nil || i < 0 || i >= len(inner) {
				return nil, fmt.Errorf("there is no element %q of %d", step, len(inner))
			}
			value = inner[i]
		default:
			return nil, fmt.Errorf("there is no field %q in %s", step, text(inner))
		}
	}
	return value, nil
}

// decodeJSON keeps numbers as their digits, and wants exactly one value.
func decodeJSON(jsonText string) (any, error) {
	dec := json.NewDecoder(strings.NewReader(jsonText))
	dec.UseNumber()
	var value any
	if err := dec.Decode(&value); err != nil {
		return nil, err
	}
	if err := dec.Decode(new(any)); !errors.Is(err, io.EOF) {
		return nil, errors.New("something follows the first value")
	}
	return value, nil
}

// text is a JSON value as a script writes it: strings without quotes, all else
// as compact JSON.
func text(value any) string {
	if s, isString := value.(string); isString {
		return s
	}
	raw, err := json.Marshal(value)
	if err != nil {
		return err.Error()
	}
	return string(raw)
}

package cli_test

import (
	"fmt"
	"maps"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/dlockctl/dlockctl/internal/cli/app"
	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/pgtest"
)

// What a person may type for a key, an owner, a reason, a ttl or a token is
// refused before anything is sent, with the value, the reason and the fix, and
// no letter of it drives the terminal.
//
// Clauses: K-1.6, K-2.5, K-3.3
// Mutation: take any check out of lockstore's validate.go.
func TestInput(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("ä", 513) // 1026 bytes, 513 letters
	for _, name := range []struct{ value, want string }{
		{"", "is empty"},
		{" \t", "U+0009"},
		{"   ", "is blank"},
		{"a\x00b", "U+0000"},
		{"a\xff", "not UTF-8"},
		{"\xed\xa0\x80", "not UTF-8"},
		{long, "1026 bytes long"},
		{"a\nb", "U+000A"},
		{"\x1b]0;x\a", "U+001B"},
		{"\u0085", "U+0085"},
		{"\u200b", "is blank"},
	} {
		for what, args := range map[string][]string{
			"key":      {"acquire", "--", name.value},
			"owner":    {"acquire", "k", "--owner", name.value},
			"operator": {"revoke", "k", "--reason", "r", "--dry-run", "--operator", name.value},
		} {
			if what != "key" && name.value == "" {
				continue // the default
			}
			refused(t, args, what+" ", name.value, name.want)
		}
	}
	for reason, want := range map[string]string{
		"": "is empty", " \n\t ": "is blank", "a\x00": "U+0000", "\x1b[2J": "U+001B", "\xff": "not UTF-8", strings.Repeat("x", 4097): "4097 bytes long",
	} {
		refused(t, []string{"revoke", "k", "--yes", "--token", "1", "--reason", reason}, "reason ", reason, want)
	}
	for ttl, want := range map[string]string{
		"0": "below the minimum", "-1s": "below the minimum", "99.999ms": "below the minimum", "24h0m0.000000001s": "above the maximum",
		"2562047h47m16.854775807s": "above the maximum", "2562048h": "longer than the longest duration", "NaN": "a duration has a unit", "inf": "a duration has a unit",
		"1e3s": "a duration has a unit", "30": "a duration has a unit", "": "a duration has a unit", "30 s": "a duration has a unit",
	} {
		for _, verb := range [][]string{{"acquire", "k"}, {"renew", "k", "--token", "1"}, {"session", "create"}, {"session", "heartbeat", string(givenSession)}} {
			refused(t, append(verb, "--ttl="+ttl), "", ttl, want)
		}
	}
	// What is read otherwise by one of two readers is read by none: 0100 is 64 to some.
	for _, number := range []string{"0100", "0x10", "0b1", "1_000", "+5", "1e3", "5.0", " 5", "", "\u0661"} {
		for _, verb := range [][]string{
			{"payout", "create", "--amount-minor=" + number},
			{"lock", "list", "--limit=" + number},
			{"restore", "plan", "--margin=" + number},
			{"revoke", "--owner", "o", "--expect-count=" + number},
			{"run", "k", "--conflict-exit-code=" + number, "--", "true"},
		} {
			refused(t, verb, "--", number, "is not a whole number in decimal digits")
		}
	}
	for token, want := range map[string]string{
		"0": "below 1", "-1": "not a decimal", "+1": "not a decimal", "1.0": "not a decimal", "0x1": "not a decimal", "": "not a decimal", "١": "not a decimal",
		"9007199254740993": "above 2^53", "9223372036854775807": "above 2^53", "9223372036854775808": "above 2^53", strings.Repeat("9", 400): "above 2^53",
	} {
		for _, verb := range [][]string{{"renew", "k"}, {"release", "k"}, {"revoke", "k", "--reason", "r", "--yes"}} {
			refused(t, append(verb, "--token="+token), "token", token, want)
		}
		refused(t, []string{"token", "explain", "--", token}, "token", token, want)
	}
	// The bounds themselves, and letters that are only unusual, are taken.
	for _, args := range [][]string{
		{"acquire", strings.Repeat("k", 1024), "--ttl", "100ms"}, {"acquire", "k", "--ttl", "24h"}, {"acquire", "caf\u00e9 \u202e\U0001f512"},
	} {
		if r := run(t, notHeld(), append(args, "-o", "name")...); r.exit != app.OK {
			t.Errorf("%q: exit %d: %s", args, r.exit, r.err)
		}
	}
}

func notHeld() *fake {
	return &fake{show: func(string) (lockstore.Entry, error) { return lockstore.Entry{}, lockstore.ErrNotFound }}
}

// refused runs a command that must not reach the database.
func refused(t *testing.T, args []string, what, value, want string) {
	t.Helper()
	r := run(t, nil, args...)
	if r.exit != app.Usage || r.out != "" || !strings.Contains(r.err, want) || !strings.Contains(r.err, what) {
		t.Errorf("%q: exit %d, stderr %q does not hold %q and %q", args, r.exit, r.err, what, want)
	}
	if strings.ContainsAny(r.err, "\x1b\x00\a\u202e\u200b") || len(r.err) > 1000 {
		t.Errorf("%q: the refused value plays with the terminal: %q", value, r.err)
	}
}

// dsnCase is a way to reach, or not to reach, lockdb.
type dsnCase struct {
	name string
	env  map[string]string
	args []string
	exit app.Exit
	code string
	// want is in the message or the hint.
	want string
}

// Every way in which an address can be wrong has its exit code, and says the
// value and the fix; no password is shown, and nothing is changed.
//
// Mutation: take a row out of the error table, or show pgx's own error.
func TestAddresses(t *testing.T) { //nolint:tparallel // its group ends before what it left is counted
	t.Parallel()
	dbs := pgtest.Migrated(t, 16)
	good := dbs.Lock.DSN("t_operator")
	with := func(dsn string) map[string]string { return map[string]string{"DLOCKCTL_LOCK_DSN": dsn} }
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	u, err := url.Parse(good)
	if err != nil {
		t.Fatal(err)
	}
	password, _ := u.User.Password()
	service := write("service.conf", fmt.Sprintf("[lockdb]\nhost=127.0.0.1\nport=%s\ndbname=%s\nuser=t_operator\nsslmode=disable\n", u.Port(), dbs.Lock.Name))
	pgpass := write("pgpass", fmt.Sprintf("127.0.0.1:%s:*:t_operator:%s\n", u.Port(), password))
	cases := []dsnCase{
		{"wrong password", with(strings.Replace(good, ":"+password+"@", ":"+secret+"@", 1)), nil, app.Unreachable, "unreachable", `password authentication failed for user "t_operator"`},
		{"no such user", with(strings.Replace(good, "t_operator", "nobody", 1)), nil, app.Unreachable, "unreachable", `"nobody"`},
		{"no such database", with(strings.Replace(good, "/"+dbs.Lock.Name, "/none", 1)), nil, app.Unreachable, "unreachable", `database "none" does not exist`},
		{"nobody listens", with("postgres://u:" + secret + "@127.0.0.1:1/db"), nil, app.Unreachable, "unreachable", "127.0.0.1:1"},
		{"nobody listens, IPv6", with("postgres://u:" + secret + "@[::1]:1/db"), nil, app.Unreachable, "unreachable", "::1"},
		{"no such host", with("host=nowhere.invalid user=u password=" + secret), nil, app.Unreachable, "unreachable", "nowhere.invalid"},
		{"missing file", nil, []string{"--lock-dsn-file", filepath.Join(dir, "none")}, app.Usage, "usage", filepath.Join(dir, "none")},
		{"empty file", nil, []string{"--lock-dsn-file", write("empty", "\n")}, app.Usage, "usage", "write one connection string into it"},
		{"a folder", nil, []string{"--lock-dsn-file", dir}, app.Usage, "usage", dir},
		{"a DSN for a file", nil, []string{"--lock-dsn-file", "postgres://u:" + secret + "@h/db"}, app.Usage, "usage", "mode 0600"},
		{"keywords for a file", nil, []string{"--lock-dsn-file", "host=h password=" + secret}, app.Usage, "usage", "mode 0600"},
		{"missing service file", with("service=lockdb servicefile=" + filepath.Join(dir, "none")), nil, app.Usage, "usage", "service file"},
		{"missing service", with("service=" + "none" + " servicefile=" + service), nil, app.Usage, "usage", "service"},
		{"service and pgpass", with("service=lockdb servicefile=" + service + " passfile=" + pgpass), nil, app.OK, "", ""},
		{"good file", nil, []string{"--lock-dsn-file", write("good", good+"\n")}, app.OK, "", ""},
	}
	t.Run("each", func(t *testing.T) {
		for _, c := range cases {
			t.Run(c.name, func(t *testing.T) {
				t.Parallel()
				env := map[string]string{"DLOCKCTL_PAY_DSN": dbs.Pay.DSN("t_operator")}
				maps.Copy(env, c.env)
				checkAddress(t, c, runReal(t, env, append([]string{"session", "create", "-o", "json"}, c.args...)...), password)
			})
		}
	})
	if got := count(t, dbs.Lock, "lock_session"); got != 2 {
		t.Errorf("%d sessions were made, want those of the two good addresses", got)
	}
}

func checkAddress(t *testing.T, c dsnCase, r result, password string) {
	t.Helper()
	if strings.Contains(r.out+r.err, secret) || strings.Contains(r.out+r.err, password) {
		t.Errorf("shows the password: %s", r.err)
	}
	if c.exit == app.OK {
		r.check(t, app.OK, `"session_id"`, "")
		return
	}
	got := fields(t, r.err)
	if r.exit != c.exit || r.out != "" || got["code"] != c.code {
		t.Errorf("exit %d, code %v, want %d %s: %s", r.exit, got["code"], c.exit, c.code, r.err)
	}
	if text := fmt.Sprint(got["message"], " ", got["hint"]); !strings.Contains(text, c.want) || got["hint"] == nil && c.code != "usage" {
		t.Errorf("%q does not hold %q, or there is no hint", text, c.want)
	}
}

// A password of any letters reaches the server, in both spellings of a DSN.
func TestSpecialLettersInAPassword(t *testing.T) {
	t.Parallel()
	dbs := pgtest.Migrated(t, 16)
	password := `p@ss:w/ord%25 'and"\ #?&=é` + secret
	role := "special_" + dbs.Lock.Name
	super := dbs.Lock.Conn(t, "super")
	literal := strings.ReplaceAll(password, "'", "''")
	for _, sql := range []string{
		fmt.Sprintf("CREATE ROLE %s LOGIN PASSWORD '%s' IN ROLE lockapp", pgx.Identifier{role}.Sanitize(), literal),
	} {
		if _, err := super.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	port := dbs.Lock.Server.Port
	quoted := strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(password)
	for name, dsn := range map[string]string{
		"url":      (&url.URL{Scheme: "postgres", User: url.UserPassword(role, password), Host: fmt.Sprintf("127.0.0.1:%d", port), Path: "/" + dbs.Lock.Name, RawQuery: "sslmode=disable"}).String(),
		"keywords": fmt.Sprintf("host=127.0.0.1 port=%d dbname=%s user=%s sslmode=disable password='%s'", port, dbs.Lock.Name, role, quoted),
	} {
		r := runReal(t, map[string]string{"DLOCKCTL_LOCK_DSN": dsn}, "session", "create", "-o", "name")
		if r.exit != app.OK || strings.Contains(r.out+r.err, secret) {
			t.Errorf("%s: exit %d: %s", name, r.exit, r.err)
		}
		r = runReal(t, map[string]string{"DLOCKCTL_LOCK_DSN": dsn, "DLOCKCTL_STATE_DIR": t.TempDir()}, "config", "show")
		if r.exit != app.OK || strings.Contains(r.out+r.err, secret) || strings.Contains(r.out, "ss:w") || !strings.Contains(r.out, "127.0.0.1") {
			t.Errorf("%s: config show: exit %d: %s%s", name, r.exit, r.out, r.err)
		}
	}
	if _, err := super.Exec(t.Context(), "DROP OWNED BY "+pgx.Identifier{role}.Sanitize()+"; DROP ROLE "+pgx.Identifier{role}.Sanitize()); err != nil {
		t.Error(err)
	}
}

// A host that takes the connection and never says a word ends in exit 8 within
// the deadline, for every verb, and not in a hang.
//
// Mutation: take the timer out of RunWithin.
func TestBlackHole(t *testing.T) {
	t.Parallel()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	dsn := "postgres://u:" + secret + "@" + listener.Addr().String() + "/db?sslmode=disable"
	for _, args := range [][]string{
		{"acquire", "k"},
		{"acquire", "k", "--wait", "200ms"},
		{"release", "k", "--token", "1"},
		{"revoke", "k", "--reason", "r", "--yes", "--any-token"},
		{"lock", "list"},
		{"lock", "watch"},
		{"lock", "prune", "--yes"},
		{"session", "reap"},
		{"audit", "export", "--follow"},
		{"audit", "verify"},
		{"token", "explain", "1"},
		{"migrate", "status", "--target", "lockdb"},
		{"migrate", "up", "--target", "lockdb"},
	} {
		t.Run(strings.Join(args, " "), func(t *testing.T) {
			t.Parallel()
			started := time.Now()
			r := runReal(t, map[string]string{"DLOCKCTL_LOCK_DSN": dsn, "DLOCKCTL_PAY_DSN": dsn}, append(args, "--timeout", "300ms", "-o", "json")...)
			if took := time.Since(started); r.exit != app.Unreachable || r.out != "" || took > time.Minute {
				t.Errorf("exit %d after %s: %s", r.exit, took, r.err)
			}
			if got := fields(t, r.err); got["code"] != "deadline" || strings.Contains(r.err, secret) {
				t.Errorf("stderr %s", r.err)
			}
		})
	}
}

// Who lacks a right, or stands before one instance for two, changes nothing.
//
// Clauses: K-6.1, K-12.1
// Mutation: take checkSeparate out of the store, or its row out of the table.
func TestWrongRoleOrInstance(t *testing.T) {
	t.Parallel()
	dbs := pgtest.Migrated(t, 16)
	together := envOf(dbs, "t_operator", "DLOCKCTL_PAY_DSN", dbs.Lock.DSN("t_operator"))
	for _, args := range [][]string{
		{"acquire", "k"},
		{"release", "k", "--token", "1"},
		{"session", "create"},
		{"lock", "prune", "--yes"},
		{"revoke", "--prefix", "k", "--reason", "r", "--yes", "--expect-count", "0"},
	} {
		for name, c := range map[string]struct {
			env  map[string]string
			code string
			hint string
		}{
			"an auditor":   {envOf(dbs, "t_auditor"), "permission_denied", "dlockctl migrate roles --print"},
			"one instance": {together, "same_instance", "--allow-same-instance"},
		} {
			if name == "an auditor" && args[0] == "revoke" {
				continue // it finds no lock, and nothing to change
			}
			r := runReal(t, c.env, append(args, "-o", "json")...)
			if got := fields(t, r.err); r.exit != app.Refused || got["code"] != c.code || !strings.Contains(fmt.Sprint(got["hint"]), c.hint) {
				t.Errorf("%s: %v: exit %d: %s", name, args, r.exit, r.err)
			}
		}
	}
	if entries, sessions := count(t, dbs.Lock, "lock_entry"), count(t, dbs.Lock, "lock_session"); entries != 0 || sessions != 0 {
		t.Errorf("%d entries and %d sessions were made", entries, sessions)
	}
}

// Nothing is decided from a standby: one line says so, and what to give instead.
//
// Clauses: K-6.3
// Mutation: take the InRecovery check out of the store, or ErrNotPrimary's row
// out of the table.
func TestStandby(t *testing.T) {
	t.Parallel()
	single := pgtest.Crashable(t, 16)
	single.Stop(t)
	if err := os.WriteFile(filepath.Join(single.Dir, "data", "standby.signal"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	single.Start(t)
	dsn := (pgtest.DB{Server: single.Server, Name: "postgres"}).DSN("super")
	for _, args := range [][]string{
		{"acquire", "k"},
		{"acquire", "k", "--wait", "1s"},
		{"lock", "list"},
		{"lock", "watch"},
		{"lock", "prune", "--yes"},
		{"audit", "verify"},
		{"audit", "export", "--follow"},
		{"token", "explain", "1"},
		{"revoke", "k", "--reason", "r", "--yes", "--any-token"},
		{"session", "reap"},
		{"audit", "prune", "--older-than", "720h", "--reason", "r", "--yes"},
		{"migrate", "up", "--target", "lockdb"},
	} {
		r := runReal(t, map[string]string{"DLOCKCTL_LOCK_DSN": dsn, "DLOCKCTL_PAY_DSN": dsn, "DLOCKCTL_ALLOW_SAME_INSTANCE": "true"}, append(args, "-o", "json")...)
		_, problem, found := strings.Cut(r.err, "{")
		if r.exit != app.Refused || r.out != "" || !found {
			t.Errorf("%v: exit %d: %s%s", args, r.exit, r.out, r.err)
			continue
		}
		if got := fields(t, "{"+problem); got["code"] != "not_primary" || got["hint"] != "give the address of the primary" {
			t.Errorf("%v: %s", args, problem)
		}
	}
}

package e2e_test

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// A script's own assertions fail when they ought to: each of these scripts is
// wrong in its last line.
//
// Mutation: take any check out of commands_test.go.
func TestAssertionsFail(t *testing.T) {
	t.Parallel()
	const shows = `exits 0 sh -c 'echo "{\"a\": {\"b\": [1]}}"'` + "\n"
	for name, c := range map[string]struct{ script, want string }{
		"exit code":        {"exits 0 dlockctl lock show none", "exit 3, want 0"},
		"no exit code":     {"exits dlockctl lock list", "invalid syntax"},
		"no such program":  {"exits 0 no-such-program-anywhere", "executable file not found"},
		"password":         {"exits 0 sh -c 'echo $DLOCKCTL_LOCK_DSN'", "shows a password"},
		"password, stderr": {"exits 0 sh -c 'echo $DLOCKCTL_LOCK_DSN >&2'", "shows a password"},
		"no JSON":          {"exits 0 sh -c 'echo a'\njson a 1", "not one JSON value"},
		"two JSON values":  {"exits 0 sh -c 'echo {} {}'\njson a 1", "not one JSON value"},
		"wrong value":      {shows + "json a.b.0 2", `a.b.0 is "1"`},
		"half a value":     {shows + "json a.b '.1'", `a.b is "[1]"`},
		"no such field":    {shows + "json a.c 1", `no field "c"`},
		"no such element":  {shows + "json a.b.1 1", `no element "1" of 1`},
		"wrong count":      {shows + "json a.b.count 2", `a.b.count is "1"`},
		"field is there":   {shows + "! json a.b", "a.b is there"},
		"nothing to keep":  {shows + "setjson V a.c", `no field "c"`},
		"no problem":       {"exits 0 dlockctl lock list -o json\nproblem held", "stdout is not empty"},
		"other problem":    {"exits 3 dlockctl lock show none -o json\nproblem held", "the error is not_found 3"},
		"problem as text":  {"exits 3 dlockctl lock show none\nproblem not_found", "not one JSON object"},
		"SQL error":        {"sql lock nonsense", "syntax error"},
		"no SQL error":     {"! sql lock 'SELECT 1'", "want one: true"},
		"no such database": {"sql lend 'SELECT 1'", `no database "lend"`},
		"ends unsignalled": {"signals TERM 143 stdout never sh -c 'exit 143'", "it ended before; exit 143"},
		"other exit code":  {"signals TERM 143 stdout ready sh -c 'echo ready; exec sleep 1000'", "exit -1, want 143"},
		"no condition":     {"signals TERM 143 lock nonsense sleep 1000", `column "nonsense" does not exist`},
		"nothing to watch": {"signals TERM 143 screen x true", `nobody waits for "screen"`},
		"no such signal":   {"signals KILL 137 stdout x true", `no signal "KILL"`},
		"password, signal": {"signals TERM -1 stdout @ sh -c 'echo $DLOCKCTL_LOCK_DSN; exec sleep 1000'", "shows a password"},
		"nothing to lapse": {"lapse nobody", `no lock and no session "nobody"`},
		"no rail":          {"payments 0", "there is no rail"},
		"wrong payments":   {"rail\npayments 1", "asked to pay 0 times, want 1"},
		"negated":          {"! exits 0 dlockctl lock list", "usage: exits CODE PROGRAM"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, "wrong.txtar"), []byte(c.script+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			failing := &failing{TB: t}
			testscript.RunT(failing, params(t, dir))
			if !failing.failed || !strings.Contains(failing.said, c.want) {
				t.Errorf("failed: %t, said %q, want %q", failing.failed, failing.said, c.want)
			}
		})
	}
}

// failing is a test that is expected to fail.
type failing struct {
	testing.TB
	failed bool
	said   string
}

func (f *failing) Run(_ string, test func(testscript.T)) {
	done := make(chan struct{})
	go func() { // FailNow ends the goroutine
		defer close(done)
		test(f)
	}()
	<-done
}

func (f *failing) Parallel()     {}
func (f *failing) Verbose() bool { return false }

func (f *failing) Log(args ...any) {
	for _, arg := range args {
		if text, isText := arg.(string); isText {
			f.said += text
		}
	}
}

func (f *failing) Fatal(args ...any) {
	f.Log(args...)
	f.FailNow()
}

func (f *failing) FailNow() {
	f.failed = true
	runtime.Goexit()
}

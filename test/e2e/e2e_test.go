// Package e2e_test proves the command line as its users meet it: the program
// runs as a process of its own, against real databases, one script per verb.
//
// The scripts are testdata/<noun>_<verb>.txtar; commands_test.go says which
// commands they have beside testscript's own, walker_test.go holds them to
// completeness.
package e2e_test

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/dlockctl/dlockctl/internal/cli"
	"github.com/dlockctl/dlockctl/internal/etcdtest"
	"github.com/dlockctl/dlockctl/internal/pgtest"
	"github.com/dlockctl/dlockctl/internal/ui"
)

const (
	program = "dlockctl"
	scripts = "testdata"
	// postgresVersion is the target; the stores' own tests cover the others.
	postgresVersion = 16
)

// TestMain is the program itself where the test binary is started under the
// program's name, which is how the scripts start it: the race detector then
// watches it too. testscript.Main does the same, but leaves by os.Exit with
// what its own Run returned, and so does not go with pgtest.Main, which has
// servers to stop and leaves the exit code to Go.
func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == program {
		os.Exit(cli.Main(context.Background(), os.Args[1:], ui.System()))
	}
	// What a caller such as nohup had ignored would be ignored by every program that is
	// started here: whoever listens hands the default on.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP)
	// Whatever leaks from the caller's environment into a script turns it red.
	for name, poison := range map[string]string{
		"DLOCKCTL_PROFILE": "leaked", "DLOCKCTL_OUTPUT": "leaked", "CLICOLOR_FORCE": "1",
	} {
		if err := os.Setenv(name, poison); err != nil {
			panic(err)
		}
	}
	etcdtest.Main(m, pgtest.Main)
}

// TestScripts runs every script, each in parallel, with a migrated lockdb and
// paydb of its own on two instances.
func TestScripts(t *testing.T) {
	t.Parallel()
	testscript.Run(t, params(t, scripts))
}

// params runs the scripts of a folder.
func params(t testing.TB, dir string) testscript.Params {
	t.Helper()
	bin := binFolder(t)
	return testscript.Params{
		Dir: dir,
		Setup: func(env *testscript.Env) error {
			t, ok := env.T().(testing.TB)
			if !ok {
				return fmt.Errorf("testscript gives a %T, which is no testing.TB", env.T())
			}
			s := newStage(t, env)
			env.Values[stageKey{}] = s
			for name, value := range s.environment(bin) {
				env.Setenv(name, value)
			}
			return nil
		},
		Cmds:                commands(),
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
	}
}

// binFolder is a folder in which the program is this test binary, beside until.sh.
// Both are links: a file just written is "text file busy" to whoever forked meanwhile.
func binFolder(t testing.TB) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	until, err := filepath.Abs("until.sh")
	if err != nil {
		t.Fatal(err)
	}
	bin := t.TempDir()
	for name, target := range map[string]string{program: self, "until.sh": until} {
		if err := os.Symlink(target, filepath.Join(bin, name)); err != nil {
			t.Fatal(err)
		}
	}
	return bin
}

// Package runbook_test executes the runbooks: every block of docs/runbooks that a
// person would paste is run, word for word and in order, on databases in which the
// very break was planted, and leads to a clean reconcile.
package runbook_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/dlockctl/dlockctl/internal/pgtest"
	"github.com/dlockctl/dlockctl/internal/reconcile/plant"
)

const (
	program = "dlockctl"
	folder  = "../../docs/runbooks"
)

// planted says which break (of package plant) stands when a runbook of reconcile is opened.
func planted() map[string]string {
	return map[string]string{
		"balance-drift.md":    "A01",
		"unanchored.md":       "A02",
		"acked-not-posted.md": "C01",
		"rail-unknown.md":     "C04",
		"stuck-payout.md":     "C11",
		"guard-missing.md":    "D05-trigger",
	}
}

// Every runbook of reconcile ends with a clean reconcile, by its own words.
//
// Clauses: K-5.2, K-5.3, K-8.5
// Mutation: change a command of a runbook, or take the repair out of one.
func TestReconcileRunbooks(t *testing.T) {
	t.Parallel()
	for name, class := range planted() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t)
			s.plant(t, class)
			s.reconciles(t, false)
			s.run(t, filepath.Join(folder, name))
			s.reconciles(t, true)
		})
	}
}

// No runbook is left out, and each says what it is for and has something to run.
//
// Mutation: add a runbook that no test executes.
func TestNoRunbookIsLeftOut(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(filepath.Join(folder, "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		_, ofReconcile := planted()[filepath.Base(file)]
		_, ofRestores := restored()[filepath.Base(file)]
		_, ofOperation := operated()[filepath.Base(file)]
		if !ofReconcile && !ofRestores && !ofOperation && !moved()[filepath.Base(file)] {
			t.Errorf("no test executes %s", file)
		}
		if len(blocks(t, file)) == 0 {
			t.Errorf("%s has nothing to run", file)
		}
		for _, b := range blocks(t, file) {
			for _, c := range b.when {
				if !slices.Contains(cases(), c) {
					t.Errorf("%s, line %d: no test plays the case %q", file, b.line, c)
				}
			}
		}
	}
	if want := len(planted()) + len(restored()) + len(operated()) + len(moved()); len(files) < want {
		t.Errorf("%d runbooks in %s, want at least %d", len(files), folder, want)
	}
}

// stage is two databases with a healthy world in them, and the environment of the
// person at the keyboard.
type stage struct {
	dbs   pgtest.Databases
	world *plant.World
	env   []string
	// home is theirs; what lies in it is found before what is installed.
	home string
	// desk is where they sit when it is the server's user who acts, "" for anybody.
	desk string
}

func newStage(t *testing.T) *stage {
	t.Helper()
	return newStageOn(t, pgtest.Migrated(t, 16))
}

func newStageOn(t *testing.T, dbs pgtest.Databases) *stage {
	t.Helper()
	world, err := plant.Healthy(t.Context(), dbs.Pay.Conn(t, "super"), dbs.Lock.Conn(t, "super"), plant.Params{Payouts: 300, Accounts: 24, Seed: 7, Open: 1})
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	home := t.TempDir()
	if err := os.Symlink(self, filepath.Join(home, program)); err != nil {
		t.Fatal(err)
	}
	guard(t, home)
	return &stage{dbs: dbs, world: world, home: home, env: []string{
		"HOME=" + home,
		"PATH=" + home + string(os.PathListSeparator) + os.Getenv("PATH"),
		"GORACE=atexit_sleep_ms=0",
		"DLOCKCTL_LOCK_DSN=" + dbs.Lock.DSN("t_lockapp"),
		"DLOCKCTL_PAY_DSN=" + dbs.Pay.DSN("t_resource"),
		"DLOCKCTL_RAIL_DSN=" + dbs.Pay.DSN("t_rail"),
		"DLOCKCTL_OPERATOR=erin@ops",
		// What the page calls the logins of the people.
		"LOCKDB_AUDITOR=" + dbs.Lock.DSN("t_auditor"),
		"PAYDB_AUDITOR=" + dbs.Pay.DSN("t_auditor"),
		"LOCKDB_OPERATOR=" + dbs.Lock.DSN("t_operator"),
		"PAYDB_OPERATOR=" + dbs.Pay.DSN("t_operator"),
		"LOCKDB_OWNER=" + dbs.Lock.DSN("t_owner"),
		"PAYDB_OWNER=" + dbs.Pay.DSN("t_owner"),
		"LOCKDB_ADMIN=" + dbs.Lock.DSN("super"),
		"PAYDB_ADMIN=" + dbs.Pay.DSN("super"),
	}}
}

func (s *stage) plant(t *testing.T, class string) {
	t.Helper()
	if _, err := s.world.Plant(t.Context(), class); err != nil {
		t.Fatal(err)
	}
}

// reconciles wants the whole catalogue clean, or not.
func (s *stage) reconciles(t *testing.T, clean bool) {
	t.Helper()
	out, err := s.shell(t, `DLOCKCTL_LOCK_DSN=$LOCKDB_AUDITOR DLOCKCTL_PAY_DSN=$PAYDB_AUDITOR dlockctl reconcile`)
	if (err == nil) != clean {
		t.Fatalf("reconcile: %v, want it clean: %t\n%s", err, clean, out)
	}
}

// run executes the blocks of a page in one shell: those for every case, and those for
// the cases named.
func (s *stage) run(t *testing.T, file string, cases ...string) {
	t.Helper()
	s.runBlocks(t, file, func(b block) bool { return len(b.when) == 0 || b.isFor(cases...) })
}

func (s *stage) runBlocks(t *testing.T, file string, wanted func(block) bool) {
	t.Helper()
	var script strings.Builder
	script.WriteString("set -u\n")
	for _, b := range blocks(t, file) {
		if !wanted(b) {
			continue
		}
		fmt.Fprintf(&script, "set %se\n%s\nrc=$?\nif [ $rc != %d ]; then echo \"line %d: exit $rc, want %d\" >&2; exit 99; fi\n",
			map[bool]string{true: "-", false: "+"}[b.exit == 0], b.text, b.exit, b.line, b.exit)
	}
	out, err := s.shell(t, script.String())
	t.Logf("%s:\n%s", file, out)
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
}

func (s *stage) shell(t *testing.T, script string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "bash", "-c", script)
	cmd.Env = append(slices.Clone(s.env), "PGSERVICEFILE="+s.services(t))
	if s.desk != "" {
		cmd.Dir = s.desk
		s.asServer(cmd)
	} else {
		cmd.Dir = t.TempDir()
	}
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// block is what stands between ```sh and ```; `sh exit=7` says how it must end, and
// `sh when=plain,planned` in which cases it is run.
type block struct {
	text       string
	line, exit int
	when       []string
}

func (b block) isFor(cases ...string) bool {
	return slices.ContainsFunc(b.when, func(c string) bool { return slices.Contains(cases, c) })
}

func blocks(t *testing.T, file string) []block {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var found []block
	var inside bool
	lines := bufio.NewScanner(f)
	for n := 1; lines.Scan(); n++ {
		info, isFence := strings.CutPrefix(lines.Text(), "```")
		words := strings.Fields(info)
		switch {
		case isFence && inside:
			inside = false
		case isFence && slices.Contains(words, "sh"):
			inside = true
			found = append(found, block{line: n, exit: exitOf(t, words), when: whenOf(words)})
		case inside:
			found[len(found)-1].text += lines.Text() + "\n"
		}
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return found
}

func whenOf(words []string) []string {
	for _, w := range words {
		if text, found := strings.CutPrefix(w, "when="); found {
			return strings.Split(text, ",")
		}
	}
	return nil
}

func exitOf(t *testing.T, words []string) int {
	t.Helper()
	for _, w := range words {
		if text, found := strings.CutPrefix(w, "exit="); found {
			code, err := strconv.Atoi(text)
			if err != nil {
				t.Fatal(err)
			}
			return code
		}
	}
	return 0
}

//go:build linux

package shells_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/dlockctl/dlockctl/internal/pgtest"
)

// locks are held by alice. Where one of them is evaluated anywhere, a file that is called evaluated
// appears.
var locks = []string{
	"account:42",
	"account:43",
	"two words",
	`it's "quoted"`,
	"dollar$HOME",
	`back\slash`,
	"semi;touch evaluated",
	"tick`touch evaluated`",
	"glob*?[a]",
	"brace{a,b}",
	"bang!x&|<>#~",
	"größe",
	"evil $(touch evaluated)1",
	"evil $(touch evaluated)2",
	"next(touch evaluated)",
}

// unspeakable are locks that another program granted and no line can name: they are not offered.
var unspeakable = []string{"new\nline;touch evaluated", "esc\x1b[2J", " lead"}

// dashed is a lock that is offered only after --, where it is no flag.
const dashed = "-a=1"

func plant(t *testing.T, db pgtest.DB) {
	t.Helper()
	if _, err := db.Conn(t, "super").Exec(t.Context(), `
		WITH s AS (INSERT INTO lock_session (session_id, owner_id, expires_at) VALUES (gen_random_uuid(), 'alice', now() + interval '10 hours') RETURNING session_id)
		INSERT INTO lock_entry (lock_key, owner_id, session_id, fencing_token, expires_at)
		SELECT key, 'alice', session_id, 1, now() + interval '10 hours' FROM s, unnest($1::text[]) key`, slices.Concat(unspeakable, locks, []string{dashed})); err != nil {
		t.Fatal(err)
	}
}

// proves completes every key, as far as it is alone from its fifth letter on, and others in every
// way they can be typed; runs the line; and looks whether anything was evaluated.
func (s *session) proves() {
	s.t.Helper()
	const show, filter, twoWords = "dlockctl lock show ", "dlockctl lock list --owner ", " --prefix two"
	for _, c := range []struct{ typed, on, key string }{
		{"account:42", "", "account:42"},
		{"acc", "2", "account:42"}, // Tab goes as far as account:4
		{"account:", "3", "account:43"},
		{"two", "", "two words"},
		{`two\ `, "", "two words"},
		{"'two w", "", "two words"},
		{`"two w`, "", "two words"},
		{"it", "", `it's "quoted"`},
		{"dol", "", "dollar$HOME"},
		{"back", "", `back\slash`},
		{"semi", "", "semi;touch evaluated"},
		{"tick", "", "tick`touch evaluated`"},
		{"glob", "", "glob*?[a]"},
		{"brace", "", "brace{a,b}"},
		{"bang", "", "bang!x&|<>#~"},
		{"gr", "", "größe"},
		{"next", "", "next(touch evaluated)"},
		{"evil", "2", "evil $(touch evaluated)2"},
	} {
		line := s.completes(show + c.typed)
		if c.on != "" {
			line, _ = s.press(c.on)
		}
		if got := s.names(); got != c.key {
			s.t.Errorf("%q then %q became %q, which names %q, want %q", c.typed, c.on, line, got, c.key)
		}
	}
	// Several begin so: the next Tab looks at what the one before put there.
	s.completes(show + "evil")
	s.press("\t\t")
	s.press(dropLine)
	for _, typed := range []string{"new", "esc", `\ le`} {
		if line, _ := s.press(show + typed + "\t"); line != show+typed {
			s.t.Errorf("%q became %q", typed, line)
		}
		s.press(dropLine)
	}
	for typed, want := range map[string]string{
		"dlockctl lock sh":                         show,
		show + "-- -a=":                            show + "-- " + dashed + " ",
		"dlockctl 'lock' list --owner al":          "dlockctl 'lock' list --owner alice ",
		"dlockctl lock list --owner=al":            "dlockctl lock list --owner=alice ",
		"dlockctl lock list --lock-dsn-file rep":   "dlockctl lock list --lock-dsn-file report.",
		"dlockctl reconcile --report rep":          "dlockctl reconcile --report report.html ",
		filter + "'x;touch evaluated;'" + twoWords: filter + "'x;touch evaluated;'" + twoWords + `\ words `,
		filter + "$(>evaluated)" + twoWords:        filter + "$(>evaluated)" + twoWords + `\ words `,
	} {
		if line := s.completes(typed); line != want {
			s.t.Errorf("%q became %q, want %q", typed, line, want)
		}
		s.press(dropLine)
	}
	s.harmless()
}

func (s *session) harmless() {
	s.t.Helper()
	if _, err := os.Stat(filepath.Join(s.home, "evaluated")); !errors.Is(err, fs.ErrNotExist) {
		s.t.Errorf("something that was typed or offered was evaluated: %v", err)
	}
}

// offers wants every key, with its owner, among what is shown.
func offers(t *testing.T, shown string) {
	t.Helper()
	for _, key := range locks {
		if !strings.Contains(shown, key) {
			t.Errorf("%q is not offered", key)
		}
	}
	if !strings.Contains(shown, leased) || strings.Contains(shown, "line;") || strings.Contains(shown, "lead") {
		t.Errorf("it offers %q", shown)
	}
}

// leased is what is said of each offer.
const leased = "alice, 9h"

// levels is a line whose offers stand in an order that is not the alphabet's.
const levels = "dlockctl reconcile --fail-on "

// ordered wants the levels in the order of the program.
func ordered(t *testing.T, shown string) {
	t.Helper()
	rest := shown
	for _, level := range []string{"critical", "high", "medium", "low"} {
		_, after, found := strings.Cut(rest, level)
		if !found {
			t.Fatalf("%q is not offered in its place: %q", level, shown)
		}
		rest = after
	}
}

// reports are two files, of which a report is one.
func reports(files map[string]string) map[string]string {
	files["report.html"], files["report.txt"] = "", ""
	return files
}

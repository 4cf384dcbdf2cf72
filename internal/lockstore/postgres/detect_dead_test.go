//go:build unix

package postgres_test

import (
	"maps"
	"testing"

	"github.com/dlockctl/dlockctl/internal/lockstore/mark"
	"github.com/dlockctl/dlockctl/internal/lockstore/postgres"
)

// A process dies before it tells the mark what it has shown, and lockdb comes back from
// a copy as young as the mark's last word: no sign is left, and nobody is shown any of
// it again, for all below the mark's ceiling is skipped; while the gate is closed
// nothing is drawn. Without a mark they are shown again: the control.
//
// Clauses: K-7.6, K-1.3
// Mutation: drop skip from readmit, or lock_gate_check from detect_skip.sql.
func TestDeadBeforeItsLastWord(t *testing.T) {
	t.Parallel()
	single, db := crashable(t)
	opts, dir := crashableOptions(t, db), t.TempDir()
	first := newClient(t, marked(opts, dir))
	first.show(t, 1)
	first.Close()
	back := saved(t, single)
	copied := lastToken(t, db)
	dies := newClient(t, marked(opts, dir))
	shown := dies.show(t, 5)
	// A grant draws two numbers: the other half of them too.
	if _, err := db.Conn(t, "super").Exec(t.Context(), `SELECT nextval('fencing_token_seq')`); err != nil {
		t.Fatal(err)
	}
	maps.Copy(shown, dies.show(t, 5))
	dies.Close()
	var deployment string
	if err := db.Conn(t, "super").QueryRow(t.Context(), `SELECT deployment_id FROM outside_mark`).Scan(&deployment); err != nil {
		t.Fatal(err)
	}
	m, err := mark.Open(dir, deployment)
	if err != nil {
		t.Fatal(err)
	}
	told, err := m.Read()
	if err != nil {
		t.Fatal(err)
	}
	// What is in the file of one that died half a second earlier.
	replaceFile(t, m.Path(), "")
	if _, err := m.Create(t.Context(), copied); err != nil {
		t.Fatal(err)
	}
	if _, err := m.Raise(t.Context(), told.Ceiling); err != nil {
		t.Fatal(err)
	}
	back()
	super := db.Conn(t, "super")
	exec := func(sql string) {
		t.Helper()
		if _, err := super.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	changing := marked(opts, dir)
	changing.Purpose = postgres.Changing
	exec(`UPDATE lock_gate SET closed_by = 'erin', closed_at = now(), closed_reason = 'r'`)
	closed := newClient(t, changing)
	_, err = closed.Acquire(t.Context(), closed.params("k"))
	closedFor(t, "behind a closed gate", err, "closed by erin", "thaw")
	if now := lastToken(t, db); now != copied {
		t.Errorf("behind a closed gate numbers were drawn: %s, then %s", copied, now)
	}
	exec(`UPDATE lock_gate SET closed_by = NULL, closed_at = NULL, closed_reason = NULL`)
	for token := range newClient(t, marked(opts, dir)).show(t, 20) {
		if shown[token] || token <= told.Ceiling {
			t.Errorf("token %s was shown again, or lies below the ceiling %s", token, told.Ceiling)
		}
	}
	back()
	if _, err := db.Conn(t, "super").Exec(t.Context(), `UPDATE outside_mark SET kept = false, kept_since = NULL`); err != nil {
		t.Fatal(err)
	}
	showsAgain(t, db, opts, shown)
}

package top //nolint:testpackage // the model is nobody else's

import (
	"strings"
	"testing"
	"time"

	"github.com/dlockctl/dlockctl/internal/lockstore"
)

// Where rows name no owner, and count tokens for each key, the screen says so and keeps
// the leases apart; a revoke names the very lock id.
//
// Clauses: K-10.2
// Mutation: show the owner as it is, or keep the longest leases by token alone.
func TestLocksWithoutOwners(t *testing.T) {
	t.Parallel()
	const hash = "0a1b2c3d4e5f60718293a4b5"
	f := &fake{entries: []lockstore.Entry{entry("a", "", 1, time.Second, time.Minute), entry("b", "", 1, time.Second, 10*time.Minute)}}
	f.entries[0].Session, f.entries[0].LockIDHash = "", hash
	m := screen(t, f)
	view := m.draw()
	if strings.Count(view, "██████████") != 2 || strings.Count(view, "unknown") != 2 {
		t.Errorf("each lease is whole, and nobody's:\n%s", view)
	}
	f.entries[0].Token, f.entries[0].Fence = 0, "x"
	m.lookAt(t, noon)
	m.pressAll("enter")
	view = m.draw()
	for _, want := range []string{"OWNER            unknown", "LOCK ID HASH     " + hash, "FENCE            x, which is no token"} {
		if !strings.Contains(view, want) {
			t.Errorf("details lack %q:\n%s", want, view)
		}
	}
	if strings.Contains(view, "SESSION") {
		t.Errorf("details of a session that there is not:\n%s", view)
	}
	f.outcome = lockstore.LockOutcome{Outcome: lockstore.Revoked, Key: "a", AuditID: 4}
	m.pressAll("r", "why", "enter")
	if !strings.Contains(m.draw(), "held by unknown for 1s") {
		t.Errorf("the question:\n%s", m.draw())
	}
	m.pressAll("y")
	if !strings.Contains(m.draw(), "revoked a from unknown, audit row 4") {
		t.Errorf("what became of it:\n%s", m.draw())
	}
}

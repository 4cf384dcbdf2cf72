package app_test

import (
	"strings"
	"testing"

	"github.com/dlockctl/dlockctl/internal/cli/app"
	"github.com/dlockctl/dlockctl/internal/paystore"
	"github.com/dlockctl/dlockctl/internal/ui"
)

// A paydb that was closed by hand is opened by its own verb: the hint of its schema
// names lockdb's.
//
// Clauses: K-7.9
// Mutation: hand the schema's hint on in payRules.
func TestClosedPaydbIsNotThawed(t *testing.T) {
	t.Parallel()
	streams, _, errOut := ui.Test("", map[string]string{"HOME": t.TempDir()})
	app.New(streams, nil).Report(&paystore.GateClosedError{Message: "closed by erin", Hint: "when the reason is over, run: dlockctl thaw --reason TEXT"})
	if got := errOut.String(); !strings.Contains(got, "run: dlockctl restore paydb --reason TEXT") || strings.Contains(got, "thaw") {
		t.Errorf("it says %q", got)
	}
}

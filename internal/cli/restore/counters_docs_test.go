package restore_test

import (
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/dlockctl/dlockctl/internal/restore/counters"
)

// Every field of the JSON about SyncGuard's counters is named in its section.
//
// Mutation: take any field out of the section of docs/json.md.
func TestEveryFieldOfCountersIsDocumented(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../../docs/json.md")
	if err != nil {
		t.Fatal(err)
	}
	text := section(t, string(page), "restore on SyncGuard's tables") + section(t, string(page), "restore plan")
	for _, of := range []any{counters.Plan{}, counters.Result{}, counters.Verification{}} {
		names := fields(reflect.TypeOf(of))
		if len(names) < 4 {
			t.Errorf("only %v found: the search is broken", names)
		}
		for _, name := range names {
			if !strings.Contains(text, "`"+name+"`") {
				t.Errorf("%T: field %q is not in docs/json.md", of, name)
			}
		}
	}
}

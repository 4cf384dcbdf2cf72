package locktest_test

import (
	"reflect"
	"testing"

	"github.com/dlockctl/dlockctl/internal/lockstore/locktest"
)

// A history that has one client, key, operation, takeover, re-entry, revocation or
// unknown outcome too few fails its test, however right it is.
//
// Mutation: take a row out of Require.
func TestRequireWantsEnough(t *testing.T) {
	t.Parallel()
	history := locktest.History{
		acquired(0, "a", 1, 100), acquired(2, "a", 2, 100), acquired(102, "b", 3, 100),
		lostAcquire(104, "c", 50), elsewhere(acquired(106, "d", 4, 100)),
	}
	have := locktest.StatsOf(history)
	if !locktest.Requires(t, history, postgresRules(), have) {
		t.Fatalf("a history that has what is asked for, %+v, is refused", have)
	}
	for _, field := range []string{"Clients", "Keys", "Ops", "Takeovers", "ReEntries", "Revoked", "Unknown"} {
		least := have
		count := reflect.ValueOf(&least).Elem().FieldByName(field)
		count.SetInt(count.Int() + 1)
		if locktest.Requires(t, history, postgresRules(), least) {
			t.Errorf("%s: %d are enough where %d are asked for", field, count.Int()-1, count.Int())
		}
	}
}

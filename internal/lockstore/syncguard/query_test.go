package syncguard_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/dlockctl/dlockctl/internal/lockstore/syncguard"
	"github.com/dlockctl/dlockctl/internal/pgtest"
)

// Every statement is one that PostgreSQL accepts on SyncGuard's tables, and every
// file in queries/ is used.
func TestQueriesPrepare(t *testing.T) {
	t.Parallel()
	files := pgtest.QueryTexts(t, syncguard.QueryFiles())
	eachMajor(t, func(t *testing.T, b bundle) {
		pgtest.Prepares(t, b.db.Conn(t, "t_owner"), b.store.Queries(), files)
	})
}

// Nothing here ends another's connection, which would end the library's whole
// process; no counter is ever deleted; nothing is left in the server's session.
//
// Clauses: K-10.2, K-12.3
// Mutation: call pg_terminate_backend, or delete counters in prune.
func TestNothingIsTerminatedNorForgotten(t *testing.T) {
	t.Parallel()
	forbidden := regexp.MustCompile(`(?i)pg_terminate_backend|delete\s+from\s+syncguard_fence|truncate\s+(table\s+)?syncguard|pg_(try_)?advisory_lock\b|\bLISTEN\b|\bSET SESSION\b`)
	var paths []string
	for _, pattern := range []string{"*.go", "queries/*.sql"} {
		found, err := filepath.Glob(pattern)
		if err != nil || len(found) == 0 {
			t.Fatalf("%s: %q, %v", pattern, found, err)
		}
		paths = append(paths, found...)
	}
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if found := forbidden.Find(text); found != nil {
			t.Errorf("%s says %s", path, found)
		}
	}
}

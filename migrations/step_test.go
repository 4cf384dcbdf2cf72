package migrations_test

import (
	"cmp"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/dlockctl/dlockctl/migrations"
)

// versioned is one file V<n>__description.sql.
type versioned struct {
	version int
	path    string
}

var versionedName = regexp.MustCompile(`^V([1-9][0-9]*)__[a-z0-9]+(_[a-z0-9]+)*\.sql$`)

// versionsOf lists the versioned files of dir ("lockdb", "paydb") in the order
// they are applied.
func versionsOf(t *testing.T, dir string) []versioned {
	t.Helper()
	entries, err := fs.ReadDir(migrations.FS, dir)
	if err != nil {
		t.Fatal(err)
	}
	var files []versioned
	for _, e := range entries {
		m := versionedName.FindStringSubmatch(e.Name())
		if m == nil {
			t.Fatalf("%s/%s is not named V<n>__snake_case.sql", dir, e.Name())
		}
		n, err := strconv.Atoi(m[1])
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, versioned{version: n, path: dir + "/" + e.Name()})
	}
	slices.SortFunc(files, func(a, b versioned) int { return cmp.Compare(a.version, b.version) })
	if len(files) == 0 {
		t.Fatalf("no migrations in %s", dir)
	}
	return files
}

// applyUpTo applies the versions of dir up to and including version, each as the
// engines do: in a transaction of its own, after SET ROLE dlock_owner (K-9.5). conn
// is a superuser or a member of it.
func applyUpTo(t *testing.T, conn *pgx.Conn, dir string, version int) {
	t.Helper()
	for _, f := range versionsOf(t, dir) {
		if f.version <= version {
			applyFile(t, conn, f.path)
		}
	}
}

// applyAll applies every version of dir.
func applyAll(t *testing.T, conn *pgx.Conn, dir string) {
	t.Helper()
	files := versionsOf(t, dir)
	applyUpTo(t, conn, dir, files[len(files)-1].version)
}

// applyFile applies one embedded file, versioned or repeatable.
func applyFile(t *testing.T, conn *pgx.Conn, path string) {
	t.Helper()
	text, err := fs.ReadFile(migrations.FS, path)
	if err != nil {
		t.Fatal(err)
	}
	err = pgx.BeginFunc(t.Context(), conn, func(tx pgx.Tx) error {
		if _, err := tx.Exec(t.Context(), "SET LOCAL ROLE dlock_owner"); err != nil {
			return err
		}
		// The simple protocol: a file is many statements.
		_, err := tx.Conn().PgConn().Exec(t.Context(), string(text)).ReadAll()
		return err
	})
	if err != nil {
		t.Fatalf("apply %s: %v", path, err)
	}
}

// runAssertions runs a file of assertions in one transaction. The file fails by
// an error (RAISE) or by a query that returns a row.
func runAssertions(t *testing.T, conn *pgx.Conn, path string) {
	t.Helper()
	text, err := os.ReadFile(filepath.FromSlash(path))
	if err != nil {
		t.Fatal(err)
	}
	results, err := conn.PgConn().Exec(t.Context(), string(text)).ReadAll()
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	for i, r := range results {
		for _, row := range r.Rows {
			t.Errorf("%s: statement %d found %q", path, i+1, row)
		}
	}
}

// step walks dir one version at a time: assertions before, the migration,
// assertions after. testdata holds V<n>/before.sql and V<n>/after.sql for each.
func step(t *testing.T, conn *pgx.Conn, dir string) {
	t.Helper()
	for _, f := range versionsOf(t, dir) {
		data := fmt.Sprintf("testdata/%s/V%d/", dir, f.version)
		runAssertions(t, conn, data+"before.sql")
		applyFile(t, conn, f.path)
		runAssertions(t, conn, data+"after.sql")
		if t.Failed() {
			t.Fatalf("stopped after %s", f.path)
		}
	}
}

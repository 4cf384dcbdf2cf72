package flyway_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dlockctl/dlockctl/internal/flyway"
)

// Every name that one of the two programs would read differently is refused, by
// name and with the fix.
//
// Clauses: K-9.1
// Mutation: in loadFile, skip a file whose name does not parse, as Flyway does.
func TestLoadRefusesNames(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"V1.2__dotted.sql":   `has the dotted version "1.2"`,
		"V1_2__dotted.sql":   `has the dotted version "1_2"`,
		"V1_single.sql":      "dotted version", // Flyway reads "1_single" as the version
		"V1__Upper.sql":      "lower case",
		"V1__two__parts.sql": "single underscores",
		"V1__.sql":           "V<n>__snake_case.sql",
		"V1.sql":             "dotted version",
		"v1__small.sql":      "V<n>__snake_case.sql",
		"Vx__letters.sql":    "V<n>__snake_case.sql",
		"R1__versioned.sql":  "V<n>__snake_case.sql",
		"R_single.sql":       "no double underscore",
		"U1__undo.sql":       "undo migration",
		"B1__base.sql":       "baseline migration",
		"beforeMigrate.sql":  "no double underscore",
		"V1__a.sql.conf":     "script configuration",
		"V1__a.SQL":          "is not a migration",
		"README.md":          "is not a migration",
		"V1__sub/V2__b.sql":  "is a folder",
		"R__a_" + strings.Repeat("x", 200) + ".sql": "shorten it to 200",
		"V1234567890123456789__too_long.sql":        "V<n>__snake_case.sql",
	} {
		_, err := flyway.Load(folder(name, "SELECT 1;"))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("load %s: %v, want an error with %q", name, err, want)
			continue
		}
		if first, _, _ := strings.Cut(name, "/"); !strings.Contains(err.Error(), first) {
			t.Errorf("load %s: %v does not name the file", name, err)
		}
	}
}

// Clauses: K-9.1
// Mutation: take duplicates out of Load.
func TestLoadRefusesDuplicates(t *testing.T) {
	t.Parallel()
	for _, pair := range [][2]string{
		{"V1__one.sql", "V01__also_one.sql"},
		{"V7__a.sql", "V7__b.sql"},
	} {
		_, err := flyway.Load(folder(pair[0], "SELECT 1;", pair[1], "SELECT 1;"))
		if err == nil || !strings.Contains(err.Error(), "same version") {
			t.Errorf("load %v: %v, want a duplicate version", pair, err)
		}
	}
	seed := folder("R__seed.sql", "SELECT 1;")
	if _, err := flyway.Load(seed, seed); err == nil || !strings.Contains(err.Error(), "same description") {
		t.Errorf("load the same repeatable twice: %v, want a duplicate description", err)
	}
}

// Versions run as numbers, repeatables after them by description: "a 1" before "a1",
// although by file name '_' sorts after '1'.
//
// Clauses: K-9.1
// Mutation: sort by Script in runOrder.
func TestLoadRunOrder(t *testing.T) {
	t.Parallel()
	c := files(t, "R__a1.sql", "SELECT 1;", "R__a_1.sql", "SELECT 1;", "V10__x.sql", "SELECT 1;",
		"V9__x.sql", "SELECT 1;", "V0011__x.sql", "SELECT 1;", "V20260101120000__x.sql", "SELECT 1;")
	var got []string
	for _, m := range c.Migrations() {
		got = append(got, m.Script)
	}
	want := []string{"V9__x.sql", "V10__x.sql", "V0011__x.sql", "V20260101120000__x.sql", "R__a_1.sql", "R__a1.sql"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("run order (-want +got):\n%s", diff)
	}
}

// Mutation: write the template with a statement in it.
func TestNewFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, step := range []struct{ description, want string }{
		{"Create the account table!", "V1__create_the_account_table.sql"},
		{"second", "V2__second.sql"},
	} {
		path, err := flyway.NewFile(dir, step.description)
		if err != nil || filepath.Base(path) != step.want {
			t.Fatalf("new file %q = %s, %v; want %s", step.description, path, err, step.want)
		}
	}
	if _, err := flyway.Load(flyway.Location{FS: os.DirFS(dir)}); err == nil || !strings.Contains(err.Error(), "holds no statement") {
		t.Errorf("load an empty template: %v, want a refusal until it is filled in", err)
	}
	if path, err := flyway.NewFile(dir, " !? "); err == nil {
		t.Errorf("new file without a word = %s, want an error", path)
	}

	padded := t.TempDir()
	if err := os.WriteFile(filepath.Join(padded, "V009__x.sql"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if path, err := flyway.NewFile(padded, "next"); err != nil || filepath.Base(path) != "V010__next.sql" {
		t.Errorf("new file in a padded folder = %s, %v; want V010__next.sql", path, err)
	}
}

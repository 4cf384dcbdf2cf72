// Package docs_test holds pages to the things they describe.
package docs_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// root is the project's root, seen from this package.
var root = filepath.Join("..", "..")

// Mutation: delete a line of docs/dependencies.md.
func TestDependenciesPageIsGoMod(t *testing.T) {
	t.Parallel()

	out, err := exec.CommandContext(t.Context(), "go", "mod", "edit", "-json", filepath.Join(root, "go.mod")).Output()
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(filepath.Join(root, "docs", "dependencies.md"))
	if err != nil {
		t.Fatal(err)
	}
	want := directRequirements(t, out)
	if len(want) == 0 {
		t.Fatal("go.mod requires nothing directly: run `go mod tidy`")
	}
	if diff := cmp.Diff(want, modulesOnPage(page)); diff != "" {
		t.Errorf("docs/dependencies.md does not say what go.mod requires (-go.mod +page):\n%s", diff)
	}
}

func TestDependenciesPageIsReadRight(t *testing.T) {
	t.Parallel()

	direct := directRequirements(t, []byte(`{"Require":[
		{"Path":"example.com/b","Version":"v1.0.0"},
		{"Path":"example.com/indirect","Version":"v1.0.0","Indirect":true},
		{"Path":"example.com/a/v2","Version":"v2.0.0"}]}`))
	if diff := cmp.Diff([]string{"example.com/a/v2", "example.com/b"}, direct); diff != "" {
		t.Errorf("direct requirements (-want +got):\n%s", diff)
	}
	page := "text `example.com/c`\n\n| module | x |\n|---|---|\n| `example.com/a/v2` | for `x` |\n| `example.com/b` | y |\n"
	if diff := cmp.Diff(direct, modulesOnPage([]byte(page))); diff != "" {
		t.Errorf("modules on the page (-want +got):\n%s", diff)
	}
}

func directRequirements(t *testing.T, goMod []byte) []string {
	t.Helper()

	var mod struct {
		Require []struct {
			Path     string
			Indirect bool
		}
	}
	if err := json.Unmarshal(goMod, &mod); err != nil {
		t.Fatal(err)
	}
	var direct []string
	for _, r := range mod.Require {
		if !r.Indirect {
			direct = append(direct, r.Path)
		}
	}
	slices.Sort(direct)
	return direct
}

var moduleRow = regexp.MustCompile("(?m)^\\| `([^`]+)` \\|")

func modulesOnPage(page []byte) []string {
	var modules []string
	for _, m := range moduleRow.FindAllSubmatch(page, -1) {
		modules = append(modules, string(m[1]))
	}
	slices.Sort(modules)
	return modules
}

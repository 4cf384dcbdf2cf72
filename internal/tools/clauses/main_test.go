package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dlockctl/dlockctl/internal/tools/clauses/proof"
)

// The life of the page: out of date, written, up to date, out of date again
// when a test goes.
func TestVerifyFailsUntilWritten(t *testing.T) {
	t.Parallel()

	root := t.TempDir()
	put := func(name, text string) {
		t.Helper()
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	put(proof.ContractPage, "- **K-1.1** First.\n")
	put(proof.VerificationPage, "<!-- clauses:begin, written by `make generate` -->\n<!-- clauses:end -->\n<!-- open:begin -->\n<!-- open:end -->\n")
	put("a_test.go", "package a\n\nimport \"testing\"\n\n// Clauses: K-1.1\n// Mutation: m\nfunc TestA(t *testing.T) {}\n")

	verify := func() error { return run(&strings.Builder{}, root, false, true) }
	if err := verify(); err == nil || !strings.Contains(err.Error(), "make generate") {
		t.Errorf("verify before the page is written: %v, want the command that writes it", err)
	}
	if err := run(&strings.Builder{}, root, true, false); err != nil {
		t.Fatal(err)
	}
	if err := verify(); err != nil {
		t.Errorf("verify after the page is written: %v", err)
	}
	var out strings.Builder
	if err := run(&out, root, false, false); err != nil || !strings.Contains(out.String(), "| K-1.1 | `..TestA` | m |") {
		t.Errorf("the check fails or prints no table: %v\n%s", err, out.String())
	}

	put("a_test.go", "package a\n")
	if err := verify(); err == nil {
		t.Error("verify says nothing when the test is gone")
	}
	if err := run(&strings.Builder{}, root, false, false); err == nil || !strings.Contains(err.Error(), "K-1.1: neither") {
		t.Errorf("check without the test: %v, want K-1.1 named", err)
	}
}

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The page is held to what the backends declare: -verify refuses another table, -write
// makes it right and leaves the rest alone, and a page without the place is refused.
//
// Mutation: return nil when the pages differ.
func TestPage(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "page.md")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("before\n" + begin + "| old |\n" + end + "\nafter\n")
	if err := run(path, false, true); err == nil || !strings.Contains(err.Error(), "-write") {
		t.Errorf("another table: %v, want the command that writes it", err)
	}
	if err := run(path, true, false); err != nil {
		t.Fatal(err)
	}
	if err := run(path, false, true); err != nil {
		t.Errorf("what was just written: %v", err)
	}
	page, err := os.ReadFile(path)
	if text := string(page); err != nil || !strings.HasPrefix(text, "before\n") || !strings.HasSuffix(text, "\nafter\n") || strings.Contains(text, "| old |") ||
		!strings.Contains(text, "|  | postgres | etcd | syncguard |\n|---|---|---|---|\n") || !strings.Contains(text, "| leases are rounded up to | – | 1s | – |\n") {
		t.Errorf("the page is\n%s (%v)", text, err)
	}
	write("nothing")
	if err := run(path, true, false); err == nil {
		t.Error("a page without a place for the table is written")
	}
}

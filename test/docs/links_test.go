package docs_test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Mutation: rename a page, or a heading that another page points at.
func TestLinksResolve(t *testing.T) {
	t.Parallel()

	broken, pages := brokenLinks(t, os.DirFS(root))
	if pages < 5 {
		t.Errorf("only %d pages were read", pages)
	}
	for _, b := range broken {
		t.Error(b)
	}
}

func TestBrokenLinksAreFound(t *testing.T) {
	t.Parallel()

	dir := t.TempDir()
	for name, text := range map[string]string{
		"README.md":   "[ok](docs/a.md) [ok](docs/a.md#k-1-token-order) [ok](https://example.com/x) [bad](docs/b.md)\n",
		"docs/a.md":   "## K-1 Token `order`\n[ok](#k-1-token-order) [ok](../README.md) [bad](#k-2) [bad](../README.md#x)\n```\n[no link](c.md)\n```\n",
		".git/x.md":   "[not ours](nowhere.md)\n",
		"docs/t.go":   "// [not a page](nowhere.md)\n",
		"docs/sub/ok": "",
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	got, _ := brokenLinks(t, os.DirFS(dir))
	want := []string{
		"README.md: docs/b.md is no file",
		"docs/a.md: #k-2 is no heading of docs/a.md",
		"docs/a.md: ../README.md#x is no heading of README.md",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("broken links (-want +got):\n%s", diff)
	}
}

var (
	link      = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	fence     = regexp.MustCompile("(?ms)^\\s*```.*?^\\s*```")
	heading   = regexp.MustCompile(`(?m)^#+ (.+)$`)
	notAnchor = regexp.MustCompile(`[^\p{L}\p{N}\- ]`)
)

// brokenLinks looks at the links between the Markdown pages of a tree.
func brokenLinks(t *testing.T, tree fs.FS) (broken []string, pages int) {
	t.Helper()

	err := fs.WalkDir(tree, ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && name != "." && (strings.HasPrefix(d.Name(), ".") || slices.Contains([]string{"node_modules", "target", "dist"}, d.Name())):
			return fs.SkipDir
		case d.IsDir() || filepath.Ext(name) != ".md":
			return nil
		}
		text, err := fs.ReadFile(tree, name)
		if err != nil {
			return err
		}
		pages++
		for _, m := range link.FindAllSubmatch(fence.ReplaceAll(text, nil), -1) {
			if problem := checkLink(tree, name, string(m[1])); problem != "" {
				broken = append(broken, name+": "+problem)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return broken, pages
}

func checkLink(tree fs.FS, page, target string) string {
	if strings.Contains(target, "://") {
		return ""
	}
	file, anchor, _ := strings.Cut(target, "#")
	to := page
	if file != "" {
		to = filepath.ToSlash(filepath.Join(filepath.Dir(page), file))
	}
	if _, err := fs.Stat(tree, to); err != nil {
		return target + " is no file"
	}
	if anchor == "" {
		return ""
	}
	text, err := fs.ReadFile(tree, to)
	if err != nil {
		return fmt.Sprintf("%s cannot be read: %v", target, err)
	}
	for _, m := range heading.FindAllSubmatch(fence.ReplaceAll(text, nil), -1) {
		if anchorOf(string(m[1])) == anchor {
			return ""
		}
	}
	return target + " is no heading of " + to
}

// anchorOf is the name that a heading gets on the pages of a forge.
func anchorOf(heading string) string {
	return strings.ReplaceAll(notAnchor.ReplaceAllString(strings.ToLower(heading), ""), " ", "-")
}

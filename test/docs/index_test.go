package docs_test

import (
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// index is the page that leads every reader to the others.
const index = "docs/index.md"

// Every page of docs is reached from the index by links, and the index from the README.
//
// Mutation: take the row of any page out of the index.
func TestIndexLeadsToEveryPage(t *testing.T) {
	t.Parallel()
	tree := os.DirFS(root)
	pages := pagesUnder(t, tree, "docs")
	if len(pages) < 30 {
		t.Errorf("docs has only %d pages", len(pages))
	}
	for _, page := range unreached(t, tree, index, pages) {
		t.Errorf("no link leads from %s to %s", index, page)
	}
	if !slices.Contains(linkedFrom(t, tree, "README.md"), index) {
		t.Errorf("README.md does not lead to %s", index)
	}
}

// The runbooks are found from the index itself: nobody looks further at night.
//
// Mutation: take the row of any runbook out of the index.
func TestIndexNamesEveryRunbook(t *testing.T) {
	t.Parallel()
	tree := os.DirFS(root)
	named := linkedFrom(t, tree, index)
	for _, page := range pagesUnder(t, tree, "docs/runbooks") {
		if !slices.Contains(named, page) {
			t.Errorf("%s does not name %s", index, page)
		}
	}
}

func TestUnreachedPagesAreFound(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"docs/index.md": "[a](a.md) ![picture](p.svg)\n```\n[c](c.md)\n```\n",
		"docs/a.md":     "[b](sub/b.md#x) [back](index.md) [out](../README.md)\n",
		"docs/sub/b.md": "[gone](nowhere.md)\n",
		"docs/c.md":     "alone\n",
		"README.md":     "\n",
	} {
		file := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	tree := os.DirFS(dir)
	if diff := cmp.Diff([]string{"docs/c.md"}, unreached(t, tree, index, pagesUnder(t, tree, "docs"))); diff != "" {
		t.Errorf("pages that no link leads to (-want +got):\n%s", diff)
	}
}

// pagesUnder lists the Markdown pages of a folder.
func pagesUnder(t *testing.T, tree fs.FS, folder string) (pages []string) {
	t.Helper()
	err := fs.WalkDir(tree, folder, func(name string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && path.Ext(name) == ".md" {
			pages = append(pages, name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return pages
}

// unreached are the pages that no chain of links leads to.
func unreached(t *testing.T, tree fs.FS, from string, pages []string) (missing []string) {
	t.Helper()
	reached := map[string]bool{from: true}
	for open := []string{from}; len(open) > 0; {
		page := open[0]
		open = open[1:]
		for _, next := range linkedFrom(t, tree, page) {
			if !reached[next] {
				reached[next] = true
				open = append(open, next)
			}
		}
	}
	for _, page := range pages {
		if !reached[page] {
			missing = append(missing, page)
		}
	}
	return missing
}

// linkedFrom lists the pages that a page links to and that are there; the dead ones are
// the business of TestLinksResolve.
func linkedFrom(t *testing.T, tree fs.FS, page string) (pages []string) {
	t.Helper()
	text, err := fs.ReadFile(tree, page)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range link.FindAllSubmatch(fence.ReplaceAll(text, nil), -1) {
		file, _, _ := strings.Cut(string(m[1]), "#")
		to := path.Join(path.Dir(page), file)
		if path.Ext(to) != ".md" || strings.Contains(file, "://") {
			continue
		}
		if _, err := fs.Stat(tree, to); err == nil {
			pages = append(pages, to)
		}
	}
	return pages
}

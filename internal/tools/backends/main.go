// Command backends writes what the lock backends declare into docs/backends.md.
//
//	backends -write      write the table again
//	backends -verify     fail when the page has another
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/lockstore/etcd"
	"github.com/dlockctl/dlockctl/internal/lockstore/postgres"
	"github.com/dlockctl/dlockctl/internal/lockstore/syncguard"
)

// The table stands between these.
const begin, end = "<!-- capabilities:begin -->\n", "<!-- capabilities:end -->"

func main() {
	page := flag.String("page", filepath.Join("docs", "backends.md"), "the page with the table")
	write := flag.Bool("write", false, "write the table")
	verify := flag.Bool("verify", false, "fail when the page's table is another")
	flag.Parse()

	stderr, exit := os.Stderr, os.Exit //nolint:forbidigo // main alone has no caller to take these from
	if err := run(*page, *write, *verify); err != nil {
		_, _ = fmt.Fprintln(stderr, "backends:", err) // there is nowhere else to say it
		exit(1)
	}
}

func run(path string, write, verify bool) error {
	have, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	page, err := withTable(string(have))
	switch {
	case err != nil:
		return fmt.Errorf("%s: %w", path, err)
	case write:
		return os.WriteFile(path, []byte(page), 0o644)
	case verify && page != string(have):
		return fmt.Errorf("%s does not say what the backends declare: run `go run ./internal/tools/backends -write`", path)
	}
	return nil
}

// withTable is the page with the table of now.
func withTable(page string) (string, error) {
	before, rest, begun := strings.Cut(page, begin)
	_, after, ended := strings.Cut(rest, end)
	if !begun || !ended {
		return "", errors.New("there is no place for the table")
	}
	return before + begin + table() + end + after, nil
}

func table() string {
	var b strings.Builder
	for i, row := range lockstore.CapabilityRows(
		(*postgres.Store)(nil).Capabilities(), (*etcd.Store)(nil).Capabilities(), (*syncguard.Store)(nil).Capabilities(),
	) {
		fmt.Fprintf(&b, "| %s |\n", strings.Join(row, " | "))
		if i == 0 {
			b.WriteString(strings.Repeat("|---", len(row)) + "|\n")
		}
	}
	return b.String()
}

// Command clauses prints clause → test → mutation and fails for a clause of
// the contract that has neither a proof nor a place in the open list.
//
//	clauses           print the table and check it
//	clauses -write    write the table into docs/verification.md
//	clauses -verify   fail when docs/verification.md is not what -write writes
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/dlockctl/dlockctl/internal/tools/clauses/proof"
)

func main() {
	root := flag.String("root", ".", "the project's root")
	write := flag.Bool("write", false, "write the table into "+proof.VerificationPage)
	verify := flag.Bool("verify", false, "fail when the table in "+proof.VerificationPage+" is out of date")
	flag.Parse()

	if err := run(os.Stdout, *root, *write, *verify); err != nil {
		fmt.Fprintln(os.Stderr, "clauses:", err)
		os.Exit(1)
	}
}

func run(out io.Writer, root string, write, verify bool) error {
	report, err := proof.Read(os.DirFS(root))
	if err != nil {
		return err
	}
	if !write && !verify {
		_, err := fmt.Fprint(out, report.Table(), "\n", report.Summary(), "\n")
		return errors.Join(err, problems(report))
	}
	path := filepath.Join(root, filepath.FromSlash(proof.VerificationPage))
	have, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	want, err := report.Page(string(have))
	switch {
	case err != nil:
		return err
	case verify && want != string(have):
		return fmt.Errorf("the table in %s is out of date: run `make generate`", proof.VerificationPage)
	case write:
		return os.WriteFile(path, []byte(want), 0o644)
	}
	return nil
}

func problems(report proof.Report) error {
	if len(report.Problems) == 0 {
		return nil
	}
	return errors.New("\n  " + strings.Join(report.Problems, "\n  "))
}

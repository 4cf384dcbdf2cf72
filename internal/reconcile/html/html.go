// Package html writes a report of reconcile as one page for people: it opens
// offline, holds no script, fetches nothing, and prints.
package html

import (
	"bufio"
	_ "embed" // the template and the style sheet
	"fmt"
	"html/template"
	"io"

	"github.com/dlockctl/dlockctl/internal/reconcile"
)

// How much the page shows of what may be thousands. What is left out is counted
// on the page.
const (
	mostFindings = 10  // of a class
	mostInAll    = 150 // findings
	mostRows     = 25  // of the accounts with a drift, of the holders, of what is pending
	mostMoments  = 24  // of a timeline: as many as can be told apart on a phone
)

// Extra is what the page says beside the report.
type Extra struct {
	// Version is the program's.
	Version string
	// Pay and Lock say where the databases are, as a person knows them, without how
	// to log in.
	Pay, Lock string
	// All is the command that prints every finding, where the page leaves some out.
	All string
}

//go:embed page.html
var pageText string

//go:embed page.css
var styleText string

// Write writes the page. It returns the first error of w.
func Write(w io.Writer, report reconcile.Report, extra Extra) error {
	tmpl, err := template.New("page").Funcs(template.FuncMap{
		"style": func() template.CSS { return template.CSS(styleText) }, //nolint:gosec // the embedded file, nothing of the report
	}).Parse(pageText)
	if err != nil {
		return fmt.Errorf("read the page's template: %w", err)
	}
	out := bufio.NewWriter(w)
	if err := tmpl.Execute(out, newPage(report, extra)); err != nil {
		return fmt.Errorf("write the page: %w", err)
	}
	if err := out.Flush(); err != nil {
		return fmt.Errorf("write the page: %w", err)
	}
	return nil
}

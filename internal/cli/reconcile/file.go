package reconcile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/dlockctl/dlockctl/internal/cli/app"
	"github.com/dlockctl/dlockctl/internal/reconcile"
	"github.com/dlockctl/dlockctl/internal/reconcile/html"
	"github.com/dlockctl/dlockctl/internal/ui"
)

// draft is a file that is begun before the run, so that a place that cannot be
// written is known at once, and gets its name when it is whole.
type draft struct {
	path string
	file *os.File
}

// newDraft begins a file; what says what it is to be, in an error.
func newDraft(path, what string) (*draft, error) {
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return nil, app.UsageError("name a file", "%s %q is no file", what, path)
	}
	file, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*") // 0600: it tells of money
	if err != nil {
		return nil, app.UsageError("name a file in a folder that you may write", "begin %s: %v", what, err)
	}
	return &draft{path, file}, nil
}

// discard removes what was not finished.
func (d *draft) discard() {
	if d != nil && d.file != nil {
		_ = d.file.Close()
		_ = os.Remove(d.file.Name())
	}
}

// finish gives the file its name, in the place of one that was there.
func (d *draft) finish() error {
	if err := d.file.Sync(); err != nil {
		return fmt.Errorf("write %s: %w", d.path, err)
	}
	if err := d.file.Close(); err != nil {
		return fmt.Errorf("write %s: %w", d.path, err)
	}
	if err := os.Rename(d.file.Name(), d.path); err != nil {
		return fmt.Errorf("write %s: %w", d.path, err)
	}
	d.file = nil
	return nil
}

// reportFile is the file of --report.
type reportFile struct {
	*draft

	kind string
}

// newReportFile begins the file; nil for no path.
func newReportFile(path string) (*reportFile, error) {
	if path == "" {
		return nil, nil
	}
	kind := strings.ToLower(filepath.Ext(path))
	switch kind {
	case ".html", ".json", ".csv":
	default:
		return nil, app.UsageError("its name says the format: .html, .json or .csv", "--report %q ends in none of them", path)
	}
	file, err := newDraft(path, "the report")
	if err != nil {
		return nil, err
	}
	return &reportFile{file, kind}, nil
}

// discard removes a report that was not written.
func (f *reportFile) discard() {
	if f != nil {
		f.draft.discard()
	}
}

// write writes the report.
func (f *reportFile) write(report reconcile.Report, engine reconcile.Options) error {
	if err := f.encode(report, engine); err != nil {
		return fmt.Errorf("write %s: %w", f.path, err)
	}
	return f.finish()
}

func (f *reportFile) encode(report reconcile.Report, engine reconcile.Options) error {
	switch f.kind {
	case ".json":
		report, err := report.Digested()
		if err != nil {
			return err
		}
		return ui.WriteJSON(f.file, report)
	case ".csv":
		return writeCSV(f.file, report)
	}
	version := ""
	if built, ok := debug.ReadBuildInfo(); ok {
		version = built.Main.Version
	}
	return html.Write(f.file, report, html.Extra{
		Version: version, Pay: place(engine.Pay), Lock: place(engine.Lock), All: "dlockctl reconcile -o jsonl",
	})
}

func writeCSV(w io.Writer, report reconcile.Report) error {
	var unused bytes.Buffer // CSV says nothing beside the data
	printer := ui.Printer{Streams: &ui.Streams{Out: w, Err: &unused}, Format: ui.CSV}
	return printer.Print(ui.View{Data: rows(report.Findings), Columns: findingColumns()})
}

// place is where a database is, without how to log in to it.
func place(config *pgx.ConnConfig) string {
	if config == nil {
		return ""
	}
	return fmt.Sprintf("%s on %s:%d", config.Database, config.Host, config.Port)
}

// hinted is an error of a file that says what is wanted instead.
type hinted interface {
	error
	Hint() string
}

// readFile reads a file that a flag names; what it is said to be in an error. A
// file that is none of its kind is wrong usage.
func readFile[T any](path, what string, read func(io.Reader) (T, error)) (T, error) {
	var none T
	file, err := os.Open(path)
	if err != nil {
		return none, app.UsageError("name a file that is there", "read %s: %v", what, err)
	}
	defer file.Close() //nolint:errcheck // it was only read
	value, err := read(file)
	var malformed hinted
	if errors.As(err, &malformed) {
		return none, app.UsageError(malformed.Hint(), "%s: %v", path, malformed)
	}
	return value, err
}

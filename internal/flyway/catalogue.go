package flyway

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
)

// Location is a folder of migrations, for instance {migrations.FS, "lockdb"}.
// Dir "" means the root of FS.
type Location struct {
	FS  fs.FS
	Dir string
}

// Migration is one file of a catalogue.
type Migration struct {
	Version       string `json:"version"` // as written in the name; "" for a repeatable
	Description   string `json:"description"`
	Script        string `json:"script"` // the file's name, as the history stores it
	Checksum      int32  `json:"checksum"`
	Transactional bool   `json:"transactional"`

	version    version
	text       string
	statements []statement
}

// Repeatable reports whether the migration runs again whenever its text changes.
func (m *Migration) Repeatable() bool { return m.Version == "" }

// Catalogue is a checked set of migrations in the order in which they run:
// versioned ones ascending, then repeatables by description.
type Catalogue struct {
	migrations []*Migration
}

// Migrations returns the files in the order in which they run.
func (c *Catalogue) Migrations() []Migration {
	all := make([]Migration, len(c.migrations))
	for i, m := range c.migrations {
		all[i] = *m
	}
	return all
}

// Load reads every file of the locations and checks it. All faults are reported at
// once, each a *FileError that names the file, where it can the line, and the fix.
func Load(locations ...Location) (*Catalogue, error) {
	c := &Catalogue{}
	var faults []error
	for _, location := range locations {
		dir := cmp.Or(location.Dir, ".")
		entries, err := fs.ReadDir(location.FS, dir)
		if err != nil {
			return nil, fmt.Errorf("read migrations: %w", err)
		}
		for _, entry := range entries {
			m, err := loadFile(location.FS, dir, entry)
			if err != nil {
				faults = append(faults, err)
				continue
			}
			c.migrations = append(c.migrations, m)
		}
	}
	slices.SortStableFunc(c.migrations, runOrder)
	faults = append(faults, duplicates(c.migrations)...)
	if len(faults) > 0 {
		return nil, errors.Join(faults...)
	}
	return c, nil
}

// runOrder compares descriptions, not file names: R__a_1 ("a 1") runs before R__a1,
// although '_' sorts after '1'.
func runOrder(a, b *Migration) int {
	if a.Repeatable() != b.Repeatable() {
		return cmp.Compare(btoi(a.Repeatable()), btoi(b.Repeatable()))
	}
	if a.Repeatable() {
		return cmp.Compare(a.Description, b.Description)
	}
	return a.version.compare(b.version)
}

// duplicates expects migrations in run order, where equal ones are neighbours.
func duplicates(migrations []*Migration) []error {
	var faults []error
	for i := 1; i < len(migrations); i++ {
		a, b := migrations[i-1], migrations[i]
		if runOrder(a, b) != 0 {
			continue
		}
		text := fmt.Sprintf("has the same version as %s; give one of them another number", a.Script)
		if b.Repeatable() {
			text = fmt.Sprintf("has the same description as %s; rename one of them", a.Script)
		}
		faults = append(faults, &FileError{File: b.Script, Reason: text})
	}
	return faults
}

func loadFile(fsys fs.FS, dir string, entry fs.DirEntry) (*Migration, error) {
	name := entry.Name()
	if entry.IsDir() {
		return nil, &FileError{File: name, Reason: "is a folder; migrations stand directly in their location"}
	}
	text, description, err := parseName(name)
	if err != nil {
		return nil, &FileError{File: name, Reason: err.Error()}
	}
	content, err := fs.ReadFile(fsys, path.Join(dir, name))
	if err != nil {
		return nil, fmt.Errorf("read migration: %w", err)
	}
	m := &Migration{Version: text, Description: description, Script: name, text: string(content)}
	if m.version, err = parseVersion(text); err != nil {
		return nil, &FileError{File: name, Reason: err.Error()}
	}
	if m.Checksum, err = Checksum(content); err != nil {
		return nil, &FileError{File: name, Reason: err.Error() + "; save it as UTF-8"}
	}
	if fault := checkText(content); fault != nil {
		return nil, &FileError{File: name, Line: fault.line, Reason: fault.text}
	}
	if m.statements, err = scan(m.text); err == nil {
		m.Transactional, err = checkStatements(m.statements)
	}
	if fault, ok := errors.AsType[*scanError](err); ok {
		return nil, &FileError{File: name, Line: fault.line, Reason: fault.text}
	}
	return m, err
}

// checkText refuses bytes that the two programs, or the server, would treat
// differently wherever they stand, in comments and strings too.
func checkText(content []byte) *scanError {
	if bytes.HasPrefix(content, byteOrderMark) {
		return &scanError{1, "starts with a byte order mark; save it without one"}
	}
	for _, bad := range []struct{ text, reason string }{
		{"\x00", "holds a NUL byte, where the server would stop reading; remove it"},
		{"${", `holds "${", which Flyway replaces; write it without the brace, or as '$' || '{'`},
	} {
		if at := strings.Index(string(content), bad.text); at >= 0 {
			return &scanError{1 + bytes.Count(content[:at], []byte("\n")), bad.reason}
		}
	}
	return nil
}

package flyway

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
)

// maxDescription is the width of the history's description column. Flyway cuts
// longer ones; refusing them keeps the comparison exact.
const maxDescription = 200

// fileName admits less than Flyway does: whole-number versions and snake case, so
// that no name exists that one of the two programs reads differently. Eighteen
// digits hold any timestamp.
var fileName = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^(?:V([0-9]{1,18})|R)__([a-z0-9]+(?:_[a-z0-9]+)*)\.sql$`)
})

// parseName splits a file name into its version ("" for a repeatable) and its
// description as Flyway stores it. The error says what is wrong and what to do.
func parseName(name string) (version, description string, err error) {
	if match := fileName().FindStringSubmatch(name); match != nil {
		description = strings.ReplaceAll(match[2], "_", " ")
		if len(description) > maxDescription {
			return "", "", fmt.Errorf("has a description of %d characters; shorten it to %d", len(description), maxDescription)
		}
		return match[1], description, nil
	}
	return "", "", errors.New(nameFault(name))
}

// nameFault explains why name is refused, most telling reason first.
func nameFault(name string) string {
	head, _, _ := strings.Cut(name, "__")
	switch {
	case strings.HasSuffix(name, ".conf"):
		return "is a Flyway script configuration, which only one of the two programs reads; remove it"
	case !strings.HasSuffix(name, ".sql"):
		return "is not a migration; only V<n>__snake_case.sql and R__snake_case.sql may stand here"
	case strings.HasPrefix(name, "U"):
		return "is an undo migration; there is no way down, write a new V<n>__… file that repairs forward"
	case strings.HasPrefix(name, "B"):
		return "is a baseline migration; use `dlockctl migrate baseline` on an existing database"
	case strings.HasPrefix(name, "V") && strings.ContainsAny(head, "._"):
		return fmt.Sprintf("has the dotted version %q; use a whole number, V<n>__snake_case.sql", head[1:])
	case !strings.Contains(name, "__"):
		return "has no double underscore between version and description; name it V<n>__snake_case.sql or R__snake_case.sql"
	default:
		return "is not named V<n>__snake_case.sql or R__snake_case.sql (lower case letters, digits, single underscores)"
	}
}

// version is a Flyway version number, possibly dotted: the history may hold some
// that were written for other files than ours. The zero value is "none".
type version struct {
	text  string
	parts []string // without leading zeros and without trailing zero parts
}

// parseVersion reads a version as the history stores it.
func parseVersion(text string) (version, error) {
	if text == "" {
		return version{}, nil
	}
	parts := strings.Split(text, ".")
	for i, part := range parts {
		if part == "" || strings.Trim(part, "0123456789") != "" {
			return version{}, fmt.Errorf("version %q is not made of digits and dots", text)
		}
		parts[i] = strings.TrimLeft(part, "0")
	}
	for len(parts) > 1 && parts[len(parts)-1] == "" {
		parts = parts[:len(parts)-1]
	}
	return version{text: text, parts: parts}, nil
}

// none reports whether v stands for "no version", which sorts below every other.
func (v version) none() bool { return v.text == "" }

// key is equal for versions that Flyway calls equal: 1, 01 and 1.0.
func (v version) key() string { return strings.Join(v.parts, ".") }

func (v version) compare(other version) int {
	if v.none() || other.none() {
		return cmp.Compare(btoi(!v.none()), btoi(!other.none()))
	}
	for i := range max(len(v.parts), len(other.parts)) {
		a, b := partAt(v.parts, i), partAt(other.parts, i)
		// Digits without leading zeros: the longer one is the larger number.
		if c := cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b)); c != 0 {
			return c
		}
	}
	return 0
}

func partAt(parts []string, i int) string {
	if i < len(parts) {
		return parts[i]
	}
	return ""
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

const newFileTemplate = `-- %s
--
-- Why:   what this version adds, and the clause that asks for it.
-- Locks: what it locks and for how long on a populated table.
-- Then:  what has to be true before it runs, and after.

`

var notSnake = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`[^a-z0-9]+`) })

// NewFile creates the next versioned migration in dir, V<n>__<description>.sql with
// a header comment to fill in, and returns its path. The description may be plain
// words. The file is refused by Load until it holds a statement.
func NewFile(dir, description string) (string, error) {
	snake := strings.Trim(notSnake().ReplaceAllString(strings.ToLower(description), "_"), "_")
	if snake == "" {
		return "", fmt.Errorf("description %q has no letter or digit to name a file after", description)
	}
	if len(snake) > maxDescription {
		return "", fmt.Errorf("description has %d characters; shorten it to %d", len(snake), maxDescription)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return "", fmt.Errorf("read migrations folder: %w", err)
	}
	next, width := uint64(1), 1
	for _, entry := range entries {
		text, _, err := parseName(entry.Name())
		if err != nil || text == "" {
			continue
		}
		var n uint64
		if _, err := fmt.Sscanf(text, "%d", &n); err != nil {
			return "", fmt.Errorf("read version of %s: %w", entry.Name(), err)
		}
		if text[0] == '0' {
			width = max(width, len(text)) // a folder that pads its numbers goes on padding them
		}
		next = max(next, n+1)
	}
	path := filepath.Join(dir, fmt.Sprintf("V%0*d__%s.sql", width, next, snake))
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644) //nolint:gosec // a source file, readable like its neighbours
	if err != nil {
		return "", fmt.Errorf("create migration: %w", err)
	}
	if _, err := fmt.Fprintf(file, newFileTemplate, strings.ReplaceAll(snake, "_", " ")); err != nil {
		return "", errors.Join(fmt.Errorf("write migration: %w", err), file.Close())
	}
	if err := file.Close(); err != nil {
		return "", fmt.Errorf("write migration: %w", err)
	}
	return path, nil
}

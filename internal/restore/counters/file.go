package counters

import (
	"bufio"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/dlockctl/dlockctl/internal/lockstore"
)

// keyColumns name the counter's key or the lock's, the one that is exact first.
func keyColumns() []string { return []string{"fence_key", "key"} }

// fenceColumns are the columns that hold a fence that was issued: of SyncGuard's
// own tables, of `lock list`, and of `restore plan`.
func fenceColumns() []string { return []string{"fence", "token", "counter", "lock_fence", "observed"} }

// ReadFile reads fences that were known before: CSV with a line of titles, as COPY
// … TO STDOUT (FORMAT csv, HEADER) of either table, lock list and restore plan write
// it, or JSON objects, one after another or in an array. Of each row the highest
// number counts. Errors wrap lockstore.ErrInvalid and name the row.
func (o Observations) ReadFile(r io.Reader, source string) error {
	text := bufio.NewReader(r)
	for {
		first, err := text.Peek(1)
		switch {
		case errors.Is(err, io.EOF):
			return fmt.Errorf("%w: %s is empty; give an export of the counters or the locks", lockstore.ErrInvalid, source)
		case err != nil:
			return fmt.Errorf("%w: read %s: %w", lockstore.ErrInvalid, source, err)
		case strings.ContainsRune(" \t\r\n", rune(first[0])):
			_, _ = text.Discard(1) // it was peeked at
		case first[0] == '{' || first[0] == '[':
			return o.readJSON(text, source)
		default:
			return o.readCSV(text, source)
		}
	}
}

func (o Observations) readJSON(r io.Reader, source string) error {
	decoder := json.NewDecoder(r)
	decoder.UseNumber()
	for n := 1; ; n++ {
		var value any
		err := decoder.Decode(&value)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%w: %s: object %d is no JSON: %w", lockstore.ErrInvalid, source, n, err)
		}
		for _, object := range objects(value) {
			fields := map[string]string{}
			for name, field := range object {
				switch field := field.(type) {
				case string:
					fields[name] = field
				case json.Number:
					fields[name] = field.String()
				}
			}
			if err := o.addRow(fields, source); err != nil {
				return fmt.Errorf("%s: object %d: %w", source, n, err)
			}
		}
	}
}

// objects are the rows of a JSON value: itself, those of an array, or the keys of a
// plan.
func objects(value any) []map[string]any {
	var found []map[string]any
	switch value := value.(type) {
	case []any:
		for _, one := range value {
			found = append(found, objects(one)...)
		}
	case map[string]any:
		if keys, isPlan := value["keys"].([]any); isPlan {
			return objects(keys)
		}
		found = append(found, value)
	}
	return found
}

func (o Observations) readCSV(r io.Reader, source string) error {
	reader := csv.NewReader(r)
	titles, err := reader.Read()
	if err != nil {
		return fmt.Errorf("%w: %s has no line of titles: %w", lockstore.ErrInvalid, source, err)
	}
	for i, title := range titles {
		titles[i] = strings.ToLower(strings.TrimSpace(title))
	}
	// A first line that is none would be taken for titles, and what it tells be lost.
	if err := titled(titles); err != nil {
		return fmt.Errorf("%w: %s: its first line is no line of titles: %w", lockstore.ErrInvalid, source, err)
	}
	for {
		record, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%w: %s: %w", lockstore.ErrInvalid, source, err)
		}
		fields := map[string]string{}
		for i, title := range titles {
			fields[title] = plainCSV(record[i])
		}
		line, _ := reader.FieldPos(0)
		if err := o.addRow(fields, source); err != nil {
			return fmt.Errorf("%s: line %d: %w", source, line, err)
		}
	}
}

// titled tells what is missing among the names of a row's columns.
func titled(names []string) error {
	has := func(wanted []string) bool {
		return slices.ContainsFunc(wanted, func(name string) bool { return slices.Contains(names, name) })
	}
	switch {
	case !has(fenceColumns()):
		return fmt.Errorf("it has none of the columns %s", strings.Join(fenceColumns(), ", "))
	case !has(keyColumns()):
		return errors.New("it has neither a fence_key nor a key")
	}
	return nil
}

// plainCSV takes off the mark that this program puts before what a spreadsheet would
// read as a formula.
func plainCSV(text string) string {
	if len(text) > 1 && text[0] == '\'' && strings.ContainsRune("=+-@\t\r", rune(text[1])) {
		return text[1:]
	}
	return text
}

// addRow takes the highest fence of a row. A lock that is nobody's has none, which
// is no mistake.
func (o Observations) addRow(fields map[string]string, source string) error {
	highest, named := int64(-1), false
	for _, name := range fenceColumns() {
		text, there := fields[name]
		named = named || there
		if text == "" {
			continue
		}
		fence, err := strconv.ParseInt(text, 10, 64)
		if err != nil || fence < 0 {
			return fmt.Errorf("%w: %s %q is no fence; give a number from 0", lockstore.ErrInvalid, name, text)
		}
		highest = max(highest, fence)
	}
	if !named {
		return fmt.Errorf("%w: it has none of the columns %s", lockstore.ErrInvalid, strings.Join(fenceColumns(), ", "))
	}
	for _, name := range keyColumns() {
		key := fields[name]
		switch {
		case key == "":
			continue
		case highest >= 0 && name == "key":
			o.Add(key, highest, source)
		case highest >= 0:
			o.addCounter(key, highest, source)
		}
		return nil
	}
	return fmt.Errorf("%w: it has neither a fence_key nor a key", lockstore.ErrInvalid)
}

package counters

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/lockstore/syncguard"
	"github.com/dlockctl/dlockctl/internal/plaintext"
)

// The columns that name the counter's key, and the lock's.
const fenceKeyColumn, keyColumn = "fence_key", "key"

func keyColumns() []string { return []string{fenceKeyColumn, keyColumn} }

// fenceColumns are the columns that hold a fence that was issued: of SyncGuard's
// own tables, of `lock list`, and of `restore plan`.
func fenceColumns() []string { return []string{"fence", "token", "counter", "lock_fence", "observed"} }

// ReadFile reads fences that were known before: CSV with a line of titles, as COPY
// … TO STDOUT (FORMAT csv, HEADER) of either table, lock list and restore plan write
// it, or JSON objects, one after another or in an array. Of each row the highest
// number counts. Errors wrap lockstore.ErrInvalid and name the row.
func (o Observations) ReadFile(r io.Reader, source string) error {
	text := bufio.NewReader(&bounded{r, mostBytes})
	if mark, _ := text.Peek(len(byteOrderMark)); string(mark) == byteOrderMark {
		_, _ = text.Discard(len(mark)) // it was peeked at; spreadsheets write it
	}
	for {
		first, err := text.Peek(1)
		switch {
		case errors.Is(err, io.EOF):
			return fmt.Errorf("%w: %s is empty; give an export of the counters or the locks", lockstore.ErrInvalid, source)
		case err != nil:
			return fmt.Errorf("%w: read %s: %w", lockstore.ErrInvalid, source, err)
		case first[0] == 0 || first[0] >= 0xfe:
			return fmt.Errorf("%w: %s: it is not UTF-8; save it as CSV in UTF-8", lockstore.ErrInvalid, source)
		case strings.ContainsRune(" \t\r\n", rune(first[0])):
			_, _ = text.Discard(1) // it was peeked at
		case first[0] == '{' || first[0] == '[':
			return o.readJSON(text, source)
		default:
			return o.readCSV(text, source)
		}
	}
}

// mostBytes is room for millions of counters. What is larger is something else.
const mostBytes = 1 << 30

const byteOrderMark = "\ufeff"

// bounded is a reader that fails where more than left bytes are read.
type bounded struct {
	io.Reader

	left int
}

func (b *bounded) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	if b.left -= n; b.left < 0 {
		return 0, errors.New("it is larger than 1 GiB; give an export of the counters or the locks")
	}
	return n, err //nolint:wrapcheck // a reader's own
}

func (o Observations) readJSON(r io.Reader, source string) error {
	text, err := io.ReadAll(r)
	if err != nil {
		return fmt.Errorf("%w: read %s: %w", lockstore.ErrInvalid, source, err)
	}
	if !utf8.Valid(text) { // the decoder would make another key of it
		return fmt.Errorf("%w: %s: it is not UTF-8; export it with client_encoding UTF8", lockstore.ErrInvalid, source)
	}
	// The decoder puts U+FFFD in the place of half a character, and so makes another key.
	replaced := bytes.ContainsRune(text, utf8.RuneError) || bytes.Contains(bytes.ToLower(text), []byte(`\ufffd`))
	decoder := json.NewDecoder(bytes.NewReader(text))
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
			if halved(object) && !replaced {
				return fmt.Errorf("%w: %s: object %d: its key has half a character (\\ud800 to \\udfff alone); export it again, or name the key by --observed KEY=N", lockstore.ErrInvalid, source, n)
			}
			if err := o.addRow(columnsOf(object), source); err != nil {
				return fmt.Errorf("%s: object %d: %w", source, n, err)
			}
		}
	}
}

// halved tells that a key of the row has what stands for half a character.
func halved(object map[string]any) bool {
	for _, column := range []string{"key", "fence_key"} {
		if text, _ := object[column].(string); strings.ContainsRune(text, utf8.RuneError) {
			return true
		}
	}
	return false
}

// objects are the rows of a JSON value: itself, those of an array, or the keys of a
// plan. What is no object is a row without columns.
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
	default:
		found = append(found, nil)
	}
	return found
}

// columnsOf are the fields of a row that a column can be; null is an empty one.
func columnsOf(object map[string]any) map[string]string {
	fields := map[string]string{}
	for name, field := range object {
		switch field := field.(type) {
		case string:
			fields[name] = field
		case json.Number:
			fields[name] = field.String()
		case nil:
			fields[name] = ""
		}
	}
	return fields
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
		if len(titles) == 1 && strings.ContainsAny(titles[0], ";\t") {
			err = errors.New("its columns are not separated by commas; export it so")
		}
		return fmt.Errorf("%w: %s: its first line is no line of titles: %w", lockstore.ErrInvalid, source, err)
	}
	// Of this program's own: a table's has a key '=a as it is.
	marked := slices.Contains(titles, "token") || slices.Contains(titles, "observed")
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
			if fields[title] = record[i]; marked {
				fields[title] = plainCSV(record[i])
			}
		}
		line, _ := reader.FieldPos(0)
		if err := o.addRow(fields, source); err != nil {
			return fmt.Errorf("%s: line %d: %w", source, line, err)
		}
	}
}

// titled tells what is missing among the names of a row's columns, or there twice, so
// that one would hide the other.
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
	for i, name := range names {
		if slices.Contains(names[:i], name) && slices.Contains(slices.Concat(keyColumns(), fenceColumns()), name) {
			return fmt.Errorf("it has two columns %s; leave one", name)
		}
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

// addRow takes the highest fence of a row. A lock that is nobody's has none, and 0 is
// of a counter that has issued none: neither is a mistake, and neither says anything.
func (o Observations) addRow(fields map[string]string, source string) error {
	if fields["state"] == string(Foreign) {
		return nil // as restore plan writes it: no lock of SyncGuard's draws from it
	}
	highest, err := highestFence(fields)
	if err != nil {
		return err
	}
	counter, err := counterOf(fields)
	if err != nil {
		return err
	}
	if highest > 0 {
		o.add(counter, Observation{Fence: highest, Source: source})
	}
	return nil
}

func highestFence(fields map[string]string) (int64, error) {
	highest, named := int64(0), false
	for _, name := range fenceColumns() {
		text, there := fields[name]
		named = named || there
		if text == "" {
			continue
		}
		fence, err := strconv.ParseInt(text, 10, 64)
		if err != nil || fence < 0 {
			return 0, fmt.Errorf("%w: %s %s is no fence; give a number from 0, or take the row out", lockstore.ErrInvalid, name, plaintext.Shown(text))
		}
		highest = max(highest, fence)
	}
	if !named {
		return 0, fmt.Errorf("%w: it has none of the columns %s", lockstore.ErrInvalid, strings.Join(fenceColumns(), ", "))
	}
	return highest, nil
}

// counterOf is the counter that a row is about. A fence_key is exact, and says which
// where the key might be normalised in two ways; both must be of one lock.
func counterOf(fields map[string]string) (string, error) {
	counter, key := fields[fenceKeyColumn], fields[keyColumn]
	switch {
	case counter == "" && key == "":
		return "", fmt.Errorf("%w: it has neither a fence_key nor a key", lockstore.ErrInvalid)
	case counter == "":
		made, err := syncguard.CounterKey(key)
		if err != nil {
			return "", fmt.Errorf("%w: SyncGuard's own name of its counter, in a column %s, is taken as it stands", err, fenceKeyColumn)
		}
		return made, nil
	}
	of, ours := syncguard.LockOfCounter(counter)
	switch {
	case !ours:
		return "", fmt.Errorf("%w: fence_key %s is no counter of SyncGuard's, which is fence: and a lock's key in NFC of at most 512 bytes; correct it, or take the row out",
			lockstore.ErrInvalid, plaintext.Shown(counter))
	case key == "" || key == of:
		return counter, nil
	}
	if made, err := syncguard.CounterKey(key); err != nil || made != counter {
		return "", fmt.Errorf("%w: key %s and fence_key %s are of two locks; correct the one that is wrong, or take the row out",
			lockstore.ErrInvalid, plaintext.Shown(key), plaintext.Shown(counter))
	}
	return counter, nil
}

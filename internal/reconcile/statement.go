package reconcile

import (
	"bufio"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// maxStatementLines bounds a statement, which is held in memory to be matched both
// ways: some hundred bytes a line.
const maxStatementLines = 1_000_000

// Statement is the rail's own list of what it did.
type Statement struct {
	lines []paidLine
	// from and until are the first and the last moment on it; zero without times.
	from, until time.Time
}

// paidLine is one line of a statement.
type paidLine struct {
	number         int
	reference, key string
	amount         int64
	currency       string
	at             time.Time
	// paid is false for what the rail lists as refused.
	paid bool
}

// StatementError says what is wrong with a statement, and where.
type StatementError struct {
	// Line counts from 1, the header; 0 for the file as a whole.
	Line          int
	Problem, Want string
}

func (e *StatementError) Error() string {
	if e.Line == 0 {
		return "the rail statement " + e.Problem
	}
	return fmt.Sprintf("the rail statement, line %d: %s", e.Line, e.Problem)
}

// Hint says what is wanted instead.
func (e *StatementError) Hint() string { return e.Want }

// byteOrderMark begins what some programs export.
const byteOrderMark = "\uFEFF"

const statementHeader = "its first line names the columns reference, key, amount_minor, currency, and where there are some status (PAID, REJECTED) and at (RFC 3339)"

// ReadStatement reads the rail's list as CSV. The first line names the columns, in any
// order: key (the payout's idempotency key) or reference or both, amount_minor (a
// whole number), currency, and where there are some status and at; others are passed
// over. It returns [*StatementError] for what it cannot read.
func ReadStatement(r io.Reader) (*Statement, error) {
	text := bufio.NewReader(r)
	if mark, err := text.Peek(len(byteOrderMark)); err == nil && string(mark) == byteOrderMark {
		_, _ = text.Discard(len(byteOrderMark)) // before a quote it would be none
	}
	in := csv.NewReader(text)
	in.ReuseRecord = true
	in.TrimLeadingSpace = true
	header, err := in.Read()
	if errors.Is(err, io.EOF) {
		return nil, &StatementError{Problem: "is empty", Want: statementHeader}
	}
	if err != nil {
		return nil, malformed(err)
	}
	columns, err := statementColumns(header)
	if err != nil {
		return nil, err
	}
	s := &Statement{}
	for {
		record, err := in.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, malformed(err)
		}
		number, _ := in.FieldPos(0)
		line, err := columns.line(record, number)
		if err != nil {
			return nil, err
		}
		if len(s.lines) == maxStatementLines {
			return nil, &StatementError{Problem: fmt.Sprintf("has more than %d lines", maxStatementLines), Want: "split it by day, and give each part on its own"}
		}
		s.add(line)
	}
	if len(s.lines) == 0 {
		return nil, &StatementError{Problem: "has no line below its header", Want: "an empty list proves nothing; ask the rail again"}
	}
	return s, nil
}

func (s *Statement) add(line paidLine) {
	s.lines = append(s.lines, line)
	if line.at.IsZero() {
		return
	}
	if s.from.IsZero() || line.at.Before(s.from) {
		s.from = line.at
	}
	if line.at.After(s.until) {
		s.until = line.at
	}
}

func malformed(err error) error {
	var parse *csv.ParseError
	if errors.As(err, &parse) {
		return &StatementError{Line: parse.Line, Problem: parse.Err.Error(), Want: "write it as CSV: commas between fields, quotes around those that hold one"}
	}
	return fmt.Errorf("read the rail statement: %w", err)
}

// columnsOf are the places of the known columns, -1 for one that is not there.
type columnsOf map[string]int

func statementColumns(header []string) (columnsOf, error) {
	columns := columnsOf{"reference": -1, "key": -1, "amount_minor": -1, "currency": -1, "status": -1, "at": -1}
	for i, name := range header {
		name = strings.ToLower(strings.TrimSpace(name))
		at, known := columns[name]
		if known && at >= 0 {
			return nil, &StatementError{Line: 1, Problem: fmt.Sprintf("the column %s is there twice", name), Want: statementHeader}
		}
		if known {
			columns[name] = i
		}
	}
	for _, name := range []string{"amount_minor", "currency"} {
		if columns[name] < 0 {
			return nil, &StatementError{Line: 1, Problem: "there is no column " + name, Want: statementHeader}
		}
	}
	if columns["key"] < 0 && columns["reference"] < 0 {
		return nil, &StatementError{Line: 1, Problem: "there is neither a column key nor reference", Want: statementHeader}
	}
	return columns, nil
}

func (c columnsOf) text(record []string, name string) string {
	if i := c[name]; i >= 0 {
		return strings.TrimSpace(record[i])
	}
	return ""
}

func (c columnsOf) line(record []string, number int) (paidLine, error) {
	refuse := func(problem, want string) (paidLine, error) {
		return paidLine{}, &StatementError{Line: number, Problem: problem, Want: want}
	}
	line := paidLine{number: number, reference: c.text(record, "reference"), key: c.text(record, "key"), currency: c.text(record, "currency")}
	for _, text := range []string{line.reference, line.key} {
		if !utf8.ValidString(text) || strings.ContainsRune(text, 0) {
			return refuse(fmt.Sprintf("%q is no text of UTF-8", text), "write the file as UTF-8")
		}
	}
	amount := c.text(record, "amount_minor")
	var err error
	if line.amount, err = strconv.ParseInt(amount, 10, 64); err != nil || line.amount <= 0 {
		return refuse(fmt.Sprintf("amount_minor %q is no whole number from 1 to %d", amount, int64(math.MaxInt64)), "give minor units: 1999 for 19.99")
	}
	if !currencyCode.MatchString(line.currency) {
		return refuse(fmt.Sprintf("currency %q is not three capital letters", line.currency), "give one such as EUR")
	}
	switch status := strings.ToUpper(c.text(record, "status")); status {
	case "", "PAID", "ACKED":
		line.paid = true
	case "REJECTED":
	default:
		return refuse(fmt.Sprintf("status %q is neither PAID nor REJECTED", status), "leave out what is neither yet")
	}
	if line.paid && line.key == "" && line.reference == "" {
		return refuse("there is neither a key nor a reference", "give one of them, so that it can be matched")
	}
	if at := c.text(record, "at"); at != "" {
		if line.at, err = time.Parse(time.RFC3339, at); err != nil {
			return refuse(fmt.Sprintf("at %q is no time of RFC 3339", at), "give one such as 2026-11-29T17:30:00Z")
		}
	}
	return line, nil
}

// repeated are the further lines of one payment: those whose key or reference an
// earlier line has.
func (s *Statement) repeated() []repetition {
	keys, references := map[string]int{}, map[string]int{}
	var found []repetition
	for i, l := range s.lines {
		if !l.paid {
			continue
		}
		first, again := earlier(keys, l.key, i)
		if !again {
			first, again = earlier(references, l.reference, i)
		} else {
			earlier(references, l.reference, i)
		}
		if again {
			found = append(found, repetition{first: s.lines[first], again: l})
		}
	}
	return found
}

type repetition struct{ first, again paidLine }

func earlier(seen map[string]int, name string, i int) (first int, again bool) {
	if name == "" {
		return 0, false
	}
	if first, again = seen[name]; !again {
		seen[name] = i
	}
	return first, again
}

// paidLines are those that the rail says it paid.
func (s *Statement) paidLines() []paidLine {
	return slices.DeleteFunc(slices.Clone(s.lines), func(l paidLine) bool { return !l.paid })
}

package reconcile

import (
	"bufio"
	"cmp"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// Statement is the rail's own list of what it did.
type Statement struct {
	// paid are the lines that say so; count is of all.
	paid  []paidLine
	count int
	// from and until are the first and the last moment on it; zero without times.
	from, until time.Time
	// timed and timeless are the first lines of either kind, 0 for none.
	timed, timeless int
}

// paidLine is one payment. There may be a million of them.
type paidLine struct {
	reference, key string
	amount         int64
	// micros is when, in microseconds of Unix, 0 for not known.
	micros   int64
	number   int32
	currency [3]byte
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
	lines, err := countLines(r)
	if err != nil {
		return nil, err
	}
	text := bufio.NewReader(r)
	if mark, err := text.Peek(len(byteOrderMark)); err == nil && string(mark) == byteOrderMark {
		_, _ = text.Discard(len(byteOrderMark)) // before a quote it would be none
	}
	records := &recordReader{from: text}
	in := csv.NewReader(records)
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
	s := &Statement{paid: make([]paidLine, 0, lines)}
	for {
		records.next()
		record, err := in.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, malformed(err)
		}
		number, _ := in.FieldPos(0)
		if err := s.add(columns, record, number); err != nil {
			return nil, err
		}
	}
	if s.count == 0 {
		return nil, &StatementError{Problem: "has no line below its header", Want: "an empty list proves nothing; ask the rail again"}
	}
	return s, nil
}

// add takes a record over. Where some lines have no time, what was paid between the first
// and the last one that have says nothing of what should be listed.
func (s *Statement) add(columns columnsOf, record []string, number int) error {
	line, paid, at, err := columns.line(record, number)
	if err != nil {
		return err
	}
	s.count++
	if paid {
		s.paid = append(s.paid, line)
	}
	switch {
	case at.IsZero() && paid:
		s.timeless = cmp.Or(s.timeless, number)
	case at.IsZero():
	case s.timed == 0:
		s.timed, s.from, s.until = number, at, at
	case at.Before(s.from):
		s.from = at
	case at.After(s.until):
		s.until = at
	}
	if s.timed > 0 && s.timeless > 0 {
		return &StatementError{
			Line: max(s.timed, s.timeless), Problem: fmt.Sprintf("of lines %d and %d only one has a time in the column at", min(s.timed, s.timeless), max(s.timed, s.timeless)),
			Want: "give all lines one, or leave the column out: by the times it is known what has to be listed",
		}
	}
	return nil
}

func malformed(err error) error {
	if long, ok := errors.AsType[*StatementError](err); ok {
		return long
	}
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

// line reads a record: what it says, whether it was paid, and when, zero for not known.
func (c columnsOf) line(record []string, number int) (line paidLine, paid bool, at time.Time, err error) {
	refuse := func(problem, want string) (paidLine, bool, time.Time, error) {
		return paidLine{}, false, time.Time{}, &StatementError{Line: number, Problem: problem, Want: want}
	}
	reference, key, currency := c.text(record, "reference"), c.text(record, "key"), c.text(record, "currency")
	for _, text := range []string{reference, key} {
		if !utf8.ValidString(text) || strings.ContainsRune(text, 0) {
			return refuse(fmt.Sprintf("%s is no text of UTF-8", cited(text)), "write the file as UTF-8")
		}
	}
	amount := c.text(record, "amount_minor")
	line.number = int32(number) //nolint:gosec // at most a million lines
	if line.amount, err = strconv.ParseInt(amount, 10, 64); err != nil || line.amount <= 0 {
		return refuse(fmt.Sprintf("amount_minor %s is no whole number from 1 to %d", cited(amount), int64(math.MaxInt64)), "give minor units: 1999 for 19.99")
	}
	if !currencyCode.MatchString(currency) {
		return refuse(fmt.Sprintf("currency %s is not three capital letters", cited(currency)), "give one such as EUR")
	}
	copy(line.currency[:], currency)
	switch status := strings.ToUpper(c.text(record, "status")); status {
	case "", "PAID", "ACKED":
		paid = true
	case "REJECTED":
	default:
		return refuse(fmt.Sprintf("status %s is neither PAID nor REJECTED", cited(status)), "leave out what is neither yet")
	}
	if paid && key == "" && reference == "" {
		return refuse("there is neither a key nor a reference", "give one of them, so that it can be matched")
	}
	if text := c.text(record, "at"); text != "" {
		if at, err = time.Parse(time.RFC3339, text); err != nil {
			return refuse(fmt.Sprintf("at %s is no time of RFC 3339", cited(text)), "give one such as 2026-11-29T17:30:00Z")
		}
		line.micros = at.UnixMicro()
	}
	// Of the record's own text nothing is kept: it may have columns that nobody reads.
	both := strings.Clone(key + reference)
	line.key, line.reference = both[:len(key)], both[len(key):]
	return line, paid, at, nil
}

// mostCited is how much of a field is told.
const mostCited = 60

func cited(text string) string {
	if len(text) > mostCited {
		return strconv.Quote(text[:mostCited]) + "…"
	}
	return strconv.Quote(text)
}

// span says what was looked for on the statement, "" for everything.
func (s *Statement) span() string {
	if s == nil || s.from.IsZero() {
		return ""
	}
	return fmt.Sprintf("the rail's statement is of %s to %s: what was paid before or after, as paydb has it, was not looked for on it (S02)",
		s.from.UTC().Format(time.RFC3339), s.until.UTC().Format(time.RFC3339))
}

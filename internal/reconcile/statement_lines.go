package reconcile

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
)

const (
	// maxStatementLines bounds a statement, whose payments are held in memory to be
	// matched both ways: about a hundred bytes each.
	maxStatementLines = 1_000_000
	// maxRecord bounds one record of it, in bytes: a quote that nobody closes would make a
	// field of all that follows.
	maxRecord = 64 << 10
)

// recordReader hands on one line at a time, so that it knows which record a line belongs
// to, and refuses what is too long before it is in memory.
type recordReader struct {
	from *bufio.Reader
	// line is the one handed on last, begun that on which the record began, 0 for none.
	line, begun int
	// within tells that the line goes on, size counts the record's bytes.
	within bool
	size   int
}

// next begins a new record.
func (r *recordReader) next() { r.begun, r.size = 0, 0 }

// Read returns the rest of a line at most.
func (r *recordReader) Read(p []byte) (int, error) {
	if _, err := r.from.Peek(1); err != nil {
		return 0, err //nolint:wrapcheck // the end, or what the caller says was being read
	}
	text, _ := r.from.Peek(min(len(p), r.from.Buffered())) // which is there
	if end := bytes.IndexByte(text, '\n'); end >= 0 {
		text = text[:end+1]
	}
	if !r.within {
		r.line++
	}
	// A blank line before a record is none of it.
	if r.begun == 0 && len(bytes.Trim(text, "\r\n")) > 0 {
		r.begun = r.line
	}
	r.within = text[len(text)-1] != '\n'
	if r.begun > 0 {
		r.size += len(text)
	}
	switch {
	case r.line > maxStatementLines+1: // the header
		return 0, manyLines()
	case r.size > maxRecord:
		return 0, &StatementError{
			Line: r.begun, Problem: fmt.Sprintf("what begins there is longer than %d bytes", maxRecord),
			Want: "a field is too long, or a quote is never closed",
		}
	}
	n := copy(p, text)
	_, _ = r.from.Discard(n) // they are buffered
	return n, nil
}

func manyLines() *StatementError {
	return &StatementError{
		Line: maxStatementLines + 2, Problem: fmt.Sprintf("there are more than %d lines below the header", maxStatementLines),
		Want: "split it by day, and give each part on its own",
	}
}

// countLines counts the lines of a file, up to those that a statement may have, and goes
// back to where it was: one that is too long is refused before any of it is read. Of
// what cannot be read twice, such as a pipe, there are 0.
func countLines(r io.Reader) (lines int, err error) {
	file, seeks := r.(io.ReadSeeker)
	if !seeks {
		return 0, nil
	}
	begin, err := file.Seek(0, io.SeekCurrent)
	if err != nil {
		return 0, nil //nolint:nilerr // a pipe has no place
	}
	part := make([]byte, maxRecord)
	for lines <= maxStatementLines+1 {
		n, err := file.Read(part)
		lines += bytes.Count(part[:n], []byte{'\n'})
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return 0, fmt.Errorf("read the rail statement: %w", err)
		}
	}
	if lines > maxStatementLines+1 { // the header
		return 0, manyLines()
	}
	if _, err := file.Seek(begin, io.SeekStart); err != nil {
		return 0, fmt.Errorf("read the rail statement: %w", err)
	}
	return lines, nil
}

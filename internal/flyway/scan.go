package flyway

import (
	"fmt"
	"slices"
	"strings"
)

// statement is one SQL statement of a migration, as far as its kind must be known.
type statement struct {
	line         int      // 1-based line of its first token
	words        []string // words outside parentheses; bare ones in upper case, quoted ones with their quotes
	concurrently bool     // CONCURRENTLY stands anywhere in it
}

// makesRoutine tells whether the statement may hold a body of SQL statements.
func (s *statement) makesRoutine() bool {
	return s != nil && len(s.words) > 0 && s.words[0] == "CREATE" && (slices.Contains(s.words, "FUNCTION") || slices.Contains(s.words, "PROCEDURE"))
}

// scanError is a place in a file that cannot be a migration.
type scanError struct {
	line int
	text string
}

func (e *scanError) Error() string { return fmt.Sprintf("line %d: %s", e.line, e.text) }

// scanner walks over SQL as PostgreSQL's lexer would, with
// standard_conforming_strings on: it only has to tell code from strings,
// dollar-quoted bodies and comments, where words such as BEGIN mean nothing.
type scanner struct {
	text       string
	pos        int
	line       int
	parens     int
	atomic     int // nesting inside BEGIN ATOMIC … END, whose semicolons end no statement
	current    *statement
	lastWord   string
	statements []statement
}

// scan splits text into statements. It refuses what PostgreSQL's server would not
// take as SQL: psql's backslash commands and anything left unterminated.
func scan(text string) ([]statement, error) {
	s := &scanner{text: text, line: 1}
	for s.pos < len(s.text) {
		if err := s.step(); err != nil {
			return nil, err
		}
	}
	s.finish()
	return s.statements, nil
}

// step consumes one token, comment or blank.
func (s *scanner) step() error {
	rest := s.text[s.pos:]
	c := rest[0]
	switch {
	case c == '\n':
		s.line++
		s.pos++
	case c == ' ' || c == '\t' || c == '\r' || c == '\f' || c == '\v':
		s.pos++
	case strings.HasPrefix(rest, "--"):
		s.skip(lineLength(rest))
	case strings.HasPrefix(rest, "/*"):
		return s.blockComment()
	case c == ';' && s.parens == 0 && s.atomic == 0:
		s.finish()
		s.pos++
	case c == '\\':
		return &scanError{s.line, "a psql command (backslash) is not SQL; write what it does as SQL"}
	default:
		s.open()
		return s.token(c, rest)
	}
	return nil
}

// token consumes one token of code that starts with c.
func (s *scanner) token(c byte, rest string) error {
	switch {
	case c == '\'':
		return s.quoted('\'', false, "string")
	case c == '"':
		start := s.pos
		if err := s.quoted('"', false, "quoted name"); err != nil {
			return err
		}
		s.word(s.text[start:s.pos])
	case c == '$':
		return s.dollar(rest)
	case c == '(':
		s.parens++
		s.pos++
	case c == ')':
		s.parens = max(0, s.parens-1)
		s.pos++
	case isLetter(c):
		word := rest[:wordLength(rest)]
		s.pos += len(word)
		if (word == "e" || word == "E") && s.pos < len(s.text) && s.text[s.pos] == '\'' {
			return s.quoted('\'', true, "string")
		}
		s.word(strings.ToUpper(word))
	case isDigit(c):
		s.pos += wordLength(rest) // 1e5, 0x1F: no word may start inside a number
	default:
		s.pos++
	}
	return nil
}

// word notes a word of code and follows SQL-standard function bodies.
func (s *scanner) word(word string) {
	switch {
	case word == "ATOMIC" && s.lastWord == "BEGIN" && s.current.makesRoutine(), word == "CASE" && s.atomic > 0:
		s.atomic++
	case word == "END" && s.atomic > 0:
		s.atomic--
	}
	s.lastWord = word
	if word == "CONCURRENTLY" {
		s.current.concurrently = true
	}
	if s.parens == 0 {
		s.current.words = append(s.current.words, word)
	}
}

// quoted consumes a literal in quote marks; a doubled mark stands for itself, and
// with escapes a backslash takes the next byte along.
func (s *scanner) quoted(mark byte, escapes bool, what string) error {
	start := s.line
	for i := s.pos + 1; i < len(s.text); i++ {
		switch {
		case escapes && s.text[i] == '\\':
			i++
		case s.text[i] == mark && i+1 < len(s.text) && s.text[i+1] == mark:
			i++
		case s.text[i] == mark:
			if next := continued(s.text[i+1:]); escapes && next > 0 {
				i += next
				continue
			}
			s.skip(i + 1 - s.pos)
			return nil
		}
	}
	return &scanError{start, "unterminated " + what}
}

// continued returns how far on a literal goes on: PostgreSQL joins two that only
// white space with a line break, and comments to the end of a line, stand between,
// and reads the second with the escapes of the first. 0 when it does not.
func continued(text string) int {
	broken := false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '\n' || c == '\r':
			broken = true
		case c == ' ' || c == '\t' || c == '\f' || c == '\v':
		case broken && strings.HasPrefix(text[i:], "--"):
			i += lineLength(text[i:]) - 1
		case broken && c == '\'':
			return i + 1
		default:
			return 0
		}
	}
	return 0
}

// dollar consumes a dollar-quoted body, or the dollar of a parameter such as $1.
func (s *scanner) dollar(rest string) error {
	end := strings.IndexByte(rest[1:], '$')
	if end < 0 || !isTag(rest[1:1+end]) {
		s.pos++
		return nil
	}
	tag := rest[:end+2]
	length := strings.Index(rest[len(tag):], tag)
	if length < 0 {
		return &scanError{s.line, "unterminated body " + tag}
	}
	s.skip(length + 2*len(tag))
	return nil
}

// blockComment consumes a comment; in PostgreSQL they nest.
func (s *scanner) blockComment() error {
	start, depth := s.line, 0
	for i := s.pos; i < len(s.text); {
		switch {
		case strings.HasPrefix(s.text[i:], "/*"):
			depth++
			i += 2
		case strings.HasPrefix(s.text[i:], "*/"):
			depth--
			i += 2
		default:
			i++
		}
		if depth == 0 {
			s.skip(i - s.pos)
			return nil
		}
	}
	return &scanError{start, "unterminated comment"}
}

func (s *scanner) skip(n int) {
	s.line += strings.Count(s.text[s.pos:s.pos+n], "\n")
	s.pos += n
}

func (s *scanner) open() {
	if s.current == nil {
		s.current = &statement{line: s.line}
	}
}

func (s *scanner) finish() {
	if s.current != nil {
		s.statements = append(s.statements, *s.current)
	}
	s.current, s.lastWord, s.parens, s.atomic = nil, "", 0, 0
}

func lineLength(text string) int {
	// To PostgreSQL a lone carriage return ends a comment as well.
	if i := strings.IndexAny(text, "\r\n"); i >= 0 {
		return i
	}
	return len(text)
}

func wordLength(text string) int {
	for i := range len(text) {
		if c := text[i]; !isLetter(c) && !isDigit(c) && c != '$' {
			return i
		}
	}
	return len(text)
}

// isTag reports whether tag may stand between the dollars of a dollar quote.
func isTag(tag string) bool {
	return tag == "" || (isLetter(tag[0]) && wordLength(tag) == len(tag))
}

func isLetter(c byte) bool {
	return c == '_' || c >= 0x80 || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

package flyway

import (
	"regexp"
	"slices"
	"strings"
	"sync"
)

// outsideTransaction is what Flyway 13 itself recognises as unable to run inside a
// transaction. The list is its list: a file both programs must agree on.
// Compiled when it is first used, since most commands have no use for it.
var outsideTransaction = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^(?:` +
		`(?:CREATE|DROP) (?:DATABASE|TABLESPACE|SUBSCRIPTION)` +
		`|ALTER SYSTEM` +
		`|(?:CREATE|DROP)(?: UNIQUE)? INDEX CONCURRENTLY` +
		`|REINDEX(?: VERBOSE)? (?:SCHEMA|DATABASE|SYSTEM)` +
		`|VACUUM` +
		`|DISCARD ALL` +
		`)(?: |$)`)
})

// transactional reports whether the statement runs inside a transaction.
func (s statement) transactional() bool {
	return !outsideTransaction().MatchString(strings.Join(s.words, " "))
}

// index returns the name of the index that a CREATE or DROP INDEX CONCURRENTLY
// statement works on, unquoted, or "" when it has none.
func (s statement) index() string {
	at := slices.Index(s.words, "CONCURRENTLY")
	if at < 0 || s.transactional() {
		return ""
	}
	for _, word := range s.words[at+1:] {
		switch {
		case word == "IF" || word == "NOT" || word == "EXISTS":
		case word == "ON":
			return "" // the server chooses the name
		case word[0] == '"':
			return strings.ReplaceAll(word[1:len(word)-1], `""`, `"`)
		default:
			return strings.ToLower(word)
		}
	}
	return ""
}

// fault says why the statement may not stand in a migration, or "".
func (s statement) fault() string {
	if len(s.words) == 0 {
		return ""
	}
	first, second := s.words[0], ""
	if len(s.words) > 1 {
		second = s.words[1]
	}
	switch first {
	case "BEGIN", "COMMIT", "END", "ROLLBACK", "ABORT", "SAVEPOINT", "RELEASE":
		return first + " is not for a migration: each file is one transaction with its history row; remove it"
	case "START", "PREPARE":
		if second == "TRANSACTION" {
			return first + " TRANSACTION is not for a migration: each file is one transaction with its history row; remove it"
		}
	case "COPY":
		if slices.Contains(s.words, "STDIN") || slices.Contains(s.words, "STDOUT") {
			return "COPY through the client is not SQL text; write INSERT … VALUES instead"
		}
	case "REINDEX", "ALTER":
		if s.concurrently && s.transactional() {
			return first + " … CONCURRENTLY cannot run in a transaction and Flyway does not see that; " +
				"run it by hand, or build the new index with CREATE INDEX CONCURRENTLY in a file of its own"
		}
	}
	return ""
}

// checkStatements applies the rules that concern a whole file and reports whether
// the file runs inside a transaction.
func checkStatements(statements []statement) (bool, error) {
	if len(statements) == 0 {
		return false, &scanError{1, "holds no statement; write one or remove the file (an applied file can never be edited)"}
	}
	for _, s := range statements {
		if fault := s.fault(); fault != "" {
			return false, &scanError{s.line, fault}
		}
	}
	if len(statements) == 1 {
		return statements[0].transactional(), nil
	}
	for _, s := range statements {
		if !s.transactional() {
			return false, &scanError{s.line, strings.Join(s.words[:min(3, len(s.words))], " ") +
				" … cannot run in a transaction; give it a file of its own"}
		}
	}
	return true, nil
}

package runbook_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"
)

// serviceNames are the services of ~/.pg_service.conf that the pages name, by the variable
// that holds the same as a connection string.
func serviceNames() map[string]string {
	return map[string]string{
		"LOCKDB_ADMIN": "lockdb-admin", "LOCKDB_OWNER": "lockdb-owner", "LOCKDB_AUDITOR": "lockdb-auditor",
		"PAYDB_ADMIN": "paydb-admin", "PAYDB_OWNER": "paydb-owner",
		"OLD_PRIMARY": "old-lockdb", "OLD_ADMIN": "old-lockdb-admin", "PROD_LOCKDB": "prod-lockdb", "PROD_PAYDB": "prod-paydb",
	}
}

// services writes the file in which psql finds them, as the databases stand now: whole,
// for another one of the same person may be reading it.
func (s *stage) services(t *testing.T) (path string) {
	t.Helper()
	var text strings.Builder
	last := map[string]string{}
	for _, set := range s.env {
		name, value, _ := strings.Cut(set, "=")
		last[name] = value
	}
	for variable, service := range serviceNames() {
		if last[variable] == "" {
			continue
		}
		config, err := pgx.ParseConfig(last[variable])
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&text, "[%s]\nhost=%s\nport=%d\ndbname=%s\nuser=%s\n", service, config.Host, config.Port, config.Database, config.User)
		if config.Password != "" {
			fmt.Fprintf(&text, "password=%s\n", config.Password)
		}
	}
	path = filepath.Join(s.home, ".pg_service.conf")
	file, err := os.CreateTemp(s.home, ".pg_service-")
	if err != nil {
		t.Fatal(err)
	}
	_, err = file.WriteString(text.String())
	// Whoever plays the server's user reads it too.
	if err := errors.Join(err, file.Chmod(0o644), file.Close(), os.Rename(file.Name(), path)); err != nil {
		t.Fatal(err)
	}
	return path
}

// guarded stands in for a client of PostgreSQL in the pages: it refuses a password among
// its arguments, which every user of the machine can list, and goes on with the real one.
const guarded = `#!/bin/bash
case "$*" in *assword=*|*PASSWORD*|*://*:*@*) echo "$0: a password is among the arguments" >&2; exit 97 ;; esac
PATH="${PATH#*:}"
exec "$(basename "$0")" "$@"
`

// guard puts the stand-ins first on the path.
func guard(t *testing.T, home string) {
	t.Helper()
	for _, name := range []string{"psql", "pg_basebackup", "pg_dump", "pg_restore"} {
		if err := writeProgram(filepath.Join(home, name), []byte(guarded)); err != nil {
			t.Fatal(err)
		}
	}
}

// writeProgram writes a file to be executed. Nothing is started meanwhile: a process is
// born with the file open for writing, and until it is another program nobody can execute
// that file (ETXTBSY).
func writeProgram(path string, text []byte) error {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	return os.WriteFile(path, text, 0o755)
}

var (
	// secretVariable holds a connection string, with whatever password is in it.
	secretVariable = regexp.MustCompile(`\$\{?((LOCKDB|PAYDB)_(OWNER|ADMIN|AUDITOR|OPERATOR)|OLD_PRIMARY|OLD_ADMIN|PROD_(LOCKDB|PAYDB)|DLOCKCTL_[A-Z]+_DSN)\b`)
	// unlisted is where no process listing shows it: an assignment before a command, a
	// builtin of the shell, standard input.
	unlisted = regexp.MustCompile(`(?ms)\b[A-Z_]+="?\$\{?[A-Z_]+\}?"?(\s|$)|printf '%s\\n' "\$[A-Z_]+"|<<(SQL|END)$.*?^(SQL|END)$`)
)

// No page puts a connection string on a command line.
//
// Mutation: write psql "$LOCKDB_OWNER" in a page.
func TestNoPasswordOnACommandLine(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(filepath.Join(folder, "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	found := false
	for _, file := range files {
		for _, b := range blocks(t, file) {
			found = found || secretVariable.MatchString(b.text)
			if left := secretVariable.FindString(unlisted.ReplaceAllString(b.text, "")); left != "" {
				t.Errorf("%s, line %d: %s is an argument there; every user of the machine can list it: name a service of ~/.pg_service.conf, or a file", file, b.line, left)
			}
		}
	}
	if !found {
		t.Error("no page holds a connection string at all: the test looks for the wrong names")
	}
}

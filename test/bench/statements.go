package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// root is the project's root, seen from this folder, in which `make bench` and
// `go run .` run.
var root = filepath.Join("..", "..")

// statements are the specified statements as the store itself keeps them, with
// :name parameters. Every reference runs this text, so that it cannot fall
// behind.
type statements struct{ acquire, release string }

func readStatements() (statements, error) {
	acquire, err := readStatement("acquire")
	if err != nil {
		return statements{}, err
	}
	release, err := readStatement("release")
	return statements{acquire, release}, err
}

func readStatement(name string) (string, error) {
	path := filepath.Join(root, "internal", "lockstore", "postgres", "queries", name+".sql")
	text, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("read the specified statement: %w; run it in test/bench, as `make bench` does", err)
	}
	return stripped(string(text)), nil
}

// stripped is a statement without its comments and its semicolon.
func stripped(text string) string {
	lines := slices.DeleteFunc(slices.Collect(strings.Lines(text)), func(line string) bool { return strings.HasPrefix(line, "--") })
	return strings.TrimSuffix(strings.TrimSpace(strings.Join(lines, "")), ";")
}

var parameter = regexp.MustCompile(`:[a-z_]+`)

// substituted replaces every :name by what is given for it.
func substituted(statement string, values map[string]string) (string, error) {
	var unknown []string
	text := parameter.ReplaceAllStringFunc(statement, func(match string) string {
		value, known := values[match[1:]]
		if !known {
			unknown = append(unknown, match)
		}
		return value
	})
	if len(unknown) > 0 {
		return "", fmt.Errorf("the specified statement has parameters that the benchmark does not know: %s", strings.Join(unknown, ", "))
	}
	return text, nil
}

// numbered is the statement with the driver's $1, $2, … for the names in order.
func numbered(statement string, names ...string) (string, error) {
	values := make(map[string]string, len(names))
	for i, name := range names {
		values[name] = "$" + strconv.Itoa(i+1)
	}
	return substituted(statement, values)
}

// literal is the statement with the values in it, for `psql -c`, which knows no
// parameters. The values are this program's own and hold no quote.
func literal(statement, key, token string) (string, error) {
	return substituted(statement, map[string]string{
		"key": "'" + key + "'", "token": token,
		"owner_id": "'" + owner + "'", "session_id": "'" + sessionID + "'", "ttl_seconds": seconds(),
	})
}

func seconds() string { return strconv.FormatFloat(ttl.Seconds(), 'f', -1, 64) }

// pgbenchScript is both statements for pgbench, one transaction each. \gset
// makes a variable of each column that the acquire returns.
func (s statements) pgbenchScript() (string, error) {
	values := map[string]string{"key": "('p-' || :client_id || '-' || :k)", "token": ":fencing_token"}
	for _, name := range []string{"owner_id", "session_id", "ttl_seconds"} {
		values[name] = ":" + name
	}
	acquire, err := substituted(s.acquire, values)
	if err != nil {
		return "", err
	}
	release, err := substituted(s.release, values)
	return "\\set k random(1, 1000000)\n" + acquire + " \\gset\n" + release + ";\n", err
}

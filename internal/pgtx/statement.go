package pgtx

import (
	"bytes"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"
)

// Statement reads queries/<name>.sql and writes its :name parameters as the
// driver's $1, $2, … in the given order. It panics when the file and the list
// disagree: a mistake of the package that embeds them, found as soon as it is
// loaded.
func Statement(files fs.ReadFileFS, name string, params ...string) string {
	text, err := files.ReadFile("queries/" + name + ".sql")
	if err != nil {
		panic(err)
	}
	kept := text[:0]
	for line := range bytes.Lines(text) {
		if !bytes.HasPrefix(line, []byte("--")) {
			kept = append(kept, line...)
		}
	}
	sql, used := number(string(bytes.TrimSuffix(bytes.TrimSpace(kept), []byte(";"))), params)
	if used != len(params) {
		panic(fmt.Sprintf("queries/%s.sql: uses %d of %d parameters, or one that is not in the list", name, used, len(params)))
	}
	return sql
}

// number replaces each :name by its number, and counts the different ones; -1
// when one is not among params. By hand: it runs at the start of every command.
func number(text string, params []string) (sql string, used int) {
	var out strings.Builder
	out.Grow(len(text)) // a number is mostly shorter than its name
	seen := make([]bool, len(params))
	for len(text) > 0 {
		before, rest, _ := strings.Cut(text, ":")
		out.WriteString(before)
		name := rest[:len(rest)-len(strings.TrimLeft(rest, "_abcdefghijklmnopqrstuvwxyz"))]
		text = rest[len(name):]
		switch {
		case strings.HasPrefix(rest, ":"): // a cast
			out.WriteString("::")
			text = rest[1:]
		case name != "":
			at := slices.Index(params, name)
			if at < 0 {
				return "", -1
			}
			if !seen[at] {
				seen[at] = true
				used++
			}
			out.WriteString("$" + strconv.Itoa(at+1))
		}
	}
	return out.String(), used
}

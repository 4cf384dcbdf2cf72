// Package topic is the pages of `dlockctl help` that belong to no command.
package topic

import (
	_ "embed"
	"fmt"
	"strings"

	"github.com/dlockctl/dlockctl/internal/cli/app"
	"github.com/dlockctl/dlockctl/internal/config"
)

// Topic is one page.
type Topic struct {
	// Name is the word after help, Short what the page is about.
	Name, Short string
	// Text makes the page when it is asked for.
	Text func() string
}

//go:embed formatting.txt
var formatting string

//go:embed tokens.txt
var tokens string

// All lists the pages by name.
func All() []Topic {
	return []Topic{
		{"environment", "variables and configuration keys", environment},
		{"exit-codes", "what an exit code means", exitCodes},
		{"formatting", "output formats, --jq, --template, --columns", func() string { return formatting }},
		{"tokens", "what a fencing token is, and how to use one", func() string { return tokens }},
	}
}

// Names lists the names of the pages.
func Names() []string {
	var names []string
	for _, t := range All() {
		names = append(names, t.Name)
	}
	return names
}

// Find returns the page of a name.
func Find(name string) (Topic, bool) {
	for _, t := range All() {
		if t.Name == name {
			return t, true
		}
	}
	return Topic{}, false
}

func exitCodes() string {
	var b strings.Builder
	b.WriteString("An exit code says what became of a command. The numbers are stable.\n\n")
	for _, e := range app.Exits() {
		fmt.Fprintf(&b, "  %3d  %s\n", e, e.Meaning())
	}
	b.WriteString("\nWith -o json an error is one JSON object on stderr: code, message, hint, exit_code,\n" +
		"details. docs/exit-codes.md has a row for each code, and for each verb whose exit code is\nits answer.\n")
	return b.String()
}

// environment lists every key there is, from the one table of them.
func environment() string {
	var b strings.Builder
	b.WriteString("A value is taken from, first wins: flag, environment, profile, configuration file, default.\n" +
		"dlockctl config show --origin says where each came from.\n\n")
	width := 0
	for _, s := range config.Keys() {
		width = max(width, len(s.Env()))
	}
	for _, s := range config.Keys() {
		name, flag := s.Env(), ""
		if s.FileOnly {
			name = "(file only)"
		}
		if s.Flag != "" {
			flag = " --" + s.Flag
		}
		fmt.Fprintf(&b, "  %-*s  %s%s\n", width, name, s.Key, flag)
	}
	b.WriteString("\nAlso honoured: DLOCKCTL_CONFIG, DLOCKCTL_COMPLETION_DB=0, XDG_CONFIG_HOME, XDG_STATE_HOME,\n" +
		"PG* of PostgreSQL with pgpass and service files, NO_COLOR, CLICOLOR, CLICOLOR_FORCE, TERM.\n" +
		"A variable that is set to nothing counts as not set.\n")
	return b.String()
}

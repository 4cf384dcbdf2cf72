package ui

import (
	"fmt"
	"slices"
	"strings"
)

// Format is what -o asks for.
type Format string

// The output formats.
const (
	Table Format = "table"
	Wide  Format = "wide"
	JSON  Format = "json"
	JSONL Format = "jsonl"
	YAML  Format = "yaml"
	CSV   Format = "csv"
	Name  Format = "name"
)

// Formats lists every output format.
func Formats() []string {
	return []string{string(Table), string(Wide), string(JSON), string(JSONL), string(YAML), string(CSV), string(Name)}
}

// ParseFormat reads an -o value.
func ParseFormat(s string) (Format, error) {
	if !slices.Contains(Formats(), s) {
		return "", fmt.Errorf("output %q is unknown; give one of %s", s, strings.Join(Formats(), ", "))
	}
	return Format(s), nil
}

// View is a result and how to lay it out. The JSON form of Data is the
// contract; every other format is made from it.
type View struct {
	// Data is a struct or a slice of structs with JSON tags. A slice is
	// printed as a list, a struct as a record.
	Data any
	// Rows are what the tabular formats (table, wide, csv, name) show instead
	// of Data, where Data is nested; nil means Data itself.
	Rows any
	// Columns are the table's columns, and the lines of a record, in order.
	Columns []Column
	// Name is the JSON field that -o name prints.
	Name string
	// Empty is said on Err when a list has no rows, such as "no locks".
	Empty string
}

// Column shows one JSON field.
type Column struct {
	Title string
	// Field is the JSON name.
	Field string
	// Relative names the JSON field, in milliseconds, that a terminal shows
	// instead of the timestamp in Field; Since and Until say how to read it.
	// Without one, an age is counted by the reader's clock.
	Relative string
	Kind     Kind
	// Wide columns appear with -o wide and in records only.
	Wide bool
	// Optional columns vanish from a record, where they have nothing to say.
	Optional bool
	// Count shows how many a list in the field has, instead of the list.
	Count bool
	// Blank is a value that says nothing, such as the port of what has none; a
	// table shows "-" for it.
	Blank string
	// Tones maps a value of the field to how it looks.
	Tones map[string]Tone
}

// Kind says what a column's field is.
type Kind int

// The kinds of column.
const (
	// Text is shown as it is.
	Text Kind = iota
	// Number is shown as it is, and aligned to the right in lists.
	Number
	// Since is a time in the past: "5m ago" on a terminal.
	Since
	// Until is the end of a lease: "12s left" on a terminal.
	Until
)

package ui

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Printer writes views to one pair of streams.
type Printer struct {
	Streams *Streams
	Format  Format
	Color   ColorMode
	// Columns, when any, are those of a table, a record or CSV to show, by their
	// JSON names or titles; NoHeaders leaves the titles of a list out.
	Columns   []string
	NoHeaders bool
	// Transform, when set, takes the place of Format.
	Transform Transform
}

// Print writes the view to Out in the printer's format. The note about an
// empty list goes to Err. Returns *TransformError for columns that the view has
// not, and for a transform that fails on it.
func (p Printer) Print(v View) error {
	data := v.Data
	if v.Rows != nil && p.Transform == nil && (p.Format != JSON && p.Format != JSONL && p.Format != YAML) {
		data = v.Rows
	}
	doc, err := newDocument(data)
	if err != nil {
		return err
	}
	out, err := p.format(doc, v)
	if err != nil {
		return err
	}
	if _, err := p.Streams.Out.Write(out); err != nil {
		return fmt.Errorf("write the result: %w", err)
	}
	return nil
}

func (p Printer) format(doc document, v View) (out []byte, err error) {
	if p.Transform != nil {
		if out, err = p.Transform.apply(doc); err != nil {
			return nil, &TransformError{err, doc.text}
		}
		return out, nil
	}
	if len(p.Columns) > 0 {
		if v.Columns, err = pick(v.Columns, p.Columns); err != nil {
			return nil, &TransformError{err, doc.text}
		}
	}
	switch p.Format {
	case JSON:
		out = indentJSON(doc.text)
	case JSONL:
		out = jsonLines(doc)
	case YAML:
		out, err = yamlText(doc.plain)
	case CSV:
		out, err = csvText(doc, v.Columns, !p.NoHeaders)
	case Name:
		out = nameLines(doc, v.Name)
	default:
		out, err = p.table(doc, v)
	}
	return out, err
}

// WriteJSON writes data to w as one indented JSON object: the form of errors.
func WriteJSON(w io.Writer, data any) error {
	doc, err := newDocument(data)
	if err != nil {
		return err
	}
	if _, err := w.Write(indentJSON(doc.text)); err != nil {
		return fmt.Errorf("write JSON: %w", err)
	}
	return nil
}

func indentJSON(text []byte) []byte {
	var buf bytes.Buffer
	// The text comes from the encoder, so it cannot be malformed.
	_ = json.Indent(&buf, text, "", "  ")
	buf.WriteByte('\n')
	return buf.Bytes()
}

func jsonLines(doc document) []byte {
	var buf bytes.Buffer
	for _, raw := range doc.raw {
		buf.Write(raw)
		buf.WriteByte('\n')
	}
	return buf.Bytes()
}

// yamlText turns JSON into YAML by way of YAML's own parser, of which JSON is
// a part: order, digits and types stay as they are.
func yamlText(text []byte) ([]byte, error) {
	var root yaml.Node
	if err := yaml.Unmarshal(escapeYAML(text), &root); err != nil {
		return nil, fmt.Errorf("read the result as YAML: %w", err)
	}
	blockStyle(&root)
	var buf bytes.Buffer
	enc := yaml.NewEncoder(&buf)
	enc.SetIndent(2)
	if err := enc.Encode(&root); err != nil {
		return nil, fmt.Errorf("encode YAML: %w", err)
	}
	// Whatever is unsafe stands inside double quotes by now.
	return escapeYAML(buf.Bytes()), nil
}

// blockStyle takes JSON's brackets and quotes off, but for strings that hold
// unsafe runes and empty collections.
func blockStyle(n *yaml.Node) {
	n.Style = 0
	switch {
	case n.Kind == yaml.ScalarNode && n.Tag == "!!str" && hostile(n.Value):
		n.Style = yaml.DoubleQuotedStyle
	case n.Kind != yaml.ScalarNode && n.Kind != yaml.DocumentNode && len(n.Content) == 0:
		n.Style = yaml.FlowStyle
	}
	for _, child := range n.Content {
		blockStyle(child)
	}
}

// escapeYAML is escapeUnsafe for YAML, which knows no surrogate pairs.
func escapeYAML(text []byte) []byte {
	var b strings.Builder
	for _, r := range string(text) {
		switch {
		case !unsafeInText(r):
			b.WriteRune(r)
		case r > 0xffff:
			fmt.Fprintf(&b, `\U%08x`, r)
		default:
			b.WriteString(escapeRune(r))
		}
	}
	return []byte(b.String())
}

// csvText writes the columns' fields under their JSON names, so that a
// spreadsheet and a script read the same words.
func csvText(doc document, columns []Column, header bool) ([]byte, error) {
	var buf bytes.Buffer
	w := csv.NewWriter(&buf)
	record := make([]string, len(columns))
	for i, c := range columns {
		record[i] = c.Field
	}
	if header {
		if err := w.Write(record); err != nil {
			return nil, fmt.Errorf("write CSV: %w", err)
		}
	}
	for _, row := range doc.rows {
		for i, c := range columns {
			// Defused before the escapes of Visible hide a leading tab.
			text := row.text(c.Field)
			if _, isString := row.values[c.Field].(string); isString {
				text = defuse(text)
			}
			record[i] = Visible(text)
		}
		if err := w.Write(record); err != nil {
			return nil, fmt.Errorf("write CSV: %w", err)
		}
	}
	w.Flush()
	return buf.Bytes(), w.Error()
}

func nameLines(doc document, field string) []byte {
	var b strings.Builder
	for _, row := range doc.rows {
		b.WriteString(Visible(row.text(field)) + "\n")
	}
	return []byte(b.String())
}

package ui

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/olekukonko/tablewriter"
	"github.com/olekukonko/tablewriter/renderer"
	"github.com/olekukonko/tablewriter/tw"
)

// table lays a list out with a header and a row each, a record with a line per
// field.
func (p Printer) table(doc document, v View) ([]byte, error) {
	styles := p.Streams.OutStyles(p.Color)
	if !doc.list {
		return p.record(doc.rows[0], v.Columns, styles)
	}
	if len(doc.rows) == 0 {
		if v.Empty != "" {
			p.Streams.Note("%s", v.Empty)
		}
		return nil, nil
	}
	columns := make([]Column, 0, len(v.Columns))
	for _, c := range v.Columns {
		if !c.Wide || p.Format == Wide {
			columns = append(columns, c)
		}
	}
	grid := [][]string{make([]string, len(columns))}
	align := make([]tw.Align, len(columns))
	for i, c := range columns {
		grid[0][i] = styles.Paint(Faint, c.Title)
		align[i] = tw.AlignLeft
		if c.Kind == Number {
			align[i] = tw.AlignRight
		}
	}
	for _, row := range doc.rows {
		cells := make([]string, len(columns))
		for i, c := range columns {
			cells[i] = p.cell(row, c, styles)
		}
		grid = append(grid, cells)
	}
	if p.NoHeaders {
		grid = grid[1:]
	}
	return layOut(grid, align)
}

func (p Printer) record(row object, columns []Column, styles Styles) ([]byte, error) {
	var grid [][]string
	for _, c := range columns {
		if c.Optional && row.text(c.Field) == "" {
			continue
		}
		grid = append(grid, []string{styles.Paint(Faint, c.Title), p.cell(row, c, styles)})
	}
	return layOut(grid, []tw.Align{tw.AlignLeft, tw.AlignLeft})
}

// cell is a field as a person reads it: relative on a terminal, where it is
// read at once; absolute in a pipe, where it is kept.
func (p Printer) cell(row object, c Column, styles Styles) string {
	text := row.text(c.Field)
	if list, isList := row.values[c.Field].([]any); isList && c.Count {
		text = strconv.Itoa(len(list))
	}
	tone := c.Tones[text]
	if p.Streams.OutTTY && (c.Kind == Since || c.Kind == Until) {
		text = p.relative(row, c, text)
	}
	if text == "" || text == c.Blank {
		return "-"
	}
	return styles.Paint(tone, Visible(text))
}

func (p Printer) relative(row object, c Column, text string) string {
	if text == "infinity" {
		return "never"
	}
	if ms, ok := row.values[c.Relative].(json.Number); ok {
		n, err := ms.Int64()
		if err != nil {
			return text
		}
		d := time.Duration(n) * time.Millisecond
		if c.Kind == Until {
			return Left(d)
		}
		return Ago(d)
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil || c.Kind != Since {
		// The end of a lease is never compared with the reader's clock (K-2.1).
		return text
	}
	return Ago(p.Streams.Now().Sub(at))
}

// layOut aligns a grid with two blanks between columns and nothing else: no
// borders, no wrapping, no changed letters, no blanks at the end of a line.
func layOut(grid [][]string, align []tw.Align) ([]byte, error) {
	var buf bytes.Buffer
	t := tablewriter.NewTable(
		&buf,
		tablewriter.WithRenderer(renderer.NewBlueprint()),
		tablewriter.WithRendition(tw.Rendition{
			Borders: tw.BorderNone,
			Settings: tw.Settings{
				Lines:      tw.LinesNone,
				Separators: tw.SeparatorsNone,
			},
		}),
		tablewriter.WithPadding(tw.Padding{Left: tw.Empty, Right: "  ", Overwrite: true}),
		tablewriter.WithRowAutoWrap(tw.WrapNone),
		tablewriter.WithRowAlignmentConfig(tw.CellAlignment{PerColumn: align}),
		tablewriter.WithTrimSpace(tw.Off),
		tablewriter.WithTrimLine(tw.Off),
		tablewriter.WithTrimTab(tw.Off),
	)
	for _, cells := range grid {
		if err := t.Append(cells); err != nil {
			return nil, fmt.Errorf("lay out the table: %w", err)
		}
	}
	if err := t.Render(); err != nil {
		return nil, fmt.Errorf("lay out the table: %w", err)
	}
	var b strings.Builder
	for line := range strings.Lines(buf.String()) {
		b.WriteString(trimEnd(line) + "\n")
	}
	return []byte(b.String()), nil
}

// trimEnd takes the padding off a line's end. In a coloured line it stands
// between resets, of which one must stay.
func trimEnd(line string) string {
	const reset = "\x1b[0m"
	trimmed := strings.TrimRight(line, " \n")
	end := ""
	for strings.HasSuffix(trimmed, reset) {
		trimmed, end = strings.TrimRight(strings.TrimSuffix(trimmed, reset), " "), reset
	}
	return trimmed + end
}

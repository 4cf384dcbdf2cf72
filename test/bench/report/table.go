package report

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"
)

// WriteTable writes the results for a reader: medians with their spread, and
// beside each ratio what it must be, when that is a target.
func WriteTable(out io.Writer, sitting Sitting, targets []Target) error {
	want := make(map[string]Target, len(targets))
	for _, t := range targets {
		want[t.ID] = t
	}
	rows := [][]string{{"ID", "WHAT", "MEDIAN", "MIN", "MAX", "UNIT", "RATIO", "TO", "TARGET"}}
	for _, r := range sitting.Results {
		row := []string{r.ID, r.Title, figure(r.Median), figure(r.Spread.Min), figure(r.Spread.Max), r.Unit, "", r.Reference, ""}
		if r.Ratio > 0 {
			row[6] = strconv.FormatFloat(r.Ratio, 'f', 3, 64)
		}
		if t, there := want[r.ID]; there && t.Against == r.Reference {
			row[8] = fmt.Sprintf("%s %.2f", t.Op, t.Ratio)
		}
		rows = append(rows, row)
	}
	m := sitting.Machine
	_, err := fmt.Fprintf(out, "%s/%s, %d CPUs, %s, %s, PostgreSQL %s with shared_buffers %s, %s\n%d rounds of %d s; whole processes %d times\n\n%s",
		m.OS, m.Arch, m.CPUs, memory(m.MemoryMiB), m.Go, m.PostgreSQL, m.SharedBuffers, m.PGBench, sitting.Rounds, sitting.Seconds, sitting.Pairs,
		aligned(rows, map[int]bool{2: true, 3: true, 4: true, 6: true}))
	return err
}

func memory(mib int64) string {
	if mib == 0 {
		return "memory unknown"
	}
	return fmt.Sprintf("%.1f GiB", float64(mib)/1024)
}

// figure writes rates without and times with decimals.
func figure(x float64) string {
	if x >= 100 {
		return strconv.FormatFloat(x, 'f', 0, 64)
	}
	return strconv.FormatFloat(x, 'f', 2, 64)
}

// aligned pads the cells of each column, on the left where the column holds
// numbers.
func aligned(rows [][]string, numbers map[int]bool) string {
	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	var text strings.Builder
	for _, row := range rows {
		var line strings.Builder
		for i, cell := range row {
			pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
			if numbers[i] {
				line.WriteString(pad + cell + "  ")
			} else {
				line.WriteString(cell + pad + "  ")
			}
		}
		text.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
	return text.String()
}

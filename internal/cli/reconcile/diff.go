package reconcile

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/dlockctl/dlockctl/internal/cli/app"
	"github.com/dlockctl/dlockctl/internal/reconcile"
	"github.com/dlockctl/dlockctl/internal/ui"
)

func newDiffCmd(a *app.App) *cobra.Command {
	return &cobra.Command{
		Use:   "diff OLD NEW",
		Short: "Compare two runs: what is new, still there, gone",
		Long: "Compare the findings of two runs by their ids, from the files that reconcile --report FILE.json\n" +
			"wrote. A finding that is gone may only not have been looked at: it says when the newer run checked\n" +
			"less. It opens no database. Exit 7 with a new break, 11 when there is none and the runs cannot be\n" +
			"compared.",
		Example: "  dlockctl reconcile diff monday.json tuesday.json",
		Args:    app.Args("OLD", "NEW"),
		RunE:    a.Run(func(_ context.Context, args []string) error { return runDiff(a, args[0], args[1]) }),
	}
}

// changeRow is a finding and what became of it.
type changeRow struct {
	Change string `json:"change"`
	findingRow
}

func runDiff(a *app.App, oldPath, newPath string) error {
	older, err := readFile(oldPath, "the older run", reconcile.ReadReport)
	if err != nil {
		return err
	}
	newer, err := readFile(newPath, "the newer run", reconcile.ReadReport)
	if err != nil {
		return err
	}
	difference := reconcile.Diff(older, newer)
	changes := []changeRow{}
	for _, part := range []struct {
		change   string
		findings []reconcile.Finding
	}{{"new", difference.New}, {"still", difference.Still}, {"gone", difference.Gone}} {
		for _, row := range rows(part.findings) {
			changes = append(changes, changeRow{part.change, row})
		}
	}
	err = a.Print(ui.View{
		Data: difference, Rows: changes, Name: "id", Empty: "no findings in either run",
		Columns: []ui.Column{
			{Title: "CHANGE", Field: "change", Tones: map[string]ui.Tone{"new": ui.Bad, "gone": ui.Good}},
			{Title: "FINDING", Field: "id"},
			{Title: "SEVERITY", Field: "severity", Tones: tones()},
			{Title: "NAME", Field: "name"},
			{Title: "WHAT", Field: "what"},
		},
	})
	if err != nil {
		return err
	}
	for _, why := range difference.Why {
		a.Aside("not comparable: %s", why)
	}
	breaks := 0
	for _, f := range difference.New {
		if f.IsBreak() {
			breaks++
		}
	}
	switch {
	case breaks > 0:
		return &app.Failure{Exit: app.Findings, Code: "findings", Message: "new: " + count(breaks, "break"), Hint: "dlockctl reconcile explain FINDING tells one"}
	case !difference.Comparable:
		return &app.Failure{Exit: app.Incomplete, Code: "incomplete", Message: "no new break, but the runs cannot be compared"}
	}
	return nil
}

package reconcile

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/dlockctl/dlockctl/internal/cli/app"
	"github.com/dlockctl/dlockctl/internal/reconcile"
	"github.com/dlockctl/dlockctl/internal/ui"
)

// ruleView is a rule as it is printed.
type ruleView struct {
	reconcile.Class

	GraceMS int64 `json:"grace_ms"`
}

func newRulesCmd(a *app.App) *cobra.Command {
	return &cobra.Command{
		Use:   "rules [RULE]",
		Short: "List the rules that reconcile checks, or show one",
		Long: "List every rule by its id: what must hold, how bad a break is, and for how long work in flight may\n" +
			"explain it. A rule is named by its id or its name. It opens no database.",
		Example:           "  dlockctl reconcile rules\n  dlockctl reconcile rules A01\n  dlockctl reconcile rules balance_drift -o json",
		Args:              app.OptionalArg(),
		ValidArgsFunction: cobra.FixedCompletions(ruleCompletions(), cobra.ShellCompDirectiveNoFileComp),
		RunE:              a.Run(func(_ context.Context, args []string) error { return runRules(a, args) }),
	}
}

func runRules(a *app.App, args []string) error {
	views := []ruleView{}
	for _, c := range reconcile.Catalogue() {
		view := ruleView{c, c.Grace.Milliseconds()}
		if len(args) == 0 {
			views = append(views, view)
			continue
		}
		if strings.EqualFold(args[0], c.ID) || args[0] == c.Name {
			return a.Print(ui.View{Data: view, Columns: ruleColumns(), Name: "id"})
		}
	}
	if len(args) > 0 {
		return &app.Failure{Exit: app.NotFound, Code: "not_found", Message: "there is no rule " + args[0], Hint: "dlockctl reconcile rules lists them"}
	}
	return a.Print(ui.View{Data: views, Columns: ruleColumns(), Name: "id"})
}

func ruleColumns() []ui.Column {
	return []ui.Column{
		{Title: "ID", Field: "id"},
		{Title: "SEVERITY", Field: "severity", Tones: tones()},
		{Title: "NAME", Field: "name"},
		{Title: "RULE", Field: "rule"},
		{Title: "GRACE (MS)", Field: "grace_ms", Kind: ui.Number, Wide: true},
		{Title: "NAMES", Field: "names", Wide: true},
		{Title: "READS", Field: "reads", Wide: true},
		{Title: "OVER", Field: "over", Wide: true},
		{Title: "NEXT", Field: "next", Wide: true},
	}
}

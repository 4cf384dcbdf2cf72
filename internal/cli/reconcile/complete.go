package reconcile

import (
	"github.com/spf13/cobra"

	"github.com/dlockctl/dlockctl/internal/reconcile"
)

// complete completes what is known without a database: rules and levels.
func complete(cmd *cobra.Command) {
	var levels []cobra.Completion
	for _, s := range reconcile.Severities() {
		levels = append(levels, string(s))
	}
	// The flags exist: they were added to this command.
	_ = cmd.RegisterFlagCompletionFunc("rule", cobra.FixedCompletions(ruleCompletions(), cobra.ShellCompDirectiveNoFileComp))
	_ = cmd.RegisterFlagCompletionFunc("fail-on", cobra.FixedCompletions(levels, cobra.ShellCompDirectiveNoFileComp|cobra.ShellCompDirectiveKeepOrder))
	_ = cmd.MarkFlagFilename("report", "html", "json", "csv")
	_ = cmd.MarkFlagFilename(statementFlag, "csv")
}

func ruleCompletions() []cobra.Completion {
	var rules []cobra.Completion
	for _, c := range reconcile.Catalogue() {
		rules = append(rules, cobra.CompletionWithDesc(c.ID, c.Name))
	}
	return rules
}

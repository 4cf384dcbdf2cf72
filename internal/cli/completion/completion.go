// Package completion is the completion verb, and completes values that are
// known without a database.
package completion

import (
	"github.com/spf13/cobra"

	"github.com/dlockctl/dlockctl/internal/cli/app"
	"github.com/dlockctl/dlockctl/internal/ui"
)

// New returns the completion command. Cobra's own exits 0 when it is called
// without a shell.
func New(a *app.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "completion",
		Short: "Print a completion script for a shell",
		Long:  "Print a script that completes commands and flags. Loading it once per session:\n\n  source <(dlockctl completion bash)",
		Example: "  dlockctl completion bash > /etc/bash_completion.d/dlockctl\n" +
			"  dlockctl completion zsh > \"${fpath[1]}/_dlockctl\"",
	}
	for shell, write := range map[string]func(root *cobra.Command) error{
		"bash":       func(root *cobra.Command) error { return root.GenBashCompletionV2(a.Streams.Out, true) },
		"zsh":        func(root *cobra.Command) error { return root.GenZshCompletion(a.Streams.Out) },
		"fish":       func(root *cobra.Command) error { return root.GenFishCompletion(a.Streams.Out, true) },
		"powershell": func(root *cobra.Command) error { return root.GenPowerShellCompletionWithDesc(a.Streams.Out) },
	} {
		cmd.AddCommand(&cobra.Command{
			Use:     shell,
			Short:   "Print the completion script for " + shell,
			Example: "  dlockctl completion " + shell,
			Args:    app.Args(),
			RunE:    func(cmd *cobra.Command, _ []string) error { return write(cmd.Root()) },
		})
	}
	return app.Group(cmd)
}

// Flags completes the values of the global flags.
func Flags(root *cobra.Command) {
	for flag, values := range map[string][]string{
		"output": ui.Formats(),
		"color":  {string(ui.ColorAuto), string(ui.ColorAlways), string(ui.ColorNever)},
	} {
		// The flags exist: they were added to this root.
		_ = root.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
	}
}

// Package completion is the completion verb, and completes values that are
// known without a database.
package completion

import (
	_ "embed"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/dlockctl/dlockctl/internal/cli/app"
	"github.com/dlockctl/dlockctl/internal/ui"
)

// The scripts of bash, zsh and fish are this package's own. Cobra's run what is offered: bash's puts
// what several offers have in common on the line without quotes, and the next Tab evaluates the line,
// fish's evaluates the words before the cursor without theirs; zsh's loses backslashes.
//
//go:embed dlockctl.bash
var bash string

//go:embed dlockctl.zsh
var zsh string

//go:embed dlockctl.fish
var fish string

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
	own := func(script string) func(*cobra.Command) error {
		return func(*cobra.Command) error {
			if _, err := fmt.Fprint(a.Streams.Out, script); err != nil {
				return fmt.Errorf("write to stdout: %w", err)
			}
			return nil
		}
	}
	for shell, write := range map[string]func(root *cobra.Command) error{
		"bash":       own(bash),
		"zsh":        own(zsh),
		"fish":       own(fish),
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

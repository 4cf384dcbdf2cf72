package docs

import (
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/dlockctl/dlockctl/internal/cli/app"
	"github.com/dlockctl/dlockctl/internal/ui"
)

// Command is one command as a script may rely on it.
type Command struct {
	Command string `json:"command"`
	Short   string `json:"short"`
	Flags   []Flag `json:"flags,omitempty"`
}

// Flag is one flag of a command; those of every command stand at the root.
type Flag struct {
	Name      string `json:"name"`
	Shorthand string `json:"shorthand,omitempty"`
	Type      string `json:"type"`
	Default   string `json:"default,omitempty"`
	Usage     string `json:"usage"`
}

func newDefinitionCmd(a *app.App) *cobra.Command {
	return &cobra.Command{
		Use:     "definition",
		Short:   "Print every command and flag",
		Long:    "Print every command and flag: what a new version changed shows in a diff. docs/cli.json is this.",
		Example: "  dlockctl docs definition -o json",
		Args:    app.Args(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.Print(ui.View{
				Data: Definition(cmd.Root()),
				Columns: []ui.Column{
					{Title: "COMMAND", Field: "command"},
					{Title: "FLAGS", Field: "flags", Kind: ui.Number, Count: true},
					{Title: "WHAT IT DOES", Field: "short"},
				},
				Name: "command",
			})
		},
	}
}

// Definition lists a command and all below it, each with its own flags.
func Definition(cmd *cobra.Command) []Command {
	own := Command{Command: cmd.CommandPath(), Short: cmd.Short}
	cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
		if f.Name != "help" && !f.Hidden && cmd.InheritedFlags().Lookup(f.Name) == nil {
			own.Flags = append(own.Flags, Flag{f.Name, f.Shorthand, f.Value.Type(), f.DefValue, f.Usage})
		}
	})
	all := []Command{own}
	for _, child := range cmd.Commands() {
		if !child.Hidden {
			all = append(all, Definition(child)...)
		}
	}
	return all
}

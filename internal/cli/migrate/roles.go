package migrate

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/dlockctl/dlockctl/internal/cli/app"
	"github.com/dlockctl/dlockctl/internal/instance"
	"github.com/dlockctl/dlockctl/internal/ui"
)

type targetRoles struct {
	Target string `json:"target"`
	instance.RolesReport
}

func newRolesCmd(a *app.App) *cobra.Command {
	var opts options
	var printOnly bool
	cmd := &cobra.Command{
		Use:   "roles",
		Short: "Create the group roles, or print how",
		Long: "Create the NOLOGIN group roles that own and use the schemas; they belong to the whole server\n" +
			"and have no passwords. With --print, write the SQL to stdout and connect to nothing. Exit 6\n" +
			"when your rights do not suffice: what is missing is listed.",
		Example: "  dlockctl migrate roles --print | psql \"$ADMIN\"\n  dlockctl migrate roles --target lockdb",
		Args:    app.Args(),
		RunE: a.RunWithin(within, func(ctx context.Context, _ []string) error {
			if printOnly {
				_, err := fmt.Fprint(a.Streams.Out, instance.RolesSQL())
				return err
			}
			return runRoles(ctx, a, opts)
		}),
	}
	opts.targetFlag(cmd.Flags())
	cmd.Flags().BoolVar(&printOnly, "print", false, "print the SQL instead of running it")
	return cmd
}

func runRoles(ctx context.Context, a *app.App, opts options) error {
	if err := notHere(opts.target, "roles", "the application's own roles use its tables"); err != nil {
		return err
	}
	found, err := targets(ctx, a, opts)
	if err != nil {
		return err
	}
	cfg, err := a.Config()
	if err != nil {
		return err
	}
	a.Badge()
	if err := Belongs(ctx, cfg.Environment, found); err != nil {
		return err
	}
	all := []targetRoles{}
	for _, t := range found {
		report, err := ensureRoles(ctx, t)
		if err != nil {
			return err
		}
		all = append(all, targetRoles{t.Name, report})
	}
	type row struct {
		Target string `json:"target"`
		Role   string `json:"role"`
		State  string `json:"state"`
	}
	rows, missing := []row{}, []string{}
	for _, r := range all {
		for _, name := range r.Created {
			rows = append(rows, row{r.Target, name, "created"})
		}
		for _, name := range r.Present {
			rows = append(rows, row{r.Target, name, "present"})
		}
		for _, text := range r.Missing {
			missing = append(missing, r.Target+": "+text)
		}
	}
	err = a.Print(ui.View{
		Data: all, Rows: rows,
		Columns: []ui.Column{
			{Title: "TARGET", Field: "target"},
			{Title: "ROLE", Field: "role"},
			{Title: "STATE", Field: "state", Tones: map[string]ui.Tone{"created": ui.Good}},
		},
		Name: "role",
	})
	if err != nil || len(missing) == 0 {
		return err
	}
	for _, text := range missing {
		a.Warn("%s", text)
	}
	return &app.Failure{Exit: app.Refused, Code: "permission_denied", Message: plural(len(missing), "right") + " missing", Hint: "dlockctl migrate roles --print is the whole script, for a stronger role to run"}
}

func ensureRoles(ctx context.Context, t Target) (instance.RolesReport, error) {
	conn, err := connect(ctx, t.Name, t.Config)
	if err != nil {
		return instance.RolesReport{}, err
	}
	defer closeConn(ctx, conn)
	report, err := instance.EnsureRoles(ctx, conn)
	if err != nil {
		return instance.RolesReport{}, fmt.Errorf("%s: %w", t.Name, err)
	}
	return report, nil
}

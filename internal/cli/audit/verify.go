package audit

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/dlockctl/dlockctl/internal/cli/app"
	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/ui"
)

// verifyView is what verify found.
type verifyView struct {
	Valid bool `json:"valid"`
	lockstore.AuditReport
}

func newVerifyCmd(a *app.App) *cobra.Command {
	return &cobra.Command{
		Use:   "verify",
		Short: "Look for rows taken out of the audit, or rewritten",
		Long: "Check what only an owner of the tables can break: the append-only guards, the operator log's\n" +
			"chain of hashes, and each revocation against the journal of grants, which is written by other\n" +
			"hands. It names the first broken link. Exit 7 when something is found.\n\n" +
			"An owner who rewrites both sides alike, or takes the newest rows off the end, leaves no trace in\n" +
			"the database: only an export kept elsewhere shows that.",
		Example: "  dlockctl audit verify\n  dlockctl audit verify -o json",
		Args:    app.Args(),
		RunE:    a.Run(func(ctx context.Context, _ []string) error { return runVerify(ctx, a) }),
	}
}

func runVerify(ctx context.Context, a *app.App) error {
	store, err := a.LockStore(ctx, app.Reading)
	if err != nil {
		return err
	}
	report, err := store.VerifyAudit(ctx)
	if err != nil {
		return err
	}
	err = a.Print(ui.View{
		Data: verifyView{len(report.Findings) == 0, report}, Rows: report.Findings,
		Columns: []ui.Column{
			{Title: "FINDING", Field: "id", Tones: map[string]ui.Tone{}},
			{Title: "WHERE", Field: "where"},
			{Title: "WHAT", Field: "what"},
		},
		Name: "id", Empty: fmt.Sprintf("no findings in %d revocations and %d records of the operator log", report.Revocations, report.Records),
	})
	if err != nil || len(report.Findings) == 0 {
		return err
	}
	return &app.Failure{
		Exit: app.Findings, Code: "findings", Message: fmt.Sprintf("the audit is not what was written: %d findings", len(report.Findings)),
		Hint: "compare with an export kept elsewhere (dlockctl audit export); whoever owns the tables could do this",
	}
}

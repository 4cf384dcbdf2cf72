package restore

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/dlockctl/dlockctl/internal/cli/app"
	"github.com/dlockctl/dlockctl/internal/restore"
	"github.com/dlockctl/dlockctl/internal/ui"
)

func newVerifyCmd(a *app.App) *cobra.Command {
	var opts evidenceFlags
	cmd := &cobra.Command{
		Use:   "verify",
		Short: "Prove that no token can be issued twice, or say why not",
		Long: "Compare every place that remembers tokens with the token last issued, and look at gate, token\n" +
			"source, floors and outside mark. It changes nothing, and SELECT as dlock_auditor is enough.\n\n" +
			"Exit 0 when it is safe, 7 with findings. What could not be read is a finding too.",
		Example: "  dlockctl restore verify\n" +
			"  dlockctl restore verify -o json",
		Args: app.Args(),
		RunE: a.RunWithin(lookWithin, func(ctx context.Context, _ []string) error { return runVerify(ctx, a, opts) }),
	}
	opts.add(cmd, false)
	return cmd
}

func runVerify(ctx context.Context, a *app.App, opts evidenceFlags) error {
	if counted, err := onCounters(a); err != nil {
		return err
	} else if counted {
		return runCountersVerify(ctx, a, opts)
	}
	what, err := opts.options()
	if err != nil {
		return err
	}
	stores, closeAll, err := open(ctx, a, access{oldPrimary: opts.oldPrimary})
	if err != nil {
		return err
	}
	defer closeAll()
	found, err := restore.Verify(ctx, stores, what)
	if err != nil {
		return err
	}
	if err := printVerification(a, found); err != nil {
		return err
	}
	if found.Safe {
		return nil
	}
	return &app.Failure{
		Exit: app.Findings, Code: "findings", Message: count(len(found.Findings), "finding") + ": lockdb is not known to be safe",
		Hint: "run " + a.Command("restore plan"),
	}
}

func printVerification(a *app.App, found restore.Verification) error {
	if !a.ForPeople() {
		found = proven(a, found)
		view := ui.View{Data: found, Name: "id"}
		if a.Format() == ui.CSV || a.Format() == ui.Name {
			view.Rows, view.Columns = found.Findings, []ui.Column{{Field: "id"}, {Field: "what"}, {Field: "fix"}}
		}
		return a.Print(view)
	}
	p, err := newPage(a)
	if err != nil {
		return err
	}
	if found.Safe {
		p.verdict(ui.Good, "SAFE", "no token can be issued twice, and nobody from before can write")
	} else {
		p.verdict(ui.Alarm, "NOT SAFE", "%s", count(len(found.Findings), "finding"))
	}
	p.part()
	p.fact(ui.Plain, "lockdb", "token last issued: %s", found.Last)
	if found.Reached > 0 {
		p.fact(ui.Plain, "", "the last fast-forward went to %s", found.Reached)
	}
	for _, g := range gaps(found.Evidence) {
		p.finding(evidenceMissing, g.what(), g.fix())
	}
	for _, f := range found.Findings {
		if f.ID != evidenceMissing {
			p.finding(f.ID, f.What, f.Fix)
		}
	}
	p.evidence(found.Evidence, "")
	return p.err
}

// evidenceMissing is the finding about a source that could not be read.
const evidenceMissing = "evidence_missing"

func (p *page) finding(id, what, fix string) {
	p.part()
	p.say("%s  %s\n", p.styles.Paint(ui.Bad, "finding"), p.styles.Paint(ui.Strong, ui.Visible(id)))
	p.fact(ui.Plain, "saw", "%s", what)
	p.fixes("fix", []string{fix})
}

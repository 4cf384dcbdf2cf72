// Package gate holds freeze and thaw: closing lockdb for grants by hand, and
// opening it again.
package gate

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/dlockctl/dlockctl/internal/cli/app"
	"github.com/dlockctl/dlockctl/internal/instance/owner"
	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/paystore"
	"github.com/dlockctl/dlockctl/internal/restore"
	"github.com/dlockctl/dlockctl/internal/ui"
)

// Verbs returns freeze and thaw.
func Verbs(a *app.App) []*cobra.Command {
	return []*cobra.Command{newFreezeCmd(a), newThawCmd(a)}
}

// move is freeze or thaw.
type move func(ctx context.Context, lock lockstore.Rewinder, opts restore.GateOptions) (restore.GateResult, error)

func newFreezeCmd(a *app.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:        "freeze --reason TEXT",
		SuggestFor: []string{"pause", "close"},
		Short:      "Grant no locks until thaw",
		Long: "Close the gate of lockdb: from now on nothing is granted, whoever asks; renewing, releasing and\n" +
			"revoking go on, so work under way can end. It waits for the grants that had begun, and names\n" +
			"those that it could not wait for (exit 4): frozen, but these may still be granted. Run again, it\n" +
			"waits again. A fast-forward leaves the freeze as it is.",
		Example: "  dlockctl freeze --reason 'moving to the new primary, ticket 812'\n" +
			"  dlockctl freeze --reason 'ticket 812' -o json",
		Args: app.Args(),
	}
	return gateCmd(a, cmd, restore.Freeze)
}

func newThawCmd(a *app.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:        "thaw --reason TEXT",
		SuggestFor: []string{"unfreeze", "open", "resume"},
		Short:      "Grant locks again after freeze",
		Long: "Open the gate of lockdb that freeze has closed. A gate that is shut because lockdb was set back, or\n" +
			"because a fast-forward has not ended, is not opened by this (exit 6): the refusal names what is. paydb has a gate\n" +
			"of its own, which dlockctl restore paydb opens.",
		Example: "  dlockctl thaw --reason 'the new primary is in place, ticket 812'\n" +
			"  dlockctl thaw --reason 'ticket 812' -o json",
		Args: app.Args(),
	}
	return gateCmd(a, cmd, restore.Thaw)
}

func gateCmd(a *app.App, cmd *cobra.Command, do move) *cobra.Command {
	var reason string
	cmd.RunE = a.Run(func(ctx context.Context, _ []string) error { return run(ctx, a, do, reason) })
	flags := cmd.Flags()
	flags.StringVar(&reason, "reason", "", "why; the operator log keeps it (required)")
	flags.String("operator", "", "who you are (default user@host)") // read through the configuration
	app.ConfirmFlag(flags)
	return cmd
}

func run(ctx context.Context, a *app.App, do move, reason string) error {
	operator, err := a.Operator()
	if err != nil {
		return err
	}
	if err := a.RequireReason(reason); err != nil {
		return err
	}
	if err := a.Protect(); err != nil {
		return err
	}
	lock, err := a.Rewinder(ctx, app.Changing, false)
	if err != nil {
		return err
	}
	defer func() {
		ctx, cancel := app.CleanUp(ctx)
		defer cancel()
		lock.Close(ctx)
	}()
	result, err := do(ctx, lock, restore.GateOptions{Operator: operator, Reason: reason})
	if err != nil {
		return err
	}
	if err := finish(a, result); err != nil || result.Changed || !result.Open {
		return err
	}
	return lookAtPaydb(ctx, a)
}

// lookAtPaydb tells whoever came to thaw for paydb's gate, which is not this one,
// what opens that. A paydb that is down has nothing to say about lockdb's.
func lookAtPaydb(ctx context.Context, a *app.App) error {
	config, err := a.PayConfig()
	if err != nil {
		return app.Stopped(ctx)
	}
	asked, cancel := context.WithTimeout(ctx, app.PayWithin(config))
	defer cancel()
	pay, err := a.Floors(asked, paystore.Reading, false)
	if err != nil || pay == nil {
		return app.Stopped(ctx)
	}
	defer func() {
		ctx, cancel := app.CleanUp(ctx)
		defer cancel()
		pay.Close(ctx)
	}()
	if gate, err := pay.Gate(asked); err == nil && !gate.Open() {
		a.Aside("paydb has a gate of its own, which is closed: %s", a.Command("restore paydb", "--reason", "TEXT"))
	}
	return nil
}

// The states of the gate, in one word.
const (
	open       = "open"
	frozen     = "frozen"
	unfinished = "unfinished"
	elsewhere  = "elsewhere"
)

// view is the gate as it is printed.
type view struct {
	State string `json:"state"`
	restore.GateResult
}

// row is the gate without anything nested in it.
type row struct {
	State    string          `json:"state"`
	Changed  bool            `json:"changed"`
	ClosedBy string          `json:"closed_by,omitempty"`
	ClosedAt lockstore.Time  `json:"closed_at,omitzero"`
	Reason   string          `json:"closed_reason,omitempty"`
	Blockers []owner.Process `json:"blockers,omitempty"`
}

func state(gate lockstore.Gate) string {
	switch {
	case gate.Open():
		return open
	case gate.Run != nil:
		return unfinished
	case !gate.Here:
		return elsewhere
	default:
		return frozen
	}
}

func finish(a *app.App, result restore.GateResult) error {
	gate := result.Gate
	r := row{State: state(gate), Changed: result.Changed, ClosedBy: gate.ClosedBy, ClosedAt: gate.ClosedAt, Reason: gate.Reason, Blockers: result.Blockers}
	err := a.Print(ui.View{
		Data: view{r.State, result}, Rows: r, Name: "state",
		Columns: []ui.Column{
			{Title: "GATE", Field: "state", Tones: map[string]ui.Tone{open: ui.Good, frozen: ui.Warn, unfinished: ui.Bad, elsewhere: ui.Bad}},
			{Title: "CHANGED", Field: "changed"},
			{Title: "BY", Field: "closed_by", Optional: true},
			{Title: "SINCE", Field: "closed_at", Kind: ui.Since, Optional: true},
			{Title: "REASON", Field: "closed_reason", Optional: true},
			{Title: "IN THE WAY", Field: "blockers", Optional: true, Count: true},
		},
	})
	if err != nil {
		return err
	}
	if len(result.Blockers) > 0 {
		return &app.Failure{
			Exit: app.Held, Code: "blocked", Details: map[string]any{"blockers": result.Blockers},
			Message: "frozen, but what began before has not ended, and may still be granted: " + names(result.Blockers),
			Hint:    "when these transactions have ended, run it again to be sure",
		}
	}
	switch {
	case !result.Changed:
		a.Aside("it was so already; nothing was changed")
	case r.State == frozen:
		a.Aside("to grant again: %s", a.Command("thaw", "--reason", "TEXT"))
	}
	return nil
}

func names(processes []owner.Process) string {
	texts := make([]string, len(processes))
	for i, p := range processes {
		texts[i] = p.String()
	}
	return strings.Join(texts, ", ")
}

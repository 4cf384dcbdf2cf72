package restore

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/dlockctl/dlockctl/internal/cli/app"
	"github.com/dlockctl/dlockctl/internal/instance/owner"
	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/paystore/floor"
	"github.com/dlockctl/dlockctl/internal/restore"
	"github.com/dlockctl/dlockctl/internal/ui"
)

// moveWithin is the deadline of a fast-forward: it waits for transactions several
// times, and verifies everything again.
const moveWithin = 15 * time.Minute

type fastForwardOptions struct {
	evidenceFlags
	bumpFlags

	plan, reason           string
	yes, terminate, dryRun bool
	// beside are the flags that a plan file has said already.
	beside []string
}

func newFastForwardCmd(a *app.App) *cobra.Command {
	var opts fastForwardOptions
	cmd := &cobra.Command{
		Use:   "fast-forward --reason TEXT [--plan FILE]",
		Short: "Move lockdb past every token that may have been issued, and let it grant again",
		Long: "Close the gate, wait for what is under way, move the token source above everything that anybody\n" +
			"remembers, void all restored sessions and locks, refuse every older token at accounts and rail,\n" +
			"verify, and open the gate last. Killed at any moment, grants stay refused, and running it again\n" +
			"completes it. It shows what it will end and asks; without a terminal it needs --yes. The login\n" +
			"must be able to SET ROLE dlock_owner in both databases, as dlock_operator can.\n\n" +
			"Exit 0 ADVANCED or SAFE (there was nothing to do), 6 REFUSED_TRAFFIC, REFUSED_EVIDENCE or\n" +
			"REFUSED_CONFIG, 4 LOCK_TIMEOUT (named transactions are in the way; --terminate ends them), 10\n" +
			"VERIFY_FAILED or cut off. With 4 and 10 lockdb grants nothing until it is run again.\n\n" +
			"On etcd, --snapshot, --data-dir and --bump restore one member by etcdutl while none runs, where the\n" +
			"revision has to rise further than a running cluster can; what is behind -- goes to etcdutl as it is.",
		Example: "  dlockctl restore fast-forward --dry-run\n" +
			"  dlockctl restore fast-forward --reason 'point-in-time restore, ticket 812'\n" +
			"  dlockctl restore fast-forward --plan tonight.plan --reason 'ticket 812' --terminate --yes\n" +
			"  dlockctl restore fast-forward --backend etcd --snapshot s.db --data-dir /var/lib/etcd --bump 4294967296 -- --name m0",
		Args: opts.args,
		RunE: func(cmd *cobra.Command, args []string) error {
			opts.beside = given(cmd.Flags(), "accept-missing", "observed", "no-token-above", "margin", "again")
			return a.RunWithin(moveWithin, func(ctx context.Context, _ []string) error { return runFastForward(ctx, a, opts) })(cmd, args)
		},
	}
	opts.evidenceFlags.add(cmd, true)
	flags := cmd.Flags()
	opts.bumpFlags.add(flags)
	flags.StringVar(&opts.plan, "plan", "", "carry out this plan `FILE`, and refuse when the world has moved since")
	flags.StringVar(&opts.reason, "reason", "", "why; the operator log keeps it (required)")
	flags.String("operator", "", "who you are (default user@host)") // read through the configuration
	flags.BoolVar(&opts.terminate, "terminate", false, "end the transactions that are in the way")
	flags.BoolVarP(&opts.yes, "yes", "y", false, "do not ask")
	flags.BoolVar(&opts.dryRun, "dry-run", false, "print the plan, change nothing")
	app.ConfirmFlag(flags)
	return cmd
}

func runFastForward(ctx context.Context, a *app.App, opts fastForwardOptions) error {
	if opts.bumpFlags.given() {
		return runBump(ctx, a, opts)
	}
	if counted, err := onCounters(a); err != nil {
		return err
	} else if counted {
		return runCountersFastForward(ctx, a, opts)
	}
	what, err := opts.restoreOptions()
	if err != nil {
		return err
	}
	if !opts.dryRun {
		if err := opts.allowed(a); err != nil {
			return err
		}
		if what.Operator, err = a.Operator(); err != nil {
			return err
		}
	}
	what.Reason = opts.reason
	what.Progress = func(step restore.Step) { a.Aside("… %-17s %s", step, doing(step)) }
	stores, closeAll, err := open(ctx, a, access{changing: !opts.dryRun, terminate: opts.terminate, oldPrimary: opts.oldPrimary})
	if err != nil {
		return err
	}
	defer closeAll()
	plan, err := restore.Prepare(ctx, stores, what)
	if err != nil {
		return err
	}
	plan.Fixes = atOldPrimary(plan.Fixes, opts.oldPrimary)
	switch {
	case what.Plan != nil && what.Plan.Fingerprint != plan.Fingerprint:
		return stale(*what.Plan, plan) // before anybody is asked
	case opts.dryRun:
		return showPlan(a, plan, opts.words())
	case plan.Outcome != restore.Advanced:
		return finish(a, opts, untouched(plan))
	case len(plan.Rights) > 0:
		return &owner.RightsError{Doing: "fast-forward", Missing: plan.Rights}
	}
	if err := opts.ask(ctx, a, plan, what); err != nil {
		return err
	}
	result, err := restore.FastForward(ctx, stores, what)
	if err != nil {
		return err
	}
	result.Fixes = atOldPrimary(result.Fixes, opts.oldPrimary)
	return finish(a, opts, result)
}

// operatorSource is where a plan keeps what --observed said.
const operatorSource = "operator"

// stale says where the world differs from the plan file.
func stale(was, now restore.Plan) error {
	moved := []string{}
	if was.Identity != now.Identity {
		moved = append(moved, fmt.Sprintf("it was made on instance %d, timeline %d, and this is %d, %d",
			was.Identity.SystemIdentifier, was.Identity.Timeline, now.Identity.SystemIdentifier, now.Identity.Timeline))
	}
	before := map[string]string{}
	for _, e := range was.Evidence {
		before[e.Source] = word(e)
	}
	for _, e := range now.Evidence {
		if is := word(e); is != before[e.Source] {
			moved = append(moved, fmt.Sprintf("%s was %s, and is %s", e.Source, before[e.Source], is))
		}
	}
	moved = append(moved, fmt.Sprintf("it promised %s at %s, and it would be %s at %s", was.Outcome, was.Target, now.Outcome, now.Target))
	return &restore.StalePlanError{Moved: moved}
}

// restoreOptions are what the flags say, or the plan file.
func (o *fastForwardOptions) restoreOptions() (restore.Options, error) {
	what, err := o.options()
	if err != nil || o.plan == "" {
		return what, err
	}
	if len(o.beside) > 0 {
		return what, app.UsageError("make another plan with it: dlockctl restore plan --out FILE", "%s says otherwise than --plan, which says it all", o.beside[0])
	}
	plan, err := readPlan(o.plan)
	if err != nil {
		return what, err
	}
	what.Plan, what.Margin, what.NoTokenAbove, what.Again, what.AcceptMissing = &plan, plan.Margin, plan.NoTokenAbove, plan.Again, nil
	for _, e := range plan.Evidence { // which the fingerprint covers
		if e.Source == operatorSource {
			what.Observed = e.Value
		}
		if e.Status == lockstore.EvidenceAccepted {
			what.AcceptMissing = append(what.AcceptMissing, e.Source)
		}
	}
	return what, nil
}

// allowed looks at all that needs no database: the reason, the protected profile,
// and whether anybody can say yes.
func (o *fastForwardOptions) allowed(a *app.App) error {
	if err := a.RequireReason(o.reason); err != nil {
		return err
	}
	if err := a.Protect(); err != nil {
		return err
	}
	return a.CanAsk(o.yes, "--yes")
}

// words are the flags that carry out what was tried with --dry-run.
func (o *fastForwardOptions) words() []string {
	words := o.evidenceFlags.words()
	if o.plan != "" {
		words = planWords(o.plan, o.oldPrimary)
	}
	if o.terminate {
		words = append(words, "--terminate")
	}
	return words
}

// ask shows what will be ended.
func (o *fastForwardOptions) ask(ctx context.Context, a *app.App, plan restore.Plan, what restore.Options) error {
	if o.yes {
		return nil
	}
	for _, sign := range plan.Signs {
		a.Note("sign: %s", sign.What)
	}
	if len(plan.Signs) == 0 {
		a.Note("sign: none; nothing shows that lockdb was set back")
	}
	a.Note("observed: %s %s", plan.Observed, found(plan.Evidence, plan.ObservedIn, func(t time.Time) string { return ui.Ago(a.Streams.Now().Sub(t)) }))
	for _, source := range plan.Accepted {
		a.Note("without:  %s, which could not be read", source)
	}
	a.Note("moves:    the token source from %s to %s, or further if more is observed meanwhile", plan.Last, plan.Target)
	a.Note("ends:     %s and %s of lockdb, with an audit row each", count(plan.Traffic.Sessions, "session"), count(plan.Traffic.Locks, "lock"))
	a.Note("refuses:  every token up to %s, at accounts and rail, for ever", plan.Target)
	if plan.AccountsTotal > 0 {
		a.Note("leaves:   unfinished payouts of %s to be claimed anew", count(plan.AccountsTotal, "account"))
	}
	if o.terminate {
		a.Note("kills:    the transactions that are in the way; %s connected now", count(len(plan.Traffic.Connected), "client"))
	}
	a.Note("no lock is granted meanwhile. operator %q, reason %q", what.Operator, what.Reason)
	return a.Confirm(ctx, "Fast-forward lockdb?", "--yes")
}

// untouched is the result of a plan that is not carried out: there is nothing to
// do, or it is refused.
func untouched(plan restore.Plan) restore.Result {
	result := restore.Result{
		Outcome: plan.Outcome, Why: plan.Why, Fixes: plan.Fixes, Plan: plan, From: plan.Last, To: plan.Last, GateOpen: plan.Gate.Open(),
		Floors: []floor.Raised{}, Blockers: []owner.Process{}, Next: []string{},
	}
	if plan.Outcome != restore.Safe {
		result.Step = restore.StepEvidence
	}
	return result
}

// doing says a step in words.
func doing(step restore.Step) string {
	return map[restore.Step]string{
		restore.StepEvidence:       "reading all evidence",
		restore.StepCloseGate:      "closing the gate: no lock is granted from here on",
		restore.StepBarrier:        "waiting for the grants under way",
		restore.StepAdvance:        "moving the token source, voiding sessions and locks",
		restore.StepJournal:        "making the journal's partition",
		restore.StepFloorAccount:   "refusing older tokens at accounts",
		restore.StepBarrierAccount: "waiting for the postings under way",
		restore.StepFloorRail:      "refusing older tokens at the rail",
		restore.StepBarrierRail:    "waiting for the rail attempts under way",
		restore.StepMark:           "raising the outside mark",
		restore.StepVerify:         "verifying through new connections",
		restore.StepOpenGate:       "opening the gate",
	}[step]
}

package payout

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/dlockctl/dlockctl/internal/cli/app"
	"github.com/dlockctl/dlockctl/internal/paystore"
	"github.com/dlockctl/dlockctl/internal/paystore/posting"
	"github.com/dlockctl/dlockctl/internal/paystore/rail"
	"github.com/dlockctl/dlockctl/internal/ui"
)

// longestDeadline is what --rail-deadline may say at most: the account's lock is taken
// for some times as long.
const longestDeadline = time.Hour

type resolveOptions struct {
	verdict, evidence, reason, operator string
	yes, dryRun, noPost                 bool
	fromRail, all                       bool
	// deadline is rail-proxy's forwarding deadline (K-4.11).
	deadline time.Duration
}

func newResolveCmd(a *app.App) *cobra.Command {
	var opts resolveOptions
	cmd := &cobra.Command{
		Use:   "resolve ID|--all --reason TEXT [--from-rail | --verdict paid|rejected|not-found --evidence TEXT]",
		Short: "Finish a payout whose worker has gone, by the rail's record or by evidence",
		Long: "Take the account's lock, take the payout over, and carry it on: from what its rail attempt says, or,\n" +
			"where the rail's answer was never seen, from --verdict. The verdict is yours, so it wants evidence:\n" +
			"what the rail said when it was asked. Verdict, evidence and reason are kept for ever.\n\n" +
			"--from-rail asks the rail itself, at --rail-url or rail.url, keeps its answer, and finishes the payout;\n" +
			"nothing is sent to be paid. It settles what a restored paydb holds back, too: a payment that the rail\n" +
			"has made is taken down and posted, one that it has no record of may be paid. --all does so for every\n" +
			"payout that is held back or whose outcome nobody saw, and exits 10 when some stay unknown. It can be\n" +
			"run again at any time. The attempts want the login of payapp_rail: --rail-dsn-file.\n\n" +
			"paid and acknowledged payouts are posted, unless --no-post, and so are other payouts of the account\n" +
			"that the rail has acknowledged, before. It needs the rights of lockapp and payapp_resource.",
		Example: "  dlockctl payout resolve 6f1f3f0e-8b1c-4f0e-9c55-0a4f5d1c2b3a --reason 'worker-7 died' --dry-run\n" +
			"  dlockctl payout resolve 6f1f3f0e-8b1c-4f0e-9c55-0a4f5d1c2b3a --verdict paid --evidence 'statement 12, R-981' --reason 'asked the bank' --yes\n" +
			"  dlockctl payout resolve --all --from-rail --reason 'paydb was restored, ticket 812' --dry-run",
		Args: app.OptionalArg(),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.RunWithin(opts.within(), func(ctx context.Context, args []string) error { return opts.run(ctx, a, args) })(cmd, args)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&opts.verdict, "verdict", "", "what became of it at the rail: paid|rejected|not-found")
	flags.StringVar(&opts.evidence, "evidence", "", "how that is known: text, or a JSON object")
	flags.StringVar(&opts.reason, "reason", "", "why you do this; the record keeps it (required)")
	flags.String("operator", "", "who you are (default user@host)") // read through the configuration
	flags.BoolVar(&opts.noPost, "no-post", false, "leave it at RAIL_ACKED for an executor to post")
	flags.BoolVar(&opts.fromRail, "from-rail", false, "ask the payment rail what became of it")
	flags.BoolVar(&opts.all, "all", false, "with --from-rail: every payout that is held back, or whose outcome nobody saw")
	flags.String("rail-url", "", "the payment rail's `URL` (docs/rail.md)")                    // read through the configuration
	flags.String("rail-key-file", "", "`FILE` that holds the key of the rail's API, one line") // read through the configuration
	flags.DurationVar(&opts.deadline, "rail-deadline", rail.DefaultTimeout, "the forwarding deadline of rail-proxy, after which nothing of it is on its way")
	flags.BoolVarP(&opts.yes, "yes", "y", false, "do not ask")
	flags.BoolVar(&opts.dryRun, "dry-run", false, "show what would be done, change nothing")
	app.ConfirmFlag(flags)
	return cmd
}

// verdicts are what --verdict takes; UNDETERMINED is abandon's.
func verdicts() map[string]paystore.Verdict {
	return map[string]paystore.Verdict{
		"paid": paystore.VerdictPaid, "rejected": paystore.VerdictRejected, "not-found": paystore.VerdictNotFound,
	}
}

// within is the deadline of the command: it may have to wait for what is on its way to
// the rail, and --all asks about one payout after the other.
func (o resolveOptions) within() time.Duration {
	switch {
	case o.all:
		return 24 * time.Hour
	case o.fromRail:
		return time.Minute + 4*min(o.deadline, longestDeadline)
	default:
		return 0
	}
}

func (o resolveOptions) run(ctx context.Context, a *app.App, args []string) error {
	const help = "dlockctl payout resolve --help"
	switch {
	case o.all && len(args) > 0:
		return app.UsageError(help, "--all and the payout %q: give one of them", args[0])
	case o.all && !o.fromRail:
		return app.UsageError("add --from-rail", "--all settles by the rail's record alone; a verdict of yours is for one payout")
	case !o.all && len(args) == 0:
		return app.UsageError("every payout that is held back or unknown: dlockctl payout resolve --all --from-rail --reason TEXT", "dlockctl payout resolve needs ID, or --all")
	case o.fromRail && o.verdict+o.evidence != "":
		return app.UsageError("leave --verdict and --evidence out", "--from-rail takes the rail's answer and its evidence from the rail")
	case o.deadline <= 0:
		return app.UsageError("give what rail-proxy is configured with", "--rail-deadline %s is not above 0", o.deadline)
	case o.deadline > longestDeadline:
		return app.UsageError("give what rail-proxy is configured with, such as 10s", "--rail-deadline %s is above %s: the account would be locked for several times as long", o.deadline, longestDeadline)
	}
	o, err := o.signed(a)
	if err != nil {
		return err
	}
	if !o.fromRail {
		return runResolve(ctx, a, args[0], o)
	}
	client, err := railOf(a)
	if err != nil {
		return err
	}
	if o.all {
		return runResolveAll(ctx, a, client, o)
	}
	return runFromRail(ctx, a, client, args[0], o)
}

// signed adds who resolves, and refuses to do it without a reason.
func (o resolveOptions) signed(a *app.App) (resolveOptions, error) {
	operator, err := a.Operator()
	if err != nil {
		return o, err
	}
	o.operator = operator
	return o, a.RequireReason(o.reason)
}

func runResolve(ctx context.Context, a *app.App, id string, opts resolveOptions) error {
	verdict, evidence, err := opts.judgement()
	if err != nil {
		return err
	}
	p, err := look(ctx, a, id, opts.dryRun)
	if err != nil {
		return err
	}
	if err := resolvable(p, verdict); err != nil {
		return err
	}
	plan := planResolve(p, verdict, opts.noPost)
	if opts.dryRun {
		return printPlan(a, p.Payout, plan)
	}
	if err := confirm(ctx, a, p.Payout, plan, opts.yes); err != nil {
		return err
	}
	desk, err := sitDown(ctx, a, opts.operator, p.AccountID, deskTTL)
	if err != nil {
		return err
	}
	defer desk.leave(ctx, a)
	return desk.resolve(ctx, a, p.PayoutID, verdict, evidence, opts)
}

func (d *desk) resolve(ctx context.Context, a *app.App, id string, verdict paystore.Verdict, evidence json.RawMessage, opts resolveOptions) error {
	p, err := d.takeOver(ctx, id)
	// Where the attempt leads nowhere, the verdict does.
	stuck := false
	if _, is := errors.AsType[*paystore.EvidenceError](err); is && verdict != "" {
		stuck, err = true, nil
	}
	if err != nil {
		return err
	}
	if stuck || p.State == paystore.RailAmbiguous {
		if verdict == "" {
			return needsVerdict(p)
		}
		p, err = d.posting.Resolve(ctx, posting.ResolveParams{
			PayoutID: id, Token: d.token, Source: paystore.SourceOperator, Verdict: verdict, Evidence: evidence,
			Operator: d.operator, Reason: opts.reason,
		})
		if err != nil {
			return err
		}
	}
	if p.State == paystore.RailAcked && !opts.noPost {
		if err := d.finishAcked(ctx, a, id); err != nil {
			return err
		}
	}
	return printDone(ctx, a, d.db, id, "resolve")
}

// judgement reads --verdict and --evidence, which come together or not at all.
func (o resolveOptions) judgement() (paystore.Verdict, json.RawMessage, error) {
	if o.verdict == "" {
		if o.evidence != "" {
			return "", nil, app.UsageError("add --verdict paid, rejected or not-found", "--evidence without a verdict proves nothing")
		}
		return "", nil, nil
	}
	verdict, known := verdicts()[strings.ToLower(o.verdict)]
	if !known {
		return "", nil, app.UsageError("give paid, rejected or not-found; what will never be known is dlockctl payout abandon",
			"--verdict %q is none", o.verdict)
	}
	evidence, err := evidenceOf(o.evidence)
	return verdict, evidence, err
}

// evidenceOf is the JSON object that is kept: the one given, or one around the text.
func evidenceOf(text string) (json.RawMessage, error) {
	if strings.TrimSpace(text) == "" {
		return nil, app.UsageError("say how it is known: --evidence 'bank statement of 2026-11-29, reference R-981'", "--evidence is missing")
	}
	var object map[string]any
	if json.Unmarshal([]byte(text), &object) == nil && len(object) > 0 {
		return json.RawMessage(text), nil
	}
	evidence, err := json.Marshal(map[string]string{"text": text})
	if err != nil {
		return nil, fmt.Errorf("encode the evidence: %w", err)
	}
	return evidence, nil
}

// resolvable refuses what there is nothing to resolve about, before a lock is taken.
func resolvable(p paystore.PayoutDetail, verdict paystore.Verdict) error {
	atRail := []paystore.State{paystore.RailSubmitted, paystore.RailAmbiguous, paystore.RailAcked}
	switch {
	case !slices.Contains(atRail, p.State):
		err := &paystore.StateError{PayoutID: p.PayoutID, Have: p.State, Want: atRail}
		if p.State == paystore.Pending || p.State == paystore.Claimed {
			return app.WithHint(err, "it has not been near the rail: an executor will pay it, or give it up with dlockctl payout abandon")
		}
		return err
	case p.State == paystore.RailSubmitted:
		return settleable(p, verdict)
	case p.State == paystore.RailAmbiguous && verdict == "":
		return needsVerdict(p.Payout)
	case p.State == paystore.RailAcked && verdict != "" && verdict != paystore.VerdictPaid:
		return app.UsageError("leave --verdict out: it will be posted", "the rail has acknowledged payout %s; a verdict against it needs evidence that the rail gives, not you", p.PayoutID)
	}
	return nil
}

// settleable refuses a payout whose attempt does not say where it is, before it is
// taken over: a try that leads nowhere would make it look as if somebody worked on it.
func settleable(p paystore.PayoutDetail, verdict paystore.Verdict) error {
	ask := "a later worker takes it over and asks the rail; or: dlockctl payout resolve " + p.PayoutID + " --from-rail --reason TEXT"
	i := slices.IndexFunc(p.Attempts, func(at paystore.Attempt) bool { return at.Outcome != paystore.OutcomeFenced })
	switch {
	case i < 0 && verdict != "":
		return nil
	case i < 0:
		return &paystore.EvidenceError{
			Message: fmt.Sprintf("payout %s has no attempt at the rail", p.PayoutID),
			Hint:    ask + "; or, where the rail cannot be asked by a program, ask it for " + p.IdempotencyKey + " and say --verdict not-found --evidence TEXT",
		}
	case p.Attempts[i].Outcome == paystore.OutcomeRejected && standing(p) == paystore.VerdictPaid && verdict == "":
		return &paystore.EvidenceError{
			Message: fmt.Sprintf("the rail rejected payout %s, as its attempt says, and a resolution says that it paid", p.PayoutID),
			Hint:    "ask the rail for " + p.IdempotencyKey + " in writing, then say which is right: --verdict paid or rejected, with --evidence TEXT; both stay on record",
		}
	case p.Attempts[i].Outcome == "":
		return &paystore.EvidenceError{Message: fmt.Sprintf("the rail's answer to payout %s is not known: its attempt is in flight", p.PayoutID), Hint: ask}
	case p.Attempts[i].Outcome == paystore.OutcomeTimeout && verdict == "":
		return needsVerdict(p.Payout)
	}
	return nil
}

// standing is the verdict that stands: the last one that says anything.
func standing(p paystore.PayoutDetail) (verdict paystore.Verdict) {
	var last int64
	for _, r := range p.Resolutions {
		if r.Verdict != paystore.VerdictUndetermined && r.ResolutionID > last {
			verdict, last = r.Verdict, r.ResolutionID
		}
	}
	return verdict
}

func needsVerdict(p paystore.Payout) error {
	return app.UsageError("ask the rail for "+p.IdempotencyKey+", then say --verdict paid, rejected or not-found with --evidence TEXT",
		"nobody saw the rail's answer to payout %s, and it is never guessed: --verdict is missing", p.PayoutID)
}

func planResolve(p paystore.PayoutDetail, verdict paystore.Verdict, noPost bool) []string {
	plan := []string{
		fmt.Sprintf("acquire %s, for a token above %s", paystore.LockKey(p.AccountID), p.ClaimToken),
		fmt.Sprintf("take the payout over from %s, as it stands: %s", ui.Visible(p.ClaimedBy), p.State),
	}
	if p.State == paystore.RailSubmitted {
		plan = append(plan, "move it to where its rail attempt says it is, if there is one")
	}
	if verdict != "" && p.State != paystore.RailAcked {
		plan = append(plan, fmt.Sprintf("if that leads nowhere, or the rail's answer was never seen, record the verdict %s with its evidence", verdict))
	}
	if !noPost && (verdict == "" || verdict == paystore.VerdictPaid) {
		plan = append(plan, fmt.Sprintf("if the rail has paid, post %s minor units of %s", p.AmountMinor, p.Currency))
	}
	return plan
}

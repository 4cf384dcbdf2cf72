package restore

import (
	"context"
	"fmt"
	"slices"

	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/paystore/floor"
)

// mostAccounts bounds the accounts that a plan names; it counts them all.
const mostAccounts = 100

// Plan is what a fast-forward would do, and why. It is also the plan file.
type Plan struct {
	Version int `json:"version"`
	// Outcome is what FastForward would answer now, Why what speaks for it, and
	// Fixes what to do about a refusal.
	Outcome Outcome  `json:"outcome"`
	Why     []string `json:"why"`
	Fixes   []string `json:"fixes"`
	// Identity is where lockdb is, Gate where it was opened last.
	Identity lockstore.Identity `json:"identity"`
	Gate     lockstore.Gate     `json:"gate"`
	Signs    []Sign             `json:"signs"`

	// Last is the token last issued here; Observed the highest that may have been
	// issued anywhere, from ObservedIn; Target where the sequence would stand, and
	// Skipped how many tokens nobody gets. Headroom is what would be left.
	Last       lockstore.Token `json:"last"`
	Observed   lockstore.Token `json:"observed"`
	ObservedIn string          `json:"observed_in"`
	Margin     lockstore.Token `json:"margin"`
	Target     lockstore.Token `json:"target"`
	Skipped    lockstore.Token `json:"skipped"`
	Headroom   lockstore.Token `json:"headroom"`

	Evidence []lockstore.Evidence `json:"evidence"`
	Missing  []string             `json:"missing"`
	Accepted []string             `json:"accepted_missing"`
	// NoTokenAbove is the operator's limit, 0 for none.
	NoTokenAbove lockstore.Token `json:"no_token_above,omitempty"`
	// Again is the operator's word that lockdb is a plain copy; see [Options].
	Again bool `json:"again,omitempty"`

	Traffic lockstore.Traffic `json:"traffic"`
	// Accounts have payouts between claim and end, the highest claim first;
	// AccountsTotal counts those that are not named too.
	Accounts      []floor.Unfinished `json:"accounts"`
	AccountsTotal int                `json:"accounts_total"`
	// Pay is paydb's own gate, nil when it could not be read.
	Pay *floor.Gate `json:"pay_gate,omitempty"`
	// Rights are what the login lacks to carry this out, each as the SQL to run.
	Rights []string `json:"rights_missing"`

	// Fingerprint is over what the plan depends on: a fast-forward that is given
	// the plan refuses another one.
	Fingerprint string `json:"fingerprint"`
}

// Sign is one sign that lockdb was set back, or that its gate is shut, with what to
// do about it.
type Sign struct {
	// ID is stable: gate_missing, identity, timeline, unfinished, frozen,
	// paydb_ahead, lockdb_ahead, mark_ahead, old_primary_ahead, paydb_restored.
	ID      string `json:"id"`
	What    string `json:"what"`
	Command string `json:"command"`
}

// OldPrimaryFile stands in a fix for the file with the old primary's address, which
// this package does not know.
const OldPrimaryFile = "FILE"

const (
	runFastForward = "dlockctl restore fast-forward --reason TEXT"
	runThaw        = "dlockctl thaw --reason TEXT"
	runFreezeOld   = "dlockctl freeze --lock-dsn-file " + OldPrimaryFile + " --reason TEXT"
	runRepairPaydb = "dlockctl restore paydb --reason TEXT"
	runResolve     = "dlockctl payout resolve --all --from-rail --reason TEXT"
)

// Prepare looks at everything and says what a fast-forward would do. It changes
// nothing, and needs no more than to read. An error is returned when lockdb could
// not be looked at.
func Prepare(ctx context.Context, stores Stores, opts Options) (Plan, error) {
	opts, err := opts.valid(false)
	if err != nil {
		return Plan{}, err
	}
	outside, shown, err := stores.outside(ctx, opts)
	if err != nil {
		return Plan{}, err
	}
	view, err := lookAt(ctx, stores.Lock, opts.limit())
	if err != nil {
		return Plan{}, err
	}
	plan := Plan{
		Version: planVersion, Why: []string{}, Fixes: []string{}, Rights: []string{}, Accounts: []floor.Unfinished{},
		Identity: view.Identity, Gate: view.Gate, Last: view.Source.Last, Margin: opts.Margin, NoTokenAbove: opts.NoTokenAbove, Again: opts.Again,
	}
	if plan.Traffic, err = stores.Lock.Traffic(ctx); err != nil {
		return Plan{}, err
	}
	a := assess(slices.Concat(outside, view.Evidence), view.FastForwards.Targets, opts)
	plan.Evidence, plan.Missing, plan.Accepted = a.evidence, a.missing, a.accepted
	plan.Observed, plan.ObservedIn, plan.Target = a.observed, a.source, a.target(opts.Margin)
	plan.Headroom = max(0, lockstore.MaxToken-plan.Target)
	plan.Skipped = max(0, plan.Target-plan.Last)
	floors := plan.addPayments(ctx, stores)
	plan.Signs = signs(view, a, shown, plan.Pay)
	plan.addRights(ctx, stores)

	refusal := refuse(view, a, stores, plan.Target)
	switch {
	case refusal != nil:
		plan.Outcome, plan.Why, plan.Fixes = refusal.Outcome, refusal.Why, refusal.Fixes
	case !opts.Again && isSafe(view, a, floors, stores):
		plan.Outcome, plan.Target, plan.Skipped = Safe, plan.Last, 0
		plan.Headroom = lockstore.MaxToken - plan.Last
		plan.Why = []string{fmt.Sprintf("the last record of the operator log is a finished fast-forward to %s, and nothing was granted or observed above it", view.FastForwards.LastToken)}
		if stores.Pay == nil && !stores.NoPayments {
			plan.Why = append(plan.Why, floorsUnknown)
		}
	default:
		plan.Outcome, plan.Why = Advanced, plan.reasons()
	}
	plan.Fingerprint = plan.fingerprint()
	return plan, nil
}

// lookAt reads lockdb as a transaction that advances would see it.
func lookAt(ctx context.Context, lock lockstore.Rewinder, limit lockstore.Token) (view lockstore.AdvanceView, err error) {
	if view.Identity, err = lock.Identity(ctx); err != nil {
		return view, err
	}
	if view.Gate, err = lock.Gate(ctx); err != nil {
		return view, err
	}
	if view.FastForwards, err = lock.FastForwards(ctx); err != nil {
		return view, err
	}
	if view.Evidence, err = lock.Evidence(ctx, limit); err != nil {
		return view, err
	}
	view.Source, err = lock.Source(ctx)
	return view, err
}

// addPayments reads what of paydb is shown. What cannot be read there is missing
// among the evidence already.
func (p *Plan) addPayments(ctx context.Context, stores Stores) map[floor.Point]lockstore.Token {
	if stores.Pay == nil {
		return nil
	}
	if accounts, total, err := stores.Pay.Unfinished(ctx, mostAccounts); err == nil {
		p.Accounts, p.AccountsTotal = accounts, total
	}
	if gate, err := stores.Pay.Gate(ctx); err == nil {
		p.Pay = &gate
	}
	floors := map[floor.Point]lockstore.Token{}
	if read, err := stores.Pay.Floors(ctx); err == nil {
		for point, token := range read {
			floors[point] = lockstore.Token(token)
		}
	}
	return floors
}

func (p *Plan) addRights(ctx context.Context, stores Stores) {
	add := func(database string, missing []string, err error) {
		if err != nil {
			p.Rights = append(p.Rights, fmt.Sprintf("%s: its rights could not be looked at: %v", database, err))
		}
		for _, sql := range missing {
			p.Rights = append(p.Rights, database+": "+sql)
		}
	}
	missing, err := stores.Lock.Rights(ctx)
	add("lockdb", missing, err)
	if stores.Pay != nil {
		missing, err := stores.Pay.Rights(ctx)
		add("paydb", missing, err)
	}
}

func (p *Plan) reasons() []string {
	why := []string{}
	for _, s := range p.Signs {
		why = append(why, s.What)
	}
	if p.Observed > 0 {
		why = append(why, fmt.Sprintf("the highest token observed is %s, in %s; this lockdb issued %s last", p.Observed, p.ObservedIn, p.Last))
	}
	return why
}

// signs are what shows that lockdb was set back, or keeps its gate shut. shown is what
// the outside mark saw, 0 for nothing.
func signs(view lockstore.AdvanceView, a assessment, shown lockstore.Token, pay *floor.Gate) []Sign {
	found := []Sign{}
	add := func(is bool, id, command, format string, args ...any) {
		if is {
			found = append(found, Sign{ID: id, What: fmt.Sprintf(format, args...), Command: command})
		}
	}
	gate, here := view.Gate, view.Identity
	elsewhere := gate.Present && gate.OpenedOn.SystemIdentifier != here.SystemIdentifier
	later := gate.Present && !elsewhere && gate.OpenedOn.Timeline != here.Timeline
	add(!gate.Present, "gate_missing", runFastForward, "the gate's row is gone")
	switch {
	case elsewhere && gate.Sign != "":
		add(true, "identity", runFastForward, "%s", gate.Sign)
	case later && gate.Sign != "":
		add(true, "timeline", runFastForward, "%s", gate.Sign)
	default:
		add(elsewhere, "identity", runFastForward,
			"the gate was opened on instance %d, and this is %d: lockdb was restored elsewhere from a dump, or replicated", gate.OpenedOn.SystemIdentifier, here.SystemIdentifier)
		add(later, "timeline", runFastForward,
			"the gate was opened on timeline %d, and this is %d: lockdb was restored to a moment, or a standby was promoted", gate.OpenedOn.Timeline, here.Timeline)
	}
	if gate.Run != nil {
		add(true, "unfinished", runFastForward, "a fast-forward that %s began at %s was cut off: %s", gate.Run.By, gate.Run.At, gate.Run.Reason)
	}
	add(gate.ClosedBy != "", "frozen", runThaw, "grants are frozen by %s: %s", gate.ClosedBy, gate.Reason)
	highest, sources := ahead(a, view.Source.Last, floor.Sources())
	others := ""
	if sources > 1 {
		others = fmt.Sprintf("; %d of its sources are above it", sources)
	}
	add(sources > 0, "paydb_ahead", runFastForward, "%s of paydb has token %s, above the last one issued here, %s%s", highest.Source, highest.Value, view.Source.Last, others)
	// By itself the sequence is set back by a hand, or left out of a dump.
	switch own, sources := ahead(a, view.Source.Last, lockSources()); {
	case sources > 0:
		add(true, "lockdb_ahead", runFastForward, "%s of lockdb has token %s, above the last one issued here, %s: its sequence was set back", own.Source, own.Value, view.Source.Last)
	default:
		add(a.reached > view.Source.Last, "lockdb_ahead", runFastForward, "a fast-forward to %s was recorded here, and the token last issued is %s: the sequence was set back", a.reached, view.Source.Last)
	}
	for _, e := range a.evidence {
		if e.Own || e.Value <= view.Source.Last {
			continue
		}
		add(e.Source == sourceOld, "old_primary_ahead", runFastForward, "the old primary issued %s, above the last one issued here, %s", e.Value, view.Source.Last)
	}
	add(shown > view.Source.Last, "mark_ahead", runFastForward, "the outside mark saw token %s, above the last one issued here, %s", shown, view.Source.Last)
	if pay != nil {
		add(!pay.Here, "paydb_restored", runRepairPaydb, "paydb itself was restored, promoted or copied: %d payouts may have been paid already", pay.Unresolved)
	}
	return found
}

// floorsUnknown is what a paydb out of reach leaves open.
const floorsUnknown = "paydb is out of reach, so it is not known whether its floors refuse those from before; run this again when it is back"

// ahead is the source among those named with the highest token above last, and how many
// have one.
func ahead(a assessment, last lockstore.Token, among []string) (highest lockstore.Evidence, sources int) {
	for _, e := range a.evidence {
		if e.Own || e.Value <= last || !slices.Contains(among, e.Source) {
			continue
		}
		sources++
		if e.Value > highest.Value {
			highest = e
		}
	}
	return highest, sources
}

// isSafe is the one case in which nothing moves: the last record of the operator
// log is a finished fast-forward of this instance and timeline, the gate is open,
// and no grant or evidence lies above its target. It counts as finished only with
// what it had to leave undone, when paydb or the mark was out of reach.
func isSafe(view lockstore.AdvanceView, a assessment, floors map[floor.Point]lockstore.Token, stores Stores) bool {
	last := view.FastForwards
	if last.LastAction != lockstore.ActionFastForwardDone || !last.LastHere || !view.Gate.Open() ||
		view.Source.Newest() > last.LastToken || view.Source.Last < last.LastToken || a.observed > last.LastToken {
		return false
	}
	if stores.Pay != nil && (floors[floor.Account] < last.LastToken || floors[floor.Rail] < last.LastToken) {
		return false
	}
	for _, e := range a.evidence {
		if e.Source == sourceMark && e.Status != lockstore.EvidenceNone && e.Value < last.LastToken {
			return false
		}
	}
	return true
}

// refusal is an outcome that is no error: what speaks against going on.
type refusal struct {
	Outcome    Outcome
	Why, Fixes []string
}

func (r *refusal) Error() string { return fmt.Sprint(r.Outcome, ": ", r.Why) }

func (r *refusal) add(why, fix string) {
	r.Why = append(r.Why, why)
	if fix != "" && !slices.Contains(r.Fixes, fix) {
		r.Fixes = append(r.Fixes, fix)
	}
}

// refuse tells what speaks against a fast-forward, the first kind of it; nil when
// nothing does.
func refuse(view lockstore.AdvanceView, a assessment, stores Stores, target lockstore.Token) *refusal {
	config := &refusal{Outcome: RefusedConfig}
	for _, p := range view.Source.Problems {
		config.add(p.Problem+" ("+p.Clause+")", p.Fix)
	}
	evidence := &refusal{Outcome: RefusedEvidence}
	for _, e := range a.evidence {
		if e.Status == lockstore.EvidenceUnavailable {
			evidence.add(fmt.Sprintf("%s could not be read: %s", e.Source, e.Reason), "make it readable, or go on without it: --accept-missing "+e.Source)
		}
	}
	for _, forged := range a.forged {
		evidence.add(forged, "find out who wrote it; if no token that high was ever issued, say so: --no-token-above N")
	}
	if len(evidence.Why) == 0 && len(config.Why) == 0 {
		addRoom(config, view, a, target)
	}
	traffic := &refusal{Outcome: RefusedTraffic}
	if stores.Old != nil && stores.Old.Granting {
		traffic.add(fmt.Sprintf("the old primary, on timeline %d, still grants: its tokens may rise above any target", stores.Old.Identity.Timeline),
			"stop it, or freeze it first: "+runFreezeOld)
	}
	for _, r := range []*refusal{config, evidence, traffic} {
		if len(r.Why) > 0 {
			return r
		}
	}
	return nil
}

// addRoom refuses a target that leaves no tokens (K-7.3), or that the sequence
// cannot reach.
func addRoom(config *refusal, view lockstore.AdvanceView, a assessment, target lockstore.Token) {
	if target > lockstore.MaxToken-leastHeadroom {
		config.add(fmt.Sprintf("the target %s leaves fewer tokens below 2^53 than one more fast-forward takes; it stands on token %s in %s", target, a.observed, a.source),
			"if no token that high was ever issued, say so: --no-token-above N; or give a smaller --margin")
	}
	if int64(target) < view.Source.Max {
		return
	}
	if view.Source.Beyond != nil {
		config.add(view.Source.Beyond(target))
		return
	}
	config.add(fmt.Sprintf("the sequence ends at %d, and the target is %s", view.Source.Max, target),
		"run as its owner: ALTER SEQUENCE fencing_token_seq NO MAXVALUE")
}

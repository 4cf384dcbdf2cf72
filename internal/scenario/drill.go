package scenario

import (
	"context"
	"encoding/json"

	"github.com/dlockctl/dlockctl/internal/lockstore"
)

// Verdict says whether a step of a drill was as it must be.
type Verdict string

// The verdicts.
const (
	Passed Verdict = "passed"
	Failed Verdict = "failed"
)

// DrillStep is one line of a drill's report.
type DrillStep struct {
	Step string `json:"step"`
	// Expected is what must be so; Seen is what the databases said.
	Expected string `json:"expected"`
	Seen     string `json:"seen"`
	// Token is the one at stake, 0 where there is none, and Holder who was granted it.
	Token   lockstore.Token `json:"token"`
	Holder  string          `json:"holder"`
	Verdict Verdict         `json:"verdict"`
}

// MarshalJSON writes the step with a string beside its token (K-5.4).
func (s DrillStep) MarshalJSON() ([]byte, error) {
	type plain DrillStep
	return json.Marshal(struct {
		plain
		TokenStr string `json:"token_str"`
	}{plain(s), s.Token.String()})
}

// AllPassed tells whether every step passed, and that there are any.
func AllPassed(steps []DrillStep) bool {
	for _, s := range steps {
		if s.Verdict != Passed {
			return false
		}
	}
	return len(steps) > 0
}

// report turns a story's outcomes into steps.
func report(outcomes []Outcome) []DrillStep {
	steps := make([]DrillStep, len(outcomes))
	for i, o := range outcomes {
		steps[i] = DrillStep{Step: o.ID, Expected: o.Must, Seen: o.Saw, Token: o.token, Holder: o.holder, Verdict: Failed}
		if o.OK {
			steps[i].Verdict = Passed
		}
	}
	return steps
}

// DrillStaleHolder plays a holder that stalls past its lease, and comes back with its
// token when another has it: first with the lock alone, then with a payout. It
// needs migrated databases and a seeded account.
func DrillStaleHolder(ctx context.Context, cast Cast) []DrillStep {
	t := &takeover{play: play{Cast: cast}}
	defer t.leave()
	return report(t.run(ctx, t.findAccount, t.openClients, t.contend, t.stall, t.comeBack, t.handBack, t.payout, t.stalePayout))
}

// handBack ends the second's grant, so that the payout begins with a free key.
func (t *takeover) handBack(ctx context.Context) error {
	t.step("%s releases %s", second, t.key)
	_, err := t.b.Release(ctx, t.key, t.current)
	return err
}

package restore

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"

	"github.com/dlockctl/dlockctl/internal/lockstore"
)

// planVersion is the version of the plan file.
const planVersion = 1

// mostPlanBytes is far above any plan: the wrong file was named.
const mostPlanBytes = 16 << 20

// PlanFileError is returned by ReadPlan: the file is no plan of this program, or
// was edited.
type PlanFileError struct{ Problem string }

func (e *PlanFileError) Error() string {
	return "read the plan: " + e.Problem + "; write a new one with dlockctl restore plan"
}

// StalePlanError is returned by FastForward: the world has moved since the plan was
// made, and Moved says where. Nothing was changed, unless it says so.
type StalePlanError struct{ Moved []string }

func (e *StalePlanError) Error() string {
	return fmt.Sprintf("the plan is stale: %q; make a new one with dlockctl restore plan", e.Moved)
}

// Write writes the plan file.
func (p Plan) Write(w io.Writer) error {
	text, err := json.MarshalIndent(p, "", "  ")
	if err != nil {
		return fmt.Errorf("write the plan: %w", err)
	}
	if _, err := w.Write(append(text, '\n')); err != nil {
		return fmt.Errorf("write the plan: %w", err)
	}
	return nil
}

// ReadPlan reads a plan file. It returns *PlanFileError.
func ReadPlan(r io.Reader) (Plan, error) {
	text, err := io.ReadAll(io.LimitReader(r, mostPlanBytes))
	if err != nil {
		return Plan{}, fmt.Errorf("read the plan: %w", err)
	}
	var p Plan
	if err := json.Unmarshal(text, &p); err != nil {
		return Plan{}, &PlanFileError{"it is not JSON that this program wrote"}
	}
	switch {
	case p.Version != planVersion:
		return Plan{}, &PlanFileError{fmt.Sprintf("it is of version %d, and this program knows %d", p.Version, planVersion)}
	case p.Fingerprint != p.fingerprint():
		return Plan{}, &PlanFileError{"it was edited: its fingerprint does not fit"}
	}
	return p, nil
}

// fingerprint is over what decides: identities, evidence and target. Who is
// connected and which sessions come and go meanwhile decides nothing.
func (p Plan) fingerprint() string {
	h := sha256.New()
	// A digest takes what it is given; the encoder meets plain values only.
	_ = json.NewEncoder(h).Encode([]any{ //nolint:errchkjson // see above
		p.Version, p.Identity, p.Gate.Present, p.Gate.OpenedOn, p.Outcome, p.Last, p.Observed, p.Margin, p.Target, p.NoTokenAbove, p.values(), p.Again,
	})
	return hex.EncodeToString(h.Sum(nil))
}

type value struct {
	Source string
	Status lockstore.EvidenceStatus
	Value  lockstore.Token
	Above  string
	Own    bool
}

func (p Plan) values() []value {
	values := make([]value, len(p.Evidence))
	for i, e := range p.Evidence {
		values[i] = value{e.Source, e.Status, e.Value, e.Above, e.Own}
	}
	return values
}

// moved tells where another plan differs, for a reader.
func (p Plan) moved(now Plan) []string {
	moved := []string{}
	differs := func(is bool, format string, args ...any) {
		if is {
			moved = append(moved, fmt.Sprintf(format, args...))
		}
	}
	differs(p.Identity != now.Identity, "it was made on instance %d, timeline %d, and this is %d, %d",
		p.Identity.SystemIdentifier, p.Identity.Timeline, now.Identity.SystemIdentifier, now.Identity.Timeline)
	differs(p.Gate.OpenedOn != now.Gate.OpenedOn || p.Gate.Present != now.Gate.Present, "the gate was opened elsewhere since")
	was := map[string]value{}
	for _, v := range p.values() {
		was[v.Source] = v
	}
	for _, v := range now.values() {
		old := was[v.Source]
		differs(v != old, "%s was %s %s, and is %s %s", v.Source, old.Status, old.Value, v.Status, v.Value)
	}
	differs(p.Margin != now.Margin, "its margin was %s, and %s is asked for", p.Margin, now.Margin)
	differs(p.NoTokenAbove != now.NoTokenAbove, "its limit was %s, and %s is asked for", p.NoTokenAbove, now.NoTokenAbove)
	differs(p.Again != now.Again, "it was made with --again or without, and this is not")
	differs(p.Target != now.Target, "its target was %s, and would be %s", p.Target, now.Target)
	differs(p.Outcome != now.Outcome, "it promised %s, and would be %s", p.Outcome, now.Outcome)
	return moved
}

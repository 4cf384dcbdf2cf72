package counters

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"github.com/dlockctl/dlockctl/internal/instance/owner"
	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/lockstore/syncguard"
	"github.com/dlockctl/dlockctl/internal/restore"
)

// DefaultMargin is how far above what was observed a counter lands: more than one
// key can be granted in a week at a thousand a second, and room for 900,000 restores.
const DefaultMargin int64 = 1_000_000_000

// limit is the last fence that is issued: 15 digits, and the library's own bound.
const limit = int64(syncguard.MaxFence)

// Steps of a fast-forward; see the package comment.
const (
	StepEvidence restore.Step = "evidence"
	StepRaise    restore.Step = "raise"
	StepVerify   restore.Step = "verify"
)

// Observation is a fence that somebody outside of the database remembers.
type Observation struct {
	Fence int64
	// Source says who: "operator", or the file.
	Source string
	// Settled tells that the operator has named a fence of this key, be it this one or
	// a lower one: that stands for what the tables tell of it and nobody can believe.
	// A file cannot: it is of before, and the row may be of a grant that came after.
	Settled bool
}

// Observations are the highest of each counter's key.
type Observations map[string]Observation

// Say notes the operator's word on a lock's key, which may stand in any Unicode form;
// one that this program might normalise otherwise than SyncGuard is taken as it stands,
// for a row of that name has no other way out. It refuses, wrapping
// lockstore.ErrInvalid, a key that is no lock's of SyncGuard.
func (o Observations) Say(key string, fence int64) error {
	counter, err := syncguard.CounterKey(key)
	if err != nil {
		counter = syncguard.FencePrefix + key
		if _, ours := syncguard.LockOfCounter(counter); !ours {
			return err
		}
	}
	o.add(counter, Observation{fence, SourceOperator, true})
	return nil
}

func (o Observations) add(counter string, told Observation) {
	have, known := o[counter]
	settled := have.Settled || told.Settled
	if !known || have.Fence < told.Fence {
		have = told
	}
	have.Settled = settled
	o[counter] = have
}

// Options are what the operator says.
type Options struct {
	Operator, Reason string
	// Margin defaults to DefaultMargin.
	Margin int64
	// Observed is evidence from outside of the database.
	Observed Observations
	// Again raises also what a record of this instance says was raised: after a plain
	// copy of files was put back, which keeps instance and timeline.
	Again bool
	// Progress is told each step before it begins; nil for nobody.
	Progress func(restore.Step)
}

func (o Options) valid(changing bool) (Options, error) {
	if o.Margin == 0 {
		o.Margin = DefaultMargin
	}
	var errs []error
	if o.Margin < 1 || o.Margin > limit {
		errs = append(errs, fmt.Errorf("%w: margin %d is not from 1 to %d; leave it out for %d", lockstore.ErrInvalid, o.Margin, limit, DefaultMargin))
	}
	if changing {
		errs = append(errs, lockstore.ValidOperator(o.Operator), lockstore.ValidReason(o.Reason))
	}
	return o, errors.Join(errs...)
}

// State is what is to be done about a key.
type State string

// The states.
const (
	// Safe: raised on this instance, and nothing granted or observed since.
	Safe State = "safe"
	// Raise: its counter is to be raised.
	Raise State = "raise"
	// Exhausted: its counter has passed the last fence, and issues none.
	Exhausted State = "exhausted"
	// NoRoom: the margin would pass the last fence.
	NoRoom State = "no_room"
	// Forged: a fence above the last one that is ever issued.
	Forged State = "forged"
	// Unreadable: the lock's fence is no number of 15 digits from 1.
	Unreadable State = "unreadable"
	// Foreign: SyncGuard calls no lock and no counter so, and draws nothing from it; it
	// is left as it stands.
	Foreign State = "foreign"
)

// Key is one counter.
type Key struct {
	Key      string `json:"key"`
	FenceKey string `json:"fence_key"`
	// Counter is where it stands, 0 where there is none.
	Counter    int64 `json:"counter"`
	HasCounter bool  `json:"has_counter"`
	// LockFence is the text in the lock's row, "" where there is none; Held tells that
	// the lock counts as held, which one that is Foreign does to nobody.
	LockFence string `json:"lock_fence,omitempty"`
	Held      bool   `json:"held,omitempty"`
	// Observed is the highest fence known, from ObservedIn; Behind tells that the
	// counter is lower.
	Observed   int64  `json:"observed"`
	ObservedIn string `json:"observed_in"`
	Behind     bool   `json:"behind"`
	// Target is where the counter is to stand.
	Target int64 `json:"target"`
	State  State `json:"state"`
}

// MarshalJSON writes the key with a string beside each number (K-5.4).
func (k Key) MarshalJSON() ([]byte, error) {
	type plain Key
	return json.Marshal(struct {
		plain
		CounterStr  string `json:"counter_str"`
		ObservedStr string `json:"observed_str"`
		TargetStr   string `json:"target_str"`
	}{plain(k), text(k.Counter), text(k.Observed), text(k.Target)})
}

func text(n int64) string { return strconv.FormatInt(n, 10) }

// Plan is what a fast-forward would do, and why.
type Plan struct {
	// Outcome is what FastForward would answer now.
	Outcome  restore.Outcome    `json:"outcome"`
	Why      []string           `json:"why"`
	Fixes    []string           `json:"fixes"`
	Identity lockstore.Identity `json:"identity"`
	Margin   int64              `json:"margin"`
	// Audit tells that there is a table to record in.
	Audit bool `json:"audit"`
	// Moved tells that the last raise was recorded on another instance or timeline.
	Moved bool `json:"moved"`
	// The counts of Keys by their state; Behind and Held count across all.
	Raise     int   `json:"raise"`
	Safe      int   `json:"safe"`
	Exhausted int   `json:"exhausted"`
	Foreign   int   `json:"foreign"`
	Behind    int   `json:"behind"`
	Held      int   `json:"held"`
	Keys      []Key `json:"keys"`
}

// MarshalJSON writes the plan with a string beside its margin (K-5.4).
func (p Plan) MarshalJSON() ([]byte, error) {
	type plain Plan
	return json.Marshal(struct {
		plain
		MarginStr string `json:"margin_str"`
	}{plain(p), text(p.Margin)})
}

// Result is what a fast-forward did.
type Result struct {
	Outcome restore.Outcome `json:"outcome"`
	Why     []string        `json:"why"`
	Fixes   []string        `json:"fixes"`
	// Step is where it ended, when that was not the last one.
	Step         restore.Step    `json:"step,omitempty"`
	Run          string          `json:"run_id,omitempty"`
	Plan         Plan            `json:"plan"`
	Raised       int             `json:"raised"`
	Blockers     []owner.Process `json:"blockers"`
	Verification *Verification   `json:"verification,omitempty"`
	// Next is what is left for the operator to do.
	Next []string `json:"next"`
}

// Verification says whether any counter could issue a fence that is known.
type Verification struct {
	Safe bool `json:"safe"`
	Keys int  `json:"keys"`
	// Findings are the first ones, FindingsTotal counts all.
	Findings      []restore.Finding `json:"findings"`
	FindingsTotal int               `json:"findings_total"`
}

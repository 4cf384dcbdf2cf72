package railsim

import (
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/dlockctl/dlockctl/internal/paystore"
)

// Name is what a mood is called.
type Name string

// The moods.
const (
	// Ack pays and says so.
	Ack Name = "ack"
	// Reject pays nothing and says so.
	Reject Name = "reject"
	// Delay pays, and says so after the delay.
	Delay Name = "delay"
	// Silent pays nothing and answers nothing, questions included, until the client
	// hangs up.
	Silent Name = "silent"
	// AnswerTwice pays, and says so twice in one answer, which does not count.
	AnswerTwice Name = "answer-twice"
	// LoseAnswer pays, and cuts the connection.
	LoseAnswer Name = "lose-answer"
	// Flaky draws one of those for each request.
	Flaky Name = "flaky"
	// Broken pays a key each time it is asked to, as no rail should.
	Broken Name = "broken"
)

// Names lists them.
func Names() []Name {
	return []Name{Ack, Reject, Delay, Silent, AnswerTwice, LoseAnswer, Flaky, Broken}
}

// Mood is how the rail behaves.
type Mood struct {
	Name Name `json:"name" enum:"ack,reject,delay,silent,answer-twice,lose-answer,flaky,broken"`
	// DelayMS is how long delay waits, also within flaky; 0 is 2 s.
	DelayMS int64 `json:"delay_ms,omitempty" minimum:"0" maximum:"3600000" doc:"How long delay waits; 2000 when it is left out"`
	Seed    int64 `json:"seed,omitempty" doc:"What flaky draws from"`
	// The probabilities of flaky, which acks the rest; 0.1 each when all are left out.
	RejectP      float64 `json:"reject_p,omitempty" minimum:"0" maximum:"1"`
	DelayP       float64 `json:"delay_p,omitempty" minimum:"0" maximum:"1"`
	SilentP      float64 `json:"silent_p,omitempty" minimum:"0" maximum:"1"`
	AnswerTwiceP float64 `json:"answer_twice_p,omitempty" minimum:"0" maximum:"1"`
	LoseAnswerP  float64 `json:"lose_answer_p,omitempty" minimum:"0" maximum:"1"`
}

// DefaultDelay is what delay waits when nobody says how long.
const DefaultDelay = 2 * time.Second

// orDefaults is the mood with what nobody said: flaky without a share has 0.1 of each.
func (m Mood) orDefaults() Mood {
	if m.Name == Flaky && m.shares() == [5]float64{} {
		m.RejectP, m.DelayP, m.SilentP, m.AnswerTwiceP, m.LoseAnswerP = 0.1, 0.1, 0.1, 0.1, 0.1
	}
	return m
}

// shares are the probabilities of flaky.
func (m Mood) shares() [5]float64 {
	return [5]float64{m.RejectP, m.DelayP, m.SilentP, m.AnswerTwiceP, m.LoseAnswerP}
}

func (m Mood) valid() error {
	if !slices.Contains(Names(), m.Name) {
		return fmt.Errorf("%w: %q is no mood; one of %v", paystore.ErrInvalid, m.Name, Names())
	}
	sum := 0.0
	for _, p := range m.shares() {
		if math.IsNaN(p) || p < 0 || p > 1 {
			return fmt.Errorf("%w: %v is no probability; give 0 to 1", paystore.ErrInvalid, p)
		}
		sum += p
	}
	if sum > 1+1e-9 {
		return fmt.Errorf("%w: the probabilities add up to %v, and what is left of 1 is acknowledged", paystore.ErrInvalid, sum)
	}
	if m.DelayMS < 0 || m.DelayMS > time.Hour.Milliseconds() {
		return fmt.Errorf("%w: a delay of %d ms is not between 0 and an hour", paystore.ErrInvalid, m.DelayMS)
	}
	return nil
}

func (m Mood) delay() time.Duration {
	if m.DelayMS == 0 {
		return DefaultDelay
	}
	return time.Duration(m.DelayMS) * time.Millisecond
}

// drawn is the mood of the n-th request for key: itself, but for flaky.
func (m Mood) drawn(key string, n int) Name {
	if m.Name != Flaky {
		return m.Name
	}
	hash := fnv.New64a()
	_, _ = fmt.Fprintf(hash, "%s/%d", key, n)                           // a hash takes everything
	at := rand.New(rand.NewPCG(uint64(m.Seed), hash.Sum64())).Float64() //nolint:gosec // a simulator's dice, which must fall alike
	for i, share := range m.shares() {
		if at < share {
			return [5]Name{Reject, Delay, Silent, AnswerTwice, LoseAnswer}[i]
		}
		at -= share
	}
	return Ack
}

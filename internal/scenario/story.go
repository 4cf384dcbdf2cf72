// Package scenario holds the stories that the demo, the drills and the
// end-to-end tests share: real clients, visible steps, and outcomes that are
// read back from the databases instead of being believed.
package scenario

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/paystore"
)

// Outcome is one thing that must be so at its point of the story.
type Outcome struct {
	ID string `json:"id"`
	// Must says what must be so; Saw is what the databases said.
	Must   string `json:"must"`
	Saw    string `json:"saw"`
	OK     bool   `json:"ok"`
	Clause string `json:"clause"`

	// token is the one at stake, and holder who was granted it: what a drill reports.
	token  lockstore.Token
	holder string
}

// Event is what a story shows while it is played: a chapter begins, somebody
// does something, or an outcome is read back. One field is set.
type Event struct {
	Chapter string
	Step    string
	Outcome *Outcome
}

// Cast is who plays and who looks on.
type Cast struct {
	// Open connects a client of its own to the lock store.
	Open func(ctx context.Context) (lockstore.Store, error)
	// OpenPosting and OpenRail connect to paydb as payapp_resource and payapp_rail.
	OpenPosting, OpenRail func(ctx context.Context) (*paystore.DB, error)
	// Owner is a connection to paydb that may SET ROLE dlock_owner: somebody who can
	// corrupt a row.
	Owner *pgx.Conn
	// Lock and Pay are the observer's connections: outcomes are read through
	// these, never through the clients.
	Lock, Pay *pgx.Conn
	// Rewind sets lockdb back; nil where nothing may.
	Rewind *Rewind
	// Tell shows an event; it may be nil.
	Tell func(Event)
}

// play is one telling of a story.
type play struct {
	Cast
	outcomes []Outcome
}

func (p *play) chapter(title string) { p.tell(Event{Chapter: title}) }

func (p *play) step(format string, args ...any) { p.tell(Event{Step: fmt.Sprintf(format, args...)}) }

func (p *play) tell(e Event) {
	if p.Tell != nil {
		p.Tell(e)
	}
}

// expect notes an outcome that is about no token, and shows it.
func (p *play) expect(id, clause, must string, ok bool, saw string, args ...any) {
	p.prove(proof{id: id, clause: clause, must: must}, ok, saw, args...)
}

// proof is what must be so, and about which token and holder.
type proof struct {
	id, clause, must string
	token            lockstore.Token
	holder           string
}

// prove notes an outcome and shows it.
func (p *play) prove(of proof, ok bool, saw string, args ...any) {
	outcome := Outcome{ID: of.id, Clause: of.clause, Must: of.must, OK: ok, Saw: fmt.Sprintf(saw, args...), token: of.token, holder: of.holder}
	p.outcomes = append(p.outcomes, outcome)
	p.tell(Event{Outcome: &outcome})
}

// run plays the chapters in order. A chapter that cannot be played to its end
// is an outcome that is not what it must be, and ends the story.
func (p *play) run(ctx context.Context, chapters ...func(context.Context) error) []Outcome {
	for _, chapter := range chapters {
		if err := chapter(ctx); err != nil {
			p.expect("played", "", "the story can be played to its end", false, "%v", err)
			break
		}
	}
	return p.outcomes
}

// AllOK tells whether every outcome is what it must be, and that there are any.
func AllOK(outcomes []Outcome) bool {
	for _, o := range outcomes {
		if !o.OK {
			return false
		}
	}
	return len(outcomes) > 0
}

package lockstore

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/dlockctl/dlockctl/internal/instance/owner"
)

// Rewinder is the token source of a backend, which a restore or a fail-over may
// have set back (K-7): its evidence, its gate, and the one way to move it
// forward. The order of the steps is internal/restore's; each method here is one
// transaction, returns after its COMMIT, and may be called again.
//
// Errors: *owner.BlockedError, *owner.RightsError, *owner.UnreachableError,
// *owner.UnknownOutcomeError, *UnsafeError, ErrNotPrimary.
type Rewinder interface {
	// Identity tells which instance and which timeline of it this is.
	Identity(ctx context.Context) (Identity, error)
	// Gate reads the gate.
	Gate(ctx context.Context) (Gate, error)
	// CloseGate closes the gate for a fast-forward, which takes over from one that
	// was cut off and leaves a freeze as it is; or, without a run, freezes it, with
	// its record in the operator log. Frozen already, it is left as it is.
	CloseGate(ctx context.Context, change GateChange) (Gate, error)
	// OpenGate ends the fast-forward of change.Run and notes this instance and
	// timeline; a freeze stays. Or, without a run, it thaws. Either with its record.
	// Returns *GateMovedError when the gate is not closed by who wants to open it.
	OpenGate(ctx context.Context, change GateChange) (Gate, error)
	// Barrier returns when every grant that began before the gate was closed has
	// ended.
	Barrier(ctx context.Context) error

	// Source reads the token source and what is wrong with it (K-1.1, K-1.5).
	Source(ctx context.Context) (TokenSource, error)
	// Evidence reads every source of tokens in the lock database; see [Evidence].
	Evidence(ctx context.Context, limit Token) ([]Evidence, error)
	// FastForwards lists the fast-forwards recorded by this very instance and
	// timeline, oldest first; Last is the newest record of the operator log.
	FastForwards(ctx context.Context) (FastForwards, error)
	// Traffic tells who is connected and what stands.
	Traffic(ctx context.Context) (Traffic, error)
	// Rights returns what the login lacks for all this, each as the SQL to run.
	Rights(ctx context.Context) ([]string, error)

	// Advance is the one transaction that moves the source (K-7.4): it blocks
	// every draw, reads health and evidence, asks params.Decide for the target,
	// voids sessions and locks with an audit row each (K-7.5), restarts the source
	// above the target, and records it (K-7.7).
	Advance(ctx context.Context, params AdvanceParams) (Advance, error)
	// ExtendJournal makes the journal's partition at the token to come (K-11).
	ExtendJournal(ctx context.Context) error
	// Fresh is the same through new connections, to verify what was committed.
	Fresh(ctx context.Context) (Rewinder, error)
	// Deployment is what an outside mark is bound to, and whether one is kept.
	Deployment(ctx context.Context) (Deployment, error)
	// KeepMark records that an outside mark is kept from now on.
	KeepMark(ctx context.Context) error
	// Close closes the connections.
	Close(ctx context.Context)
}

// The operator log's actions of the restore order.
const (
	ActionFreeze = "freeze"
	ActionThaw   = "thaw"
	// ActionFastForward is written by the transaction that moved the source; its
	// token is the target, its details a FastForwardRecord.
	ActionFastForward = "fast_forward"
	// ActionFastForwardDone is written by the transaction that opened the gate.
	ActionFastForwardDone = "fast_forward_done"
)

// Identity tells one life of a database from another: a restore or a promotion
// changes the timeline, a new instance the identifier; a plain copy neither.
type Identity struct {
	SystemIdentifier int64 `json:"system_identifier"`
	Timeline         int32 `json:"timeline"`
}

// MarshalJSON writes the identifier as a string too: it is far above 2^53 (K-5.4).
func (i Identity) MarshalJSON() ([]byte, error) {
	type plain Identity
	return json.Marshal(struct {
		plain
		Text string `json:"system_identifier_str"`
	}{plain(i), strconv.FormatInt(i.SystemIdentifier, 10)})
}

// Gate is the row that every grant looks at (K-7.4, K-7.6).
type Gate struct {
	// Present is false when the row is gone, which is a closed gate.
	Present bool `json:"present"`
	// OpenedOn is where the gate was opened last; Here tells whether that is this
	// instance and timeline.
	OpenedOn Identity `json:"opened_on"`
	Here     bool     `json:"here"`
	// Sign is what shows that it is not, where the identities alone do not say it.
	Sign string `json:"sign,omitempty"`
	// ClosedBy is who froze it, "" for nobody.
	ClosedBy string `json:"closed_by,omitempty"`
	ClosedAt Time   `json:"closed_at,omitzero"`
	Reason   string `json:"closed_reason,omitempty"`
	// Run is the fast-forward that is under way or was cut off.
	Run *GateRun `json:"run,omitempty"`
}

// GateRun is a fast-forward that has closed the gate.
type GateRun struct {
	ID     string `json:"run_id"`
	By     string `json:"run_by"`
	At     Time   `json:"run_at"`
	Reason string `json:"run_reason"`
}

// Open tells whether grants pass.
func (g Gate) Open() bool { return g.Present && g.Here && g.ClosedBy == "" && g.Run == nil }

// GateChange closes or opens the gate.
type GateChange struct {
	Operator, Reason string
	// Run is the fast-forward's id; "" freezes and thaws.
	Run string
	// Done is what a fast-forward reached; it goes into the record of its end.
	Done Token
}

// GateMovedError is returned by OpenGate: it is not closed by who wants to open
// it. Nothing was changed.
type GateMovedError struct{ Gate Gate }

func (e *GateMovedError) Error() string {
	switch g := e.Gate; {
	case !g.Present:
		return "the gate's row is gone"
	case g.Run != nil:
		return fmt.Sprintf("the gate is closed by a fast-forward that %s began at %s", g.Run.By, g.Run.At)
	case g.ClosedBy != "":
		return fmt.Sprintf("the gate is closed by %s: %s", g.ClosedBy, g.Reason)
	default:
		return "the gate is not closed by anybody"
	}
}

// Evidence is what one source knows of tokens that were issued (K-7.2).
type Evidence struct {
	Source string         `json:"source"`
	Status EvidenceStatus `json:"status"`
	// Value is the highest token the source names, at most the limit that was
	// asked for; 0 when it names none.
	Value    Token  `json:"value"`
	ValueStr string `json:"value_str"`
	// Row says where it stands, At when it was written.
	Row string `json:"row,omitempty"`
	At  Time   `json:"at,omitzero"`
	// Reason says why the source is unavailable.
	Reason string `json:"reason,omitempty"`
	// Above is the highest number over the limit, "" for none: forged, or the
	// limit is wrong.
	Above string `json:"above_limit,omitempty"`
	// Own tells that the value is what this database's own finished fast-forward
	// wrote there: no evidence of a grant.
	Own bool `json:"own,omitempty"`
	// Note tells what was left out, and why.
	Note string `json:"note,omitempty"`
}

// EvidenceStatus says how a source was read.
type EvidenceStatus string

// The states of a source. A source that could not be read is never 0.
const (
	EvidenceRead        EvidenceStatus = "read"
	EvidenceEmpty       EvidenceStatus = "empty"
	EvidenceUnavailable EvidenceStatus = "unavailable"
	// EvidenceAccepted is unavailable, and the operator goes on without it.
	EvidenceAccepted EvidenceStatus = "accepted_missing"
	// EvidenceNone is a source that this deployment does not have.
	EvidenceNone EvidenceStatus = "not_configured"
)

// TokenSource is where tokens come from.
type TokenSource struct {
	// Last is the token last issued, 0 for none; the next one is above it.
	Last Token `json:"last"`
	// Drawn is the token last drawn, where something else than a grant moves Last on
	// too; 0 where nothing does.
	Drawn Token `json:"-"`
	// Max is the highest the source can issue, or can be moved to as it stands.
	Max int64 `json:"max"`
	// Beyond says why a target at or above Max is not reached, and what reaches it; nil
	// for a sequence, which ends there.
	Beyond func(target Token) (problem, fix string) `json:"-"`
	// Problems are what makes it repeat or reorder, each with its fix.
	Problems []UnsafeError `json:"problems"`
}

// Newest is the token last drawn: it stands still while nothing is granted.
func (s TokenSource) Newest() Token { return cmp.Or(s.Drawn, s.Last) }

// Traffic is who might be granted something, and what was.
type Traffic struct {
	// Connected are the other sessions of the database; Holding those of them,
	// and the prepared transactions, that have drawn a token and not ended.
	Connected []owner.Process `json:"connected"`
	Holding   []owner.Process `json:"holding"`
	// Sessions and Locks are what a fast-forward voids; LowestLock is the lowest
	// token among the locks, 0 for none.
	Sessions   int   `json:"sessions"`
	Locks      int   `json:"locks"`
	LowestLock Token `json:"lowest_lock,omitempty"`
}

// OldPrimary is what the instance that was the primary before says of itself: the
// best evidence there is.
type OldPrimary struct {
	Identity Identity `json:"identity"`
	// Last is the token it issued last.
	Last Token `json:"last"`
	// Granting tells that it is a primary whose gate is open: it may go on.
	Granting bool `json:"granting"`
	At       Time `json:"at"`
}

// FastForwards are the fast-forwards of one instance and timeline.
type FastForwards struct {
	// Targets are what was recorded as reached.
	Targets []Token
	// LastAction and LastHere describe the newest record of the operator log:
	// what it was, its token, and whether it was written by this instance and
	// timeline.
	LastAction string
	LastToken  Token
	LastHere   bool
}

// AdvanceParams is one move forward.
type AdvanceParams struct {
	Operator, Reason string
	// Limit is the highest token that counts as evidence.
	Limit Token
	// Decide is asked once nothing can be drawn any more, with what the lock
	// database knows at that moment. An error ends the transaction.
	Decide func(AdvanceView) (Decision, error)
}

// AdvanceView is the lock database while its source stands still.
type AdvanceView struct {
	Identity     Identity
	Gate         Gate
	Source       TokenSource
	Evidence     []Evidence
	FastForwards FastForwards
}

// Decision says where the source is to stand.
type Decision struct {
	// Target is the highest token that is never issued again; the source moves
	// only when it stands lower.
	Target Token
	// Record is kept with it.
	Record FastForwardRecord
}

// FastForwardRecord is the details of an ActionFastForward record (K-7.7).
type FastForwardRecord struct {
	Run      string     `json:"run_id"`
	From     Token      `json:"from_token"`
	To       Token      `json:"to_token"`
	Observed Token      `json:"observed"`
	Margin   Token      `json:"margin"`
	Evidence []Evidence `json:"evidence"`
	// Before is where the gate was opened last, After where the source moved.
	Before         Identity `json:"before"`
	After          Identity `json:"after"`
	SessionsVoided int      `json:"sessions_voided"`
	LocksVoided    int      `json:"locks_voided"`
	// Accepted are the sources that the operator went on without, NoTokenAbove the
	// limit that he gave, 0 for none; Plan is the fingerprint of the plan file.
	Accepted     []string `json:"accepted_missing"`
	NoTokenAbove Token    `json:"no_token_above,omitempty"`
	Plan         string   `json:"plan,omitempty"`
}

// Advance is what the transaction did.
type Advance struct {
	From, To Token
	// Moved is false when the source already stood at the target: nothing was
	// voided or recorded.
	Moved          bool
	SessionsVoided int
	LocksVoided    int
	RecordID       int64
}

// Deployment is what an outside mark is bound to (K-7.6).
type Deployment struct {
	ID   string `json:"deployment_id"`
	Kept bool   `json:"mark_kept"`
}

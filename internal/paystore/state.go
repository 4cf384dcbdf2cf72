package paystore

import (
	"fmt"
	"slices"
	"strings"
)

// State is where a payout stands (K-5).
type State string

// The states, in the order a payout may see them.
const (
	Pending       State = "PENDING"
	Claimed       State = "CLAIMED"
	RailSubmitted State = "RAIL_SUBMITTED"
	RailAcked     State = "RAIL_ACKED"
	// RailAmbiguous is a payout whose rail answer nobody saw in time. It is never
	// guessed: only evidence moves it (K-5.3).
	RailAmbiguous State = "RAIL_AMBIGUOUS"
	Posted        State = "POSTED"
	Failed        State = "FAILED"
	// Abandoned is a payout whose rail outcome will never be known.
	Abandoned State = "ABANDONED"
)

// States lists all of them.
func States() []State {
	return []State{Pending, Claimed, RailSubmitted, RailAcked, RailAmbiguous, Posted, Failed, Abandoned}
}

// OpenStates lists those that an arrow leads out of.
func OpenStates() []State { return slices.DeleteFunc(States(), State.Final) }

// ParseState reads a state as a person types it, in any case. It returns
// [ErrInvalid], with the states there are.
func ParseState(s string) (State, error) {
	state := State(strings.ToUpper(s))
	if !slices.Contains(States(), state) {
		return "", fmt.Errorf("%w: %q is no payout state; one of %v", ErrInvalid, s, States())
	}
	return state, nil
}

// Final tells that no arrow leads out of the state.
func (s State) Final() bool { return s == Posted || s == Failed || s == Abandoned }

// Action names an arrow.
type Action string

// The actions of K-5.
const (
	Claim    Action = "claim"
	TakeOver Action = "take over"
	Release  Action = "release"
	Submit   Action = "submit"
	Ack      Action = "ack"
	Reject   Action = "reject"
	Timeout  Action = "timeout"
	Post     Action = "post"
	Resolve  Action = "resolve"
	Abandon  Action = "abandon"
	GiveUp   Action = "give up"
)

// ClaimChange is what a transition does to the claim: claimed_by and claim_token.
type ClaimChange string

// The changes of a claim.
const (
	// ClaimSet writes a token higher than every claim the payout ever had (K-5.2).
	ClaimSet ClaimChange = "set"
	// ClaimKept leaves it as it is, also when there is none.
	ClaimKept ClaimChange = "kept"
	// ClaimForgotten nulls it; payout_claim remembers.
	ClaimForgotten ClaimChange = "forgotten"
)

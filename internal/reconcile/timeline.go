package reconcile

import (
	"strconv"
	"time"
)

// MostTimelines bounds the timelines of a report: each costs queries of its own,
// and nobody reads more.
const MostTimelines = 20

// Timeline tells what tokens did to one account, in order of time over both
// databases (K-8.2). A report has those of the accounts worst hit.
type Timeline struct {
	AccountID string `json:"account_id"`
	Currency  string `json:"currency,omitempty"`
	// Findings are the ids of the findings that it is told for.
	Findings []string `json:"findings"`
	Events   []Moment `json:"events"`
	// LeftOut counts the events before the first that is told.
	LeftOut int64 `json:"left_out,omitempty"`
}

// MomentKind says what happened at a moment. How a grant ended is named as the
// journal of grants names it (K-11).
type MomentKind string

// The kinds of moment.
const (
	// MomentGranted begins the lease of a token.
	MomentGranted MomentKind = "granted"
	// These end it.
	MomentReleased  MomentKind = "released"
	MomentExpired   MomentKind = "expired"
	MomentTakenOver MomentKind = "taken_over"
	MomentReEntered MomentKind = "re_entered"
	MomentRevoked   MomentKind = "revoked"
	MomentReaped    MomentKind = "reaped"
	MomentVoided    MomentKind = "voided"
	// These are what a token did to a payout; MomentPosted is one leg.
	MomentClaimed   MomentKind = "claimed"
	MomentSubmitted MomentKind = "submitted"
	MomentRefused   MomentKind = "fenced_out"
	MomentAnswered  MomentKind = "answered"
	MomentPosted    MomentKind = "leg"
	MomentResolved  MomentKind = "resolved"
	// MomentFenceRaised is an operator's, drawn against an earlier token (K-3.2).
	MomentFenceRaised MomentKind = "fence"
)

// Ends tells that a grant ended so.
func (k MomentKind) Ends() bool {
	switch k {
	case MomentReleased, MomentExpired, MomentTakenOver, MomentReEntered, MomentRevoked, MomentReaped, MomentVoided:
		return true
	case MomentGranted, MomentClaimed, MomentSubmitted, MomentRefused, MomentAnswered, MomentPosted, MomentResolved, MomentFenceRaised:
	}
	return false
}

// Moment is one event of a timeline.
type Moment struct {
	// At is when it happened, by the clock of the database it stands in; zero when
	// no row says so.
	At       time.Time  `json:"at,omitzero"`
	Kind     MomentKind `json:"kind"`
	Token    int64      `json:"token,omitempty"`
	TokenStr string     `json:"token_str,omitempty"`
	Holder   string     `json:"holder,omitempty"`
	PayoutID string     `json:"payout_id,omitempty"`
	// What says it in a sentence, Source which table says so.
	What   string `json:"what"`
	Source string `json:"source"`
	// Finding is the id of the finding that this moment shows, "" for none.
	Finding string `json:"finding,omitempty"`
}

// Of gives a moment the token that it is about, in both forms (K-5.4).
func (m Moment) Of(token int64, holder string) Moment {
	m.Token, m.Holder, m.TokenStr = token, holder, ""
	if token != 0 {
		m.TokenStr = strconv.FormatInt(token, 10)
	}
	return m
}

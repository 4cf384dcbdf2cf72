package html

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/dlockctl/dlockctl/internal/reconcile"
)

// timeline is the picture of an account's tokens, a lane each, and the same as a
// table. The moments stand side by side at one distance: to scale, a write that
// came milliseconds too late could not be told from the one before.
type timeline struct {
	Account, Currency, Anchor string
	Lanes                     []lane
	Moments                   []momentRow
	Breaks                    []mark
	// Height is the picture's, Bottom where its lanes end, Axis where the numbers
	// of the moments stand.
	Height, Bottom, Axis int
	// Before and After count the moments that are not drawn, "" for none.
	Before, After string
}

// lane is one token. Positions are percents of the width, so that the picture
// fits any screen without its text being scaled.
type lane struct {
	Label string
	// TextY is where the label stands, Y the middle of the line, BarY the upper edge
	// of the band.
	TextY, Y, BarY int
	// Bar tells that the lease is known, in part at least; Whole that its begin is.
	Bar, Whole   bool
	From, Length float64
	Marks        []mark
}

// mark is a moment on a lane.
type mark struct {
	X     float64
	Shape string
	Label string
	// Anchor is the label's text-anchor.
	Anchor string
}

type momentRow struct {
	Number                             int
	X                                  float64
	At, Gap, Token, Holder, Kind, What string
	Source, Payout, Finding            string
}

// The picture's measures, in pixels.
const (
	lanesTop   = 18
	laneHeight = 44
	axisHeight = 22
)

func timelines(r reconcile.Report) []timeline {
	shown := r.Timelines[:min(len(r.Timelines), reconcile.MostTimelines)]
	out := make([]timeline, 0, len(shown))
	for i, t := range shown {
		if len(t.Events) > 0 {
			out = append(out, newTimeline(t, fmt.Sprintf("timeline-%d", i+1)))
		}
	}
	return out
}

func newTimeline(t reconcile.Timeline, anchor string) timeline {
	from, to := window(t.Events)
	events := t.Events[from:to]
	out := timeline{Account: visible(t.AccountID), Currency: visible(t.Currency), Anchor: anchor}
	if n := t.LeftOut + int64(from); n > 0 {
		out.Before = count(n, "earlier moment is", "earlier moments are")
	}
	if n := int64(len(t.Events) - to); n > 0 {
		out.After = count(n, "later moment is", "later moments are")
	}
	for i, e := range events {
		row := momentRow{
			Number: i + 1, X: at(i, len(events)), At: moment(e.At), Token: token(e.Token), Holder: visible(e.Holder),
			Kind: kindText(e.Kind), What: visible(e.What), Source: visible(e.Source), Payout: visible(e.PayoutID), Finding: visible(e.Finding),
		}
		if i > 0 && !e.At.IsZero() && !events[i-1].At.IsZero() {
			row.Gap = "+" + span(e.At.Sub(events[i-1].At))
		}
		out.Moments = append(out.Moments, row)
	}
	out.Lanes = lanes(t.Events, from, to)
	out.Breaks = breakMarks(events)
	out.Bottom = lanesTop + laneHeight*len(out.Lanes)
	out.Axis, out.Height = out.Bottom+14, out.Bottom+axisHeight
	return out
}

// window chooses the moments that are drawn: those around the first that shows a
// finding.
func window(events []reconcile.Moment) (from, to int) {
	shows := slices.IndexFunc(events, func(m reconcile.Moment) bool { return m.Finding != "" })
	const ahead = mostMoments * 2 / 3
	from = min(max(shows-ahead, 0), max(len(events)-mostMoments, 0))
	return from, min(from+mostMoments, len(events))
}

// at is the middle of step i of n, in percent.
func at(i, n int) float64 { return (float64(i) + 0.5) * 100 / float64(n) }

func lanes(events []reconcile.Moment, from, to int) []lane {
	byToken := map[int64][]int{}
	for i := from; i < to; i++ {
		byToken[events[i].Token] = nil
	}
	for i, e := range events {
		if own, drawn := byToken[e.Token]; drawn {
			byToken[e.Token] = append(own, i)
		}
	}
	var out []lane
	for row, t := range slices.Sorted(maps.Keys(byToken)) {
		out = append(out, newLane(events, byToken[t], from, to, lanesTop+row*laneHeight))
	}
	return out
}

// newLane draws the moments of one token, whose places in events own holds. A
// lease that began or ended outside the window is drawn to its edge.
func newLane(events []reconcile.Moment, own []int, from, to, top int) lane {
	l := lane{TextY: top + 14, Y: top + 29, BarY: top + 22}
	end, holder := 100.0, ""
	for _, i := range own {
		m := events[i]
		x := min(max(at(i-from, to-from), 0), 100)
		holder = cmp.Or(holder, m.Holder)
		switch {
		case m.Kind == reconcile.MomentGranted:
			l.Bar, l.Whole, l.From = true, true, x
		case m.Kind.Ends():
			l.Bar, end = true, x
		}
		if i >= from && i < to {
			l.Marks = append(l.Marks, mark{X: x, Shape: shape(m.Kind)})
		}
	}
	l.Length = max(end-l.From, 0)
	l.Label = "no token"
	if t := events[own[0]].Token; t != 0 {
		l.Label = "token " + token(t)
	}
	if holder != "" {
		l.Label += " \u00b7 " + short(visible(holder), max(mostLabel-len(l.Label), 8))
	}
	return l
}

// mostLabel keeps a lane's label within a phone's width.
const mostLabel = 36

// breakMarks are the moments that show a finding. A label that would run into the
// one before is left out: the table below has it.
func breakMarks(events []reconcile.Moment) []mark {
	const apart = 5 // steps
	var out []mark
	labelled := -apart
	for i, e := range events {
		if e.Finding == "" {
			continue
		}
		m := mark{X: at(i, len(events)), Anchor: "middle"}
		switch {
		case m.X < 20:
			m.Anchor = "start"
		case m.X > 80:
			m.Anchor = "end"
		}
		if i-labelled >= apart {
			m.Label, labelled = "break "+visible(short(classOf(e.Finding), mostLabel)), i
		}
		out = append(out, m)
	}
	return out
}

// classOf is the class in a finding's id.
func classOf(id string) string {
	class, _, _ := strings.Cut(id, "-")
	return class
}

func kindText(k reconcile.MomentKind) string {
	switch k { //nolint:exhaustive // the others are words already
	case reconcile.MomentRefused:
		return "fenced out"
	case reconcile.MomentReEntered:
		return "re-entered"
	case reconcile.MomentFenceRaised:
		return "fence raised"
	}
	return strings.ReplaceAll(visible(string(k)), "_", " ")
}

// shape is the id of the sign that a kind of moment is drawn as.
func shape(k reconcile.MomentKind) string {
	switch k {
	case reconcile.MomentGranted:
		return "sign-begin"
	case reconcile.MomentRevoked, reconcile.MomentVoided:
		return "sign-revoked"
	case reconcile.MomentReleased, reconcile.MomentExpired, reconcile.MomentTakenOver, reconcile.MomentReEntered, reconcile.MomentReaped:
		return "sign-end"
	case reconcile.MomentPosted:
		return "sign-leg"
	case reconcile.MomentSubmitted:
		return "sign-rail"
	case reconcile.MomentRefused:
		return "sign-refused"
	case reconcile.MomentFenceRaised:
		return "sign-fence"
	case reconcile.MomentClaimed, reconcile.MomentAnswered, reconcile.MomentResolved:
	}
	return "sign-other"
}

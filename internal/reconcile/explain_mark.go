package reconcile

import "slices"

// mark sets the finding on the event that shows it best. What a revoked token wrote
// is shown by each of its writes since.
func mark(events []event, f Finding) {
	if f.Attribution.Confidence == None && f.PayoutID == "" {
		return // whichever event were marked, nothing says that it is behind it
	}
	token := f.Attribution.Token
	if token == 0 && len(f.Suspects) > 0 {
		token = f.Suspects[0]
	}
	of := func(e event) bool {
		elsewhere := f.PayoutID != "" && e.PayoutID != "" && e.PayoutID != f.PayoutID
		return e.Finding == "" && !elsewhere && (token == 0 && e.PayoutID == f.PayoutID && f.PayoutID != "" || token != 0 && e.Token == token)
	}
	if f.Class == revokedClass && markSince(events, f.ID, of) {
		return
	}
	set := func(shows func(event) bool) bool {
		i := slices.IndexFunc(events, shows)
		if i >= 0 {
			events[i].Finding = f.ID
		}
		return i >= 0
	}
	kinds := shownBy(f.Class)
	if f.Subject != "" && set(func(e event) bool { return of(e) && e.id == f.Subject && slices.Contains(kinds, e.Kind) }) {
		return
	}
	for _, kind := range kinds {
		if set(func(e event) bool { return of(e) && e.Kind == kind }) {
			return
		}
	}
	set(of)
}

// markSince marks what was written after the revocation.
func markSince(events []event, id string, of func(event) bool) (marked bool) {
	revoked := slices.IndexFunc(events, func(e event) bool { return of(e) && e.Kind == MomentRevoked })
	if revoked < 0 {
		return false
	}
	for i := revoked; i < len(events); i++ {
		if of(events[i]) && slices.Contains(writes, events[i].Kind) {
			events[i].Finding, marked = id, true
		}
	}
	return marked
}

// writes are what a holder does.
var writes = []MomentKind{MomentPosted, MomentSubmitted, MomentClaimed}

// shownBy are the kinds of event that show a finding of the class, the best first.
func shownBy(class string) []MomentKind {
	switch class {
	case "A11", "A16", "B05", "B06", "B07", "B16", "C02", "C11", "C12", "C14":
		return []MomentKind{MomentClaimed}
	case loneFenceClass, "B08", "B09":
		return []MomentKind{MomentFenceRaised}
	case "B13", "B14":
		return []MomentKind{MomentGranted}
	case "B18", journalClass:
		return []MomentKind{MomentRevoked, MomentVoided}
	case "C01", "C07", "C13":
		return []MomentKind{MomentAnswered, MomentSubmitted}
	case revokedClass, foreignLockClass:
		return writes
	}
	switch class[0] {
	case 'A':
		return []MomentKind{MomentPosted, MomentClaimed}
	case 'B':
		if class == "B10" || class == lateAttemptClass {
			return []MomentKind{MomentSubmitted}
		}
		return []MomentKind{MomentPosted, MomentSubmitted}
	default:
		return []MomentKind{MomentSubmitted, MomentPosted}
	}
}

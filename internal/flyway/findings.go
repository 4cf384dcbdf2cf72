package flyway

import (
	"fmt"
	"slices"
	"strings"
)

// Kind names what is wrong between a file and the history.
type Kind string

// Kinds of findings. Pending and outdated are what Up is for; future is a warning.
const (
	KindCorrupt   Kind = "corrupt"   // a row that is no history
	KindEdited    Kind = "edited"    // an applied file whose text changed
	KindFailed    Kind = "failed"    // a row with success = FALSE
	KindFuture    Kind = "future"    // applied, and newer than every file
	KindLate      Kind = "late"      // not applied, and older than what is applied
	KindMissing   Kind = "missing"   // applied, and no such file
	KindOutdated  Kind = "outdated"  // a repeatable whose text changed
	KindPending   Kind = "pending"   // not applied yet
	KindRenamed   Kind = "renamed"   // an applied file whose description changed
	KindUnmanaged Kind = "unmanaged" // the schema is not empty and has no history
	KindUnknown   Kind = "unknown"   // a row of a type that this program cannot follow
)

// Severity tells findings that fail a validation from mere warnings.
type Severity string

// The two severities.
const (
	SeverityError   Severity = "error"
	SeverityWarning Severity = "warning"
)

// Finding is one disagreement between the files and the history.
type Finding struct {
	Kind     Kind     `json:"kind"`
	Severity Severity `json:"severity"`
	Version  string   `json:"version,omitempty"`
	Script   string   `json:"script"`
	Message  string   `json:"message"`
	Hint     string   `json:"hint"`
}

// knownTypes are the types whose rows mean what plan.go makes of them. Undo rows of
// the licensed editions are not among them.
var knownTypes = []string{typeSQL, typeBaseline, typeSchema, typeDelete, "JDBC", "SPRING_JDBC", "SCRIPT", "CUSTOM"}

// findings lists every disagreement, in the order of the info table.
func (p *plan) findings() []Finding {
	found := slices.Clone(p.corrupt)
	for _, it := range p.items {
		if it.applied != nil && !slices.Contains(knownTypes, it.applied.Type) && !it.applied.baseline() {
			found = append(found, p.finding(it, KindUnknown, "is a row of type "+it.applied.Type+", which dlockctl cannot follow",
				"migrate this schema with the program that wrote the row"))
			continue
		}
		if f, ok := p.judge(it); ok {
			found = append(found, f)
		}
	}
	return found
}

// blocking are the findings for which Up refuses.
func (p *plan) blocking() []Finding {
	return slices.DeleteFunc(p.findings(), func(f Finding) bool {
		return f.Severity != SeverityError || f.Kind == KindPending || f.Kind == KindOutdated
	})
}

// judge applies the rules of Flyway's validate to one item.
func (p *plan) judge(it *item) (Finding, bool) {
	switch it.state {
	case StateFailed, StateFailedMissing, StateFailedFuture:
		return p.finding(it, KindFailed, "failed and may have left something half done",
			"remove what it left behind, then run `dlockctl migrate repair`"), true
	case StateMissing:
		return p.finding(it, KindMissing, "is applied, but its file is missing here",
			"use the build that has the file; if it was removed on purpose, `dlockctl migrate repair` marks it deleted"), true
	case StateFuture:
		f := p.finding(it, KindFuture, "is applied and newer than every file here",
			"use a newer dlockctl; this one does not know what that version changed")
		f.Severity = SeverityWarning
		return f, true
	case StateIgnored:
		return p.finding(it, KindLate, fmt.Sprintf("is not applied, but version %s already is", p.current()),
			fmt.Sprintf("give the file a number above %s", p.current())), true
	case StatePending:
		if p.outdated(it) {
			return Finding{}, false // its last run says so already
		}
		return p.finding(it, KindPending, "is not applied yet", "run `dlockctl migrate up`"), true
	case StateOutdated:
		return p.finding(it, KindOutdated, "has changed since it was applied", "run `dlockctl migrate up`"), true
	default:
		return p.compare(it)
	}
}

// outdated reports whether it is the pending half of a repeatable that ran before.
func (p *plan) outdated(it *item) bool {
	return it.local.Repeatable() && slices.ContainsFunc(p.items, func(other *item) bool {
		return other.state == StateOutdated && other.local == it.local
	})
}

// compare sets an applied versioned file against its row. Below the baseline
// nothing is compared.
func (p *plan) compare(it *item) (Finding, bool) {
	if it.local == nil || it.applied == nil || it.local.Repeatable() || it.state == StateDeleted ||
		it.version.compare(p.baseline) <= 0 {
		return Finding{}, false
	}
	if !sameChecksum(it) {
		return p.finding(it, KindEdited,
			fmt.Sprintf("was edited after it was applied (checksum %s in the history, %d in the file)", checksumText(it.applied.Checksum), it.local.Checksum),
			"put the file back as it was and write the change as a new version; `dlockctl migrate repair` accepts the edit instead"), true
	}
	if it.local.Description != it.applied.Description {
		return p.finding(it, KindRenamed,
			fmt.Sprintf("was renamed after it was applied (from %q)", it.applied.Description),
			"give the file its old name back; `dlockctl migrate repair` accepts the new one instead"), true
	}
	return Finding{}, false
}

// finding is an error about it; its message names version and file.
func (p *plan) finding(it *item, kind Kind, text, hint string) Finding {
	f := Finding{Kind: kind, Severity: SeverityError, Version: it.version.text, Hint: hint}
	switch {
	case it.local != nil:
		f.Script = it.local.Script
	default:
		f.Script = it.applied.Script
	}
	name := []string{"repeatable", f.Script}
	if f.Version != "" {
		name = []string{"version", f.Version, "(" + f.Script + ")"}
	}
	f.Message = strings.Join(append(name, text), " ")
	return f
}

func checksumText(sum *int32) string {
	if sum == nil {
		return "none"
	}
	return fmt.Sprint(*sum)
}

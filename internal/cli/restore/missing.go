package restore

import (
	"fmt"
	"slices"
	"strings"

	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/paystore/floor"
)

// gap is sources that could not be read for one and the same reason: a paydb that
// is down is said once, not nine times.
type gap struct {
	sources []string
	reason  string
}

// gaps are the sources that are missing, those of one reason together.
func gaps(evidence []lockstore.Evidence) []gap {
	var found []gap
	for _, e := range evidence {
		if e.Status != lockstore.EvidenceUnavailable {
			continue
		}
		i := slices.IndexFunc(found, func(g gap) bool { return g.reason == e.Reason })
		if i < 0 {
			found = append(found, gap{[]string{e.Source}, e.Reason})
			continue
		}
		found[i].sources = append(found[i].sources, e.Source)
	}
	return found
}

// names are the sources as --accept-missing takes them.
func (g gap) names() string {
	if slices.Equal(g.sources, floor.Sources()) {
		return "paydb"
	}
	return strings.Join(g.sources, ",")
}

func (g gap) what() string { return fmt.Sprintf("%s could not be read: %s", g.names(), g.reason) }

func (g gap) fix() string {
	return "make it readable, or go on without it: --accept-missing " + g.names()
}

// gather puts the reasons and fixes of a refusal that are about missing sources
// together; the others stay as they are.
func gather(why, fixes []string, evidence []lockstore.Evidence) (gatheredWhy, gatheredFixes []string) {
	missing := gaps(evidence)
	for _, g := range missing {
		gatheredWhy, gatheredFixes = append(gatheredWhy, g.what()), append(gatheredFixes, g.fix())
	}
	about := func(text string, says func(text, source string) bool) bool {
		return slices.ContainsFunc(missing, func(g gap) bool {
			return slices.ContainsFunc(g.sources, func(source string) bool { return says(text, source) })
		})
	}
	for _, text := range why {
		if !about(text, func(text, source string) bool { return strings.HasPrefix(text, source+" could not be read") }) {
			gatheredWhy = append(gatheredWhy, text)
		}
	}
	for _, text := range fixes {
		if !about(text, func(text, source string) bool { return strings.HasSuffix(text, "--accept-missing "+source) }) {
			gatheredFixes = append(gatheredFixes, text)
		}
	}
	return gatheredWhy, gatheredFixes
}

package restore

import (
	"strings"

	"github.com/dlockctl/dlockctl/internal/cli/app"
	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/restore/counters"
)

// observedFlag is --observed: a token, or where each key counts for itself KEY=N, as
// often as keys are known.
type observedFlag struct {
	app.TokenFlag

	of    counters.Observations
	given []string
}

// Set reads one of the two; the last = ends the key, which may hold others.
func (f *observedFlag) Set(text string) error {
	at := strings.LastIndex(text, "=")
	if at < 0 {
		return f.TokenFlag.Set(text)
	}
	fence, err := lockstore.ParseToken(text[at+1:])
	if err != nil {
		return err
	}
	if f.of == nil {
		f.of = counters.Observations{}
	}
	if err := f.of.Say(text[:at], int64(fence)); err != nil {
		return err
	}
	f.given = append(f.given, text)
	return nil
}

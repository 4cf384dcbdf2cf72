//go:build linux && shells

package shells_test

import (
	"strings"
	"testing"
)

const fishrc = `
set -g fish_greeting
function fish_prompt; printf '$ '; end
function fish_right_prompt; end
function tell_prompt --on-event fish_prompt; printf '\006'; end
dlockctl completion fish | source
function tell; printf '\002%s\003' (commandline | string collect); end
bind \ez tell
`

// In fish.
//
// Mutation: print cobra's script; or evaluate the line that asks; or take what follows -- for a flag.
func TestFish(t *testing.T) {
	t.Parallel()
	s := start(t, reports(map[string]string{"fish/config.fish": fishrc}), "fish", "-i")
	s.proves()
	var shown string
	s.again("the keys are offered", func() bool {
		s.types("complete -C 'dlockctl lock show '\r")
		shown = s.after(prompt)
		return strings.Contains(shown, leased)
	})
	offers(t, shown)
	s.harmless()
}

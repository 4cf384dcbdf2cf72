//go:build linux

package shells_test

import (
	"strings"
	"testing"
)

const bashrc = `
source <(dlockctl completion bash)
PS1='$ ' PROMPT_COMMAND='printf "\006"' HISTFILE=
bind 'set bell-style none' 2>/dev/null
bind 'set completion-query-items 0'
bind 'set page-completions off'
bind 'set enable-bracketed-paste off'
tell() { printf '\002%s\003' "$READLINE_LINE"; }
bind -x '"\ez": tell'
`

// In bash, without any script but its own.
//
// Mutation: print cobra's script; or insert what several keys have in common without quotes; or
// evaluate the words that were typed; or take what follows -- for a flag; or have readline sort the
// levels.
func TestBash(t *testing.T) {
	t.Parallel()
	s := start(t, reports(map[string]string{"rc": bashrc}), "bash", "--noprofile", "--rcfile", "rc", "-i")
	s.proves()
	offers(t, s.lists("dlockctl lock show \t\t", leased))
	ordered(t, s.lists(levels+"\t\t", "low"))
	s.harmless()
}

// In bash where the letters are bytes, and with settings that are common.
//
// Mutation: leave set -u on while a word is read; or list nothing when it is asked for at once.
func TestBashOtherwise(t *testing.T) {
	t.Parallel()
	rc := bashrc + `
LC_ALL=C
bind 'set show-all-if-ambiguous on'
bind '"\et": menu-complete'
alias d=dlockctl
complete -F __start_dlockctl d
set -u
`
	s := start(t, reports(map[string]string{"rc": rc}), "bash", "--noprofile", "--rcfile", "rc", "-i")
	for typed, key := range map[string]string{
		"dlockctl lock show two": "two words",
		"dlockctl lock show gr":  "größe",
		"d lock show dol":        "dollar$HOME",
	} {
		s.completes(typed)
		if got := s.names(); got != key {
			t.Errorf("%q names %q, want %q", typed, got, key)
		}
	}
	const unset = "dlockctl lock list --owner $UNSET --prefix two"
	var line, shown string
	s.again("what follows $UNSET is completed", func() bool {
		line, shown = s.press(dropLine + unset + "\t")
		return line != unset
	})
	if line != unset+`\ words ` || strings.Contains(shown, "unbound") {
		t.Errorf("%q became %q, and it shows %q", unset, line, shown)
	}
	// Each offer in turn, as it is to be inserted.
	s.again("an offer is inserted", func() bool {
		line, _ := s.press(dropLine + "dlockctl lock show evil\x1bt\x1bt")
		return strings.Contains(line, "touch")
	})
	if got := s.names(); got != "evil $(touch evaluated)1" && got != "evil $(touch evaluated)2" {
		t.Errorf("the second in the menu names %q", got)
	}
	// As far as they agree, then all.
	s.lists("dlockctl lock show evil\t\t", `evaluated\)1`, `evaluated\)2`)
	s.harmless()
}

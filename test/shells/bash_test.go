//go:build linux

package shells_test

import (
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
// evaluate the words that were typed.
func TestBash(t *testing.T) {
	t.Parallel()
	s := start(t, reports(map[string]string{"rc": bashrc}), "bash", "--noprofile", "--rcfile", "rc", "-i")
	s.proves()
	s.press("dlockctl lock show \t")
	_, shown := s.press("\t\t")
	offers(t, shown)
	s.harmless()
}

// In bash where the letters are bytes, and with settings that are common.
func TestBashOtherwise(t *testing.T) {
	t.Parallel()
	rc := bashrc + `
LC_ALL=C
bind 'set show-all-if-ambiguous on'
bind '"\et": menu-complete'
alias d=dlockctl
complete -F __start_dlockctl d
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
	// Each offer in turn, as it is to be inserted.
	s.press("dlockctl lock show evil\x1bt\x1bt")
	if got := s.names(); got != "evil $(touch evaluated)1" && got != "evil $(touch evaluated)2" {
		t.Errorf("the second in the menu names %q", got)
	}
	s.completes("dlockctl lock show evil")
	_, shown := s.press("\t")
	_ = shown
	s.harmless()
}

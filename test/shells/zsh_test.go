//go:build linux && shells

package shells_test

import (
	"testing"
)

const zshrc = `
PS1='$ ' LISTMAX=-1
unsetopt prompt_cr prompt_sp beep
autoload -Uz compinit
precmd() { print -n '\006' }
tell() { printf '\002%s\003' "$BUFFER" >/dev/tty }
zle -N tell
bindkey -e
bindkey '^[z' tell
`

// In zsh, from the folder where packages put it.
//
// Mutation: print cobra's script; or keep the backslashes of an offer as they are.
func TestZsh(t *testing.T) {
	t.Parallel()
	s := start(t, reports(map[string]string{".zshrc": zshrc + `
mkdir functions
dlockctl completion zsh >functions/_dlockctl
fpath=(~/functions $fpath)
compinit -u -D
`}), "zsh", "-d", "-i")
	s.proves()
	_, shown := s.press("dlockctl lock show \t")
	offers(t, shown)
	s.harmless()
}

// In zsh, sourced.
//
// Mutation: leave out compdef.
func TestZshSourced(t *testing.T) {
	t.Parallel()
	s := start(t, map[string]string{".zshrc": zshrc + `
compinit -u -D
source <(dlockctl completion zsh)
`}, "zsh", "-d", "-i")
	if line := s.completes("dlockctl lock show it"); line != `dlockctl lock show it\'s\ \"quoted\" ` {
		t.Errorf("it became %q", line)
	}
}

//go:build linux && shells

package shells_test

import (
	"testing"
)

const zshrc = `
PS1='$ ' LISTMAX=0
unsetopt prompt_cr prompt_sp beep
autoload -Uz compinit
precmd() { print -n '\006' }
tell() { printf '\002%s\003' "$BUFFER" >/dev/tty }
zle -N tell
bindkey -e
bindkey '^[z' tell
`

// In zsh, from the folder where packages put it, and with the styles of many who use it: groups have
// names and headings.
//
// Mutation: print cobra's script; or keep the backslashes of an offer as they are; or take what
// follows -- for a flag; or give _describe its -V after the offers, or not at all.
func TestZsh(t *testing.T) {
	t.Parallel()
	s := start(t, reports(map[string]string{".zshrc": zshrc + `
mkdir functions
dlockctl completion zsh >functions/_dlockctl
fpath=(~/functions $fpath)
compinit -u -D
zstyle ':completion:*' group-name ''
zstyle ':completion:*' format '<%d>'
`}), "zsh", "-d", "-i")
	s.proves()
	offers(t, s.lists("dlockctl lock show \t", leased))
	ordered(t, s.lists(levels+"\t", "low"))
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

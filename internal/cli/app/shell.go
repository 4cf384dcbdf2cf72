package app

import "strings"

// Command is a command of this program as a shell reads it back, on the databases
// of the running one: to be printed, and run.
func (a *App) Command(verb string, words ...string) string {
	return a.OnSameDatabases("dlockctl "+verb, words...)
}

// OnSameDatabases adds words, and the flags that name the databases, to a command
// line that is quoted already.
func (a *App) OnSameDatabases(line string, words ...string) string {
	for _, word := range append(words, a.Connection()...) {
		line += " " + Quoted(word)
	}
	return line
}

// Quoted is s as a POSIX shell reads it back.
func Quoted(s string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_./:@%+,", r)
	}
	if s != "" && strings.IndexFunc(s, func(r rune) bool { return !plain(r) }) < 0 {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

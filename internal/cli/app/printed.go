package app

import (
	"slices"
	"strings"
	"unicode"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Knowing tells the app how to make the tree of all commands, so that it finds those
// that a text names.
func (a *App) Knowing(tree func() *cobra.Command) { a.tree = tree }

// Runnable adds to each command of this program that a text names the flags that say
// which databases the running one speaks to: what is printed can be run as it stands.
// Those that a command names itself stay as they are.
func (a *App) Runnable(text string) string {
	given := a.Connection()
	if len(given) == 0 || a.tree == nil || !strings.Contains(text, program) {
		return text
	}
	root := a.tree()
	var b strings.Builder
	for {
		before, rest, found := strings.Cut(text, program)
		b.WriteString(before)
		if !found {
			return b.String()
		}
		line, words := commandAt(root, rest)
		b.WriteString(program + line)
		own, _, _ := strings.Cut(rest, program)
		if words != nil && !strings.Contains(own, asWords(given)) { // else it was made complete
			b.WriteString(asWords(without(given, words)))
		}
		text = rest[len(line):]
	}
}

// asWords is how flags stand behind a command.
func asWords(flags []string) string {
	var b strings.Builder
	for _, word := range flags {
		b.WriteString(" " + Quoted(word))
	}
	return b.String()
}

// program begins a command line in a text.
const program = "dlockctl "

// commandAt is the command that text begins with, without the program's name, up to
// where prose goes on, and its words; none for a text that names no command that runs
// on a database.
func commandAt(root *cobra.Command, text string) (line string, words []string) {
	cmd, end, value, verbs := root, 0, false, true
	for end < len(text) {
		word := wordAt(text[end:])
		bare := strings.TrimRight(word, ";:,.)?`")
		child := slices.IndexFunc(cmd.Commands(), func(c *cobra.Command) bool { return c.Name() == bare })
		switch {
		case value:
			value = false
		case strings.HasPrefix(bare, "-"):
			value, verbs = takesValue(cmd, bare), false
		case verbs && child >= 0:
			cmd = cmd.Commands()[child]
		case isPlaceholder(bare):
			verbs = false
		default: // prose
			return answer(cmd, text[:end], words)
		}
		words = append(words, bare)
		end += len(bare)
		if bare != word { // punctuation ends a command
			break
		}
		end = min(end+1, len(text)) // the blank
	}
	return answer(cmd, text[:end], words)
}

// wordAt is what stands before the next blank that is not quoted.
func wordAt(text string) string {
	quoted := false
	end := strings.IndexFunc(text, func(r rune) bool {
		if r == '\'' {
			quoted = !quoted
		}
		return r == ' ' && !quoted
	})
	if end < 0 {
		return text
	}
	return text[:end]
}

// answer is the command that was found, which a blank may follow.
func answer(cmd *cobra.Command, line string, words []string) (string, []string) {
	line = strings.TrimSuffix(line, " ")
	if !cmd.HasParent() || cmd.Name() == "help" || slices.Contains(words, "--help") {
		return line, nil
	}
	return line, words
}

// takesValue tells that the next word belongs to the flag.
func takesValue(cmd *cobra.Command, word string) bool {
	if strings.Contains(word, "=") {
		return false
	}
	name := strings.TrimLeft(word, "-")
	for _, flags := range []*pflag.FlagSet{cmd.Flags(), cmd.InheritedFlags()} {
		f := flags.Lookup(name)
		if f == nil && len(name) == 1 {
			f = flags.ShorthandLookup(name)
		}
		if f != nil {
			return f.NoOptDefVal == ""
		}
	}
	return false
}

// isPlaceholder tells an argument from the prose behind a command: TEXT, ID, 'a reason',
// {payout}, account:42, an id.
func isPlaceholder(word string) bool {
	return word != "" && (strings.ContainsAny(word, `'{:_-0123456789`) || strings.IndexFunc(word, unicode.IsLower) < 0)
}

// without leaves out of the flags in given, each with its value, those that words name.
func without(given, words []string) []string {
	var left []string
	for i := 0; i < len(given); i++ {
		flag := given[i : i+1]
		if i+1 < len(given) && !strings.HasPrefix(given[i+1], "--") {
			flag = given[i : i+2]
			i++
		}
		named := slices.ContainsFunc(words, func(w string) bool { return w == flag[0] || strings.HasPrefix(w, flag[0]+"=") })
		if !named {
			left = append(left, flag...)
		}
	}
	return left
}

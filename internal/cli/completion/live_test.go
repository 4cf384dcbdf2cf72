package completion_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/dlockctl/dlockctl/internal/cli"
	"github.com/dlockctl/dlockctl/internal/cli/app"
	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/ui"
)

// store lists locks of these keys, each owned by one that is called as it is.
type store struct {
	lockstore.Store

	keys []string
}

func (s store) Close() {}

func (s store) List(_ context.Context, filter lockstore.Filter) ([]lockstore.Entry, error) {
	var entries []lockstore.Entry
	for _, key := range s.keys {
		if strings.HasPrefix(key, filter.Prefix) {
			entries = append(entries, lockstore.Entry{Key: key, Owner: key, Token: 1, ExpiresAt: lockstore.Time{Infinite: true}})
		}
	}
	return entries, nil
}

// complete asks as a script does, and returns the offers without what is said of them.
func complete(t *testing.T, quoted string, keys []string, words ...string) []string {
	t.Helper()
	streams, out, _ := ui.Test("", map[string]string{"DLOCKCTL_LOCK_DSN": "host=/nowhere", "DLOCKCTL_COMPLETION_QUOTED": quoted})
	args := append([]string{"__complete"}, words...)
	a := app.New(streams, args).WithStore(func(context.Context, app.Purpose) (lockstore.Store, error) { return store{keys: keys}, nil })
	if exit := cli.Run(t.Context(), a, args); exit != app.OK {
		t.Fatalf("%q: exit %d", args, exit)
	}
	lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
	var found []string
	for _, line := range lines[:len(lines)-1] {
		value, _, _ := strings.Cut(line, "\t")
		found = append(found, value)
	}
	return found
}

// What would not be the same value on the line is not offered: to no script what its protocol does
// not carry and what would be a flag, and to one that does not quote what a shell would read.
//
// Mutation: offer each value whatever it is, or what begins with a space or a hyphen.
func TestOnlyWhatStaysItself(t *testing.T) {
	t.Parallel()
	quotable := []string{"two words", "it's", `a"b`, "$(touch x)", "`touch x`", "a;b", "a&b", "a|b", "a>b", `a\b`, "a*", "~", "#a", "!a", "a=b", "a,b", "{a}", "@a", "a’b", "größe x"}
	plain := []string{"account:42", "größe", "a@b.example", "a/b_c-d+e%f.0"}
	never := []string{"a\nb", "a\tb", "a\x1b[2J", "a\u202eb", " a", "a ", "\u00a0a", "a\u2028"}
	dashed := []string{"-rf", "--server=http://elsewhere"}
	all := slices.Concat(quotable, plain, never, dashed)
	for _, c := range []struct {
		what, quoted string
		words        []string
		want         []string
	}{
		{"an argument, quoted", "1", []string{"lock", "show", ""}, slices.Concat(quotable, plain)},
		{"an argument, as it is", "", []string{"lock", "show", ""}, slices.Clone(plain)},
		{"an argument after --", "1", []string{"lock", "show", "--", "-r"}, []string{"-rf"}},
		{"a flag's value, as it is", "", []string{"lock", "list", "--owner", ""}, append([]string{"-rf"}, plain...)},
	} {
		got := complete(t, c.quoted, all, c.words...)
		slices.Sort(got)
		slices.Sort(c.want)
		offered, want := strings.Join(got, "\n"), strings.Join(c.want, "\n")
		if offered != want {
			t.Errorf("%s: offered\n%s\nwant\n%s", c.what, offered, want)
		}
	}
}

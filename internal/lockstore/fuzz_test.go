package lockstore_test

import (
	"errors"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/dlockctl/dlockctl/internal/lockstore"
)

// What is taken for a key, an owner or a reason fits every backend; what is
// refused is shown so that it cannot play with a terminal.
func FuzzNames(f *testing.F) {
	for _, seed := range []string{"", "k", " ", "a\x00", "\xff", "\x1b[2J", "\u202e", "\u200b", strings.Repeat("k", 1025), "caf\u00e9", "cafe\u0301", "a\nb"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, s string) {
		for what, c := range map[string]struct {
			valid func(string) error
			most  int
		}{"key": {lockstore.ValidKey, lockstore.MaxKeyBytes}, "owner": {lockstore.ValidOwner, lockstore.MaxKeyBytes}, "reason": {lockstore.ValidReason, lockstore.MaxReasonBytes}} {
			err := c.valid(s)
			switch {
			case err == nil && (s == "" || len(s) > c.most || !utf8.ValidString(s) || strings.ContainsRune(s, 0) || strings.TrimSpace(s) == ""):
				t.Errorf("%s %q is taken", what, s)
			case err != nil && (!errors.Is(err, lockstore.ErrInvalid) || strings.ContainsFunc(err.Error(), func(r rune) bool { return unicode.IsControl(r) || unicode.Is(unicode.Cf, r) })):
				t.Errorf("%s %q: %q", what, s, err)
			}
		}
	})
}

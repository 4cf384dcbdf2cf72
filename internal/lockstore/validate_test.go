package lockstore_test

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/dlockctl/dlockctl/internal/lockstore"
)

// Names: what a key or an owner may be, and that each refusal names the value
// and the fix.
//
// Mutation: take the IsControl loop out of validText.
func TestValidKeyAndOwner(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name, in string
		want     string // part of the message; empty means accepted
	}{
		{"plain", "account:42", ""},
		{"slashes and spaces", "a/b c", ""},
		{"composed and combining letters stay what they are", "e\u0301", ""},
		{"bidi mark is shown, not refused", "a\u202eb", ""},
		{"longest", strings.Repeat("k", 1024), ""},
		{"empty", "", "is empty; give one"},
		{"blank", " \u200b", "is blank"},
		{"one byte too long", strings.Repeat("k", 1025), "is 1025 bytes long; shorten it to 1024"},
		{"long in bytes, not in letters", strings.Repeat("é", 513), "is 1026 bytes long"},
		{"NUL", "a\x00b", "U+0000 at byte 1; remove it"},
		{"newline", "a\nb", "U+000A"},
		{"ANSI escape", "\x1b[31mred", `"\x1b[31mred" has the control character U+001B at byte 0`},
		{"C1 control", "a\u009bb", "U+009B"},
		{"invalid UTF-8", "a\xffb", `"a\xffb" is not UTF-8`},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			checkRefusal(t, lockstore.ValidKey(c.in), c.want)
			checkRefusal(t, lockstore.ValidOwner(c.in), c.want)
		})
	}
}

// Clauses: K-2.12
// Mutation: return validName's own error from ValidSessionID.
func TestValidSessionIDIsNotShown(t *testing.T) {
	t.Parallel()
	checkRefusal(t, lockstore.ValidSessionID("0192aaaa-secret"), "")
	err := lockstore.ValidSessionID("0192aaaa-secret\x00")
	checkRefusal(t, err, "is malformed")
	if strings.Contains(err.Error(), "secret") {
		t.Errorf("message shows the id: %v", err)
	}
	checkRefusal(t, lockstore.ValidSessionID(""), "session id is empty")
}

// Clauses: K-3.3
// Mutation: take the blank test out of ValidReason.
func TestValidReason(t *testing.T) {
	t.Parallel()
	checkRefusal(t, lockstore.ValidReason("holder hangs, ticket 7"), "")
	checkRefusal(t, lockstore.ValidReason("two\nlines\tof it"), "")
	checkRefusal(t, lockstore.ValidReason(""), "reason is empty")
	checkRefusal(t, lockstore.ValidReason(" \t\n"), "reason is blank")
	checkRefusal(t, lockstore.ValidReason("\u200b"), "reason is blank")
	checkRefusal(t, lockstore.ValidReason("a\x1b[2Jb"), "U+001B")
	checkRefusal(t, lockstore.ValidReason(strings.Repeat("r", 4097)), "shorten it to 4096")
}

// Clauses: K-2.5
// Mutation: take either bound out of ValidTTL.
func TestValidTTL(t *testing.T) {
	t.Parallel()
	for _, ttl := range []time.Duration{100 * time.Millisecond, 30 * time.Second, 24 * time.Hour} {
		checkRefusal(t, lockstore.ValidTTL(ttl), "")
	}
	for ttl, want := range map[time.Duration]string{
		0:                                  "ttl 0s is below the minimum of 100ms",
		-time.Second:                       "ttl -1s is below",
		100*time.Millisecond - 1:           "ttl 99.999999ms is below",
		math.MinInt64:                      "is below",
		24*time.Hour + 1:                   "is above the maximum of 24h0m0s",
		time.Duration(math.MaxInt64):       "is above the maximum",
		time.Duration(math.MaxInt64/2 + 1): "is above the maximum",
	} {
		checkRefusal(t, lockstore.ValidTTL(ttl), want)
	}
}

// Clauses: K-1.6
// Mutation: take the upper bound out of ValidToken.
func TestParseToken(t *testing.T) {
	t.Parallel()
	cases := []struct {
		in   string
		want lockstore.Token
		msg  string
	}{
		{in: "1", want: 1},
		{in: "106", want: 106},
		{in: "9007199254740992", want: lockstore.MaxToken},
		{in: "9007199254740993", msg: "above 2^53"},
		{in: "9223372036854775807", msg: "above 2^53"},
		{in: "9223372036854775808", msg: `token "9223372036854775808" is above 2^53`},
		{in: "0", msg: "below 1"},
		{in: "-1", msg: `"-1" is not a decimal number`},
		{in: "+1", msg: "not a decimal number"},
		{in: "", msg: "not a decimal number"},
		{in: " 1", msg: "not a decimal number"},
		{in: "1e3", msg: "not a decimal number"},
		{in: "1_000", msg: "not a decimal number"},
		{in: "٣", msg: "not a decimal number"},
		{in: "NaN", msg: "not a decimal number"},
		{in: strings.Repeat("9", 5000), msg: "…"},
	}
	for _, c := range cases {
		got, err := lockstore.ParseToken(c.in)
		checkRefusal(t, err, c.msg)
		if c.msg == "" && got != c.want {
			t.Errorf("ParseToken(%q) = %d, want %d", c.in, got, c.want)
		}
		if err != nil && len(err.Error()) > 300 {
			t.Errorf("message of %d bytes floods the terminal", len(err.Error()))
		}
	}
	if err := lockstore.ValidToken(-5); !errors.Is(err, lockstore.ErrInvalid) {
		t.Errorf("ValidToken(-5) = %v", err)
	}
}

// FuzzParseToken: whatever is accepted lies within the limits and prints as
// what was read.
func FuzzParseToken(f *testing.F) {
	for _, seed := range []string{"1", "9007199254740993", "-1", "0x1", "1\x00", ""} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, in string) {
		token, err := lockstore.ParseToken(in)
		if err != nil {
			if !errors.Is(err, lockstore.ErrInvalid) {
				t.Fatalf("ParseToken(%q) = %v, want ErrInvalid", in, err)
			}
			return
		}
		if token < 1 || token > lockstore.MaxToken || token.String() != strings.TrimLeft(in, "0") {
			t.Fatalf("ParseToken(%q) = %d", in, token)
		}
	})
}

// checkRefusal wants no error when part is empty, else an ErrInvalid that says
// part.
func checkRefusal(t *testing.T, err error, part string) {
	t.Helper()
	switch {
	case part == "" && err != nil:
		t.Errorf("refused: %v", err)
	case part == "":
	case !errors.Is(err, lockstore.ErrInvalid):
		t.Errorf("got %v, want an ErrInvalid that says %q", err, part)
	case !strings.Contains(err.Error(), part):
		t.Errorf("message %q does not say %q", err, part)
	}
}

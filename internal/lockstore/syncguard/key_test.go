package syncguard_test

import (
	"encoding/hex"
	"errors"
	"regexp"
	"strings"
	"testing"
	"unicode"

	"golang.org/x/text/unicode/norm"

	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/lockstore/syncguard"
)

// vector is one of the library's own: what SyncGuard 2.5.2 makes of a key.
type vector struct {
	name, key string
	// lock is the storage key in hexadecimal UTF-8; the fence key is "fence:" and
	// the same.
	lock, hash string
	// hashtext is PostgreSQL's, as 15 and 16 compute it.
	hashtext int32
}

// vectors are the library's, from the real package.
func vectors() []vector {
	return []vector{
		{"plain", "payment:42", "7061796d656e743a3432", "602228725e82081670294dde", 748732868},
		{"one letter", "a", "61", "0000006100000123000002a7", 1075015857},
		{"composed", "caf\u00e9", "636166c3a9", "002e7a21248b3503a22cdb87", 103771354},
		{"decomposed", "cafe\u0301", "636166c3a9", "002e7a21248b3503a22cdb87", 103771354},
		{"jamo", "\u1112\u1161\u11ab", "ed959c", "0000d55c000280140005d584", -1983399233},
		{"angstrom sign", "\u212b", "c385", "000000c50000024f00000563", -1504573312},
		{"composition excluded", "\u0958", "e0a495e0a4bc", "000122c7000d9ff501fc9911", 969569794},
		{"beyond the basic plane", "lock:\U0001f512", "6c6f636b3af09f9492", "144a8d244d99808ceecf5b1c", -1066538544},
		{"ligature", "\ufb01le", "efac816c65", "03ae4c3ab9534feed40e0cd6", -1353623230},
		{"blanks", "  pad ", "202070616420", "389265ed70ee5a077dfbedbb", -1572547902},
		{"longest", strings.Repeat("x", 512), strings.Repeat("78", 512), "53ef0000dab400001a400000", -1100414315},
		{"shorter when composed", strings.Repeat("e\u0301", 256), strings.Repeat("c3a9", 256), "1ec09000100ec000f97c0000", -1310192908},
	}
}

// Each key becomes the row, the counter and the telemetry name that the library
// makes of it.
//
// Clauses: K-10.2
// Mutation: leave out norm.NFC, or the factor of one of the three hashes.
func TestKeyVectors(t *testing.T) {
	t.Parallel()
	for _, v := range vectors() {
		t.Run(v.name, func(t *testing.T) {
			t.Parallel()
			want, err := hex.DecodeString(v.lock)
			if err != nil {
				t.Fatal(err)
			}
			lock, fence, err := syncguard.KeysOf(v.key)
			if err != nil || lock != string(want) || fence != "fence:"+string(want) {
				t.Errorf("keys %q and %q, %v, want %q", lock, fence, err, want)
			}
			if got := syncguard.TelemetryHash(v.key); got != v.hash {
				t.Errorf("hash %s, want %s", got, v.hash)
			}
		})
	}
	for key, want := range map[string]string{
		"": strings.Repeat("0", 24), "ab": "00000c210000918300153807", "\U0001f512": "001b0c75014469ff2f4d79d3", strings.Repeat("A", 22): "761621603f31b080201c6800",
	} {
		if got := syncguard.TelemetryHash(key); got != want {
			t.Errorf("hash of %q: %s, want %s", key, got, want)
		}
	}
}

// What the library refuses is refused, and so is what it might normalise to another
// key than this program: both would lock, and not exclude each other.
//
// Clauses: K-10.2
// Mutation: drop the test for unassigned characters, or the one for the grapheme
// joiner; compare the length before normalising.
func TestKeysRefused(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, key, want string }{
		{"empty", "", "key is empty"},
		{"513 letters", strings.Repeat("x", 513), "is 513 bytes long when normalised; shorten it to the 512"},
		{"composed to 514 bytes", strings.Repeat("e\u0301", 257), "is 514 bytes long when normalised"},
		{"decomposed to 516 bytes", strings.Repeat("\u0958", 86), "is 516 bytes long when normalised"},
		{"31 combining marks", "a" + strings.Repeat("\u0301", 31), "more than 30 combining marks in a row"},
		{"31 marks after a composed letter", "\u00e1" + strings.Repeat("\u0301", 31), "more than 30 combining marks in a row"},
		{"composed only in Unicode 16", "\U00011382\U000113c9", "U+11382, which Unicode 15.0.0 does not assign"},
		{"noncharacter", "a\uffff", "U+FFFF"},
		{"NUL", "a\x00b", "is not text that a database holds"},
		{"lone surrogate, in bytes", "a\xed\xa0\x80", "is not text that a database holds"},
		{"control", "a\nb", "control character U+000A"},
		{"blank", " \u200b", "is blank"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			lock, _, err := syncguard.KeysOf(c.key)
			if !errors.Is(err, lockstore.ErrInvalid) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%q, %v, want a refusal that says %q", lock, err, c.want)
			}
		})
	}
	// 30 marks still agree, also with a joiner that the key itself has, and so does
	// what x/text v0.41.0 got wrong (golang/go#81028).
	for key, want := range map[string]string{
		"a" + strings.Repeat("\u0301", 30):               "\u00e1" + strings.Repeat("\u0301", 29),
		"a\u034f" + strings.Repeat("\u0301", 30):         "a\u034f" + strings.Repeat("\u0301", 30),
		"\U00010041\u0301":                               "\U00010041\u0301",
		strings.Repeat("e\u0301", 200):                   strings.Repeat("\u00e9", 200),
		"\ufffd":                                         "\ufffd",
		strings.Repeat("\u1112\u1161\u11ab", 170):        strings.Repeat("\ud55c", 170),
		"K\u212a\u2126 \u1e9b\u0323 \u0f71\u0f71 \u0f43": "KK\u03a9 \u1e9b\u0323 \u0f71\u0f71 \u0f42\u0fb7",
	} {
		if lock, _, err := syncguard.KeysOf(key); err != nil || lock != want {
			t.Errorf("%+q: %+q, %v, want %+q", key, lock, err, want)
		}
	}
}

// The tables that say what is assigned are those that normalise.
//
// Mutation: none; a Go whose two tables differ would let a key through that they
// read differently.
func TestUnicodeTablesAgree(t *testing.T) {
	t.Parallel()
	if unicode.Version != norm.Version {
		t.Errorf("assigned characters are those of Unicode %s, and normalisation is that of %s", unicode.Version, norm.Version)
	}
}

// The library's general rule, of which the limit on keys leaves one branch.
//
// Clauses: K-10.2
// Mutation: hash the key without its prefix, or keep one colon of the prefix more.
func TestStorageKeyVectors(t *testing.T) {
	t.Parallel()
	const limit = 1700
	x := func(n int) string { return strings.Repeat("x", n) }
	for _, c := range []struct{ prefix, key, lock, fence string }{
		{"", x(1700), x(1700), "dWMcDpgd0G6PLp6U3Q9GLw"},
		{"", x(1701), "bfWkEf_eL9ZYrB28wnAnnA", "fence:bfWkEf_eL9ZYrB28wnAnnA"},
		{"", strings.Repeat("\u00e9", 850), strings.Repeat("\u00e9", 850), "L4c6HtGyzXFhoVW9zkyl5g"},
		{"", strings.Repeat("\u00e9", 851), "aGQzSet6PIirEhgn4cugUQ", "fence:aGQzSet6PIirEhgn4cugUQ"},
		{"", strings.Repeat("e\u0301", 851), "aGQzSet6PIirEhgn4cugUQ", "fence:aGQzSet6PIirEhgn4cugUQ"},
		{"", strings.Repeat("z", 1694), strings.Repeat("z", 1694), "fence:" + strings.Repeat("z", 1694)},
		{"", strings.Repeat("z", 1695), strings.Repeat("z", 1695), "8l70ubGZ007AB83BU7Mfdw"},
		{"app", x(2000), "app:KVJ2MFtcjK2LPaSQl8s_TQ", "app:fence:app:KVJ2MFtcjK2LPaSQl8s_TQ"},
		{"app:", x(2000), "app:KVJ2MFtcjK2LPaSQl8s_TQ", "app:fence:app:KVJ2MFtcjK2LPaSQl8s_TQ"},
		{"app::", "y", "app:y", "app:fence:app:y"},
	} {
		lock, err := syncguard.StorageKey(c.prefix, c.key, limit, 0)
		if err != nil || lock != c.lock {
			t.Errorf("%q and a key of %d bytes: %q, %v, want %q", c.prefix, len(c.key), lock, err, c.lock)
		}
		if fence, err := syncguard.StorageKey(c.prefix, "fence:"+lock, limit, 0); err != nil || fence != c.fence {
			t.Errorf("%q and a key of %d bytes: counter %q, %v, want %q", c.prefix, len(c.key), fence, err, c.fence)
		}
	}
	for prefix, key := range map[string]string{strings.Repeat("p", 1701): "k", strings.Repeat("p", 1690): x(100)} {
		if got, err := syncguard.StorageKey(prefix, key, limit, 0); !errors.Is(err, lockstore.ErrInvalid) {
			t.Errorf("a prefix of %d bytes: %q, %v, want ErrInvalid", len(prefix), got, err)
		}
	}
}

// A lock id is 22 characters of base64url, of which the last has two bits, and no
// two are alike.
//
// Mutation: encode 15 or 17 bytes, or with padding.
func TestLockIDs(t *testing.T) {
	t.Parallel()
	canonical := regexp.MustCompile(`^[A-Za-z0-9_-]{21}[AQgw]$`)
	seen := map[string]bool{}
	for range 20_000 {
		id := syncguard.NewLockID()
		if !canonical.MatchString(id) || seen[id] {
			t.Fatalf("lock id %q, seen before: %t", id, seen[id])
		}
		seen[id] = true
	}
}

// Fences are text of 15 digits; a lease is live for a second past its end, and not
// at the end of that second.
//
// Mutation: 14 digits, or >= in live.
func TestFenceAndLivenessVectors(t *testing.T) {
	t.Parallel()
	for token, want := range map[lockstore.Token]string{0: "000000000000000", 42: "000000000000042", 900_000_000_000_000: "900000000000000"} {
		if got := syncguard.FenceText(token); got != want {
			t.Errorf("fence %d: %q, want %q", token, got, want)
		}
	}
	for text, want := range map[string]lockstore.Token{
		"000000000000042": 42, "900000000000000": 900_000_000_000_000, "1000000000000000": 1_000_000_000_000_000,
		"0000000000000-5": 0, "42": 0, "00000000000042": 0, "": 0, "fifteen letters": 0, "000000000000000": 0,
	} {
		if got := syncguard.FenceToken(text); got != want {
			t.Errorf("fence %q: %d, want %d", text, got, want)
		}
	}
	for _, c := range []struct {
		expires, now int64
		want         bool
	}{{1000, 1999, true}, {1000, 2000, false}, {1001, 2000, true}} {
		if got := syncguard.Live(c.expires, c.now); got != c.want {
			t.Errorf("a lease that ends at %d is live at %d: %t", c.expires, c.now, got)
		}
	}
}

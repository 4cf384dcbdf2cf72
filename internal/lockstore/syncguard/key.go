package syncguard

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"

	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/plaintext"
)

const (
	// maxKeyBytes bounds a key after normalisation.
	maxKeyBytes = 512
	// maxStored is how long the library lets a stored key be in PostgreSQL, far
	// above what maxKeyBytes leaves: a longer one would be hashed.
	maxStored = 1700
	// FencePrefix makes the counter's key of the lock's.
	FencePrefix = "fence:"
	// graphemeJoiner is what x/text puts into a long run of combining marks, and
	// JavaScript does not.
	graphemeJoiner = "\u034f"
)

// keys are those of a lock's row and of its counter.
type keys struct{ lock, fence string }

// keysOf are the keys as the library stores them. It refuses, wrapping ErrInvalid,
// what storedKey and lockstore.ValidKey do.
func keysOf(key string) (keys, error) {
	normal, err := storedKey(key)
	if err != nil {
		return keys{}, err
	}
	if err := lockstore.ValidKey(normal); err != nil {
		return keys{}, err
	}
	stored, err := storageKey("", normal, maxStored, 0)
	if err != nil {
		return keys{}, err
	}
	fence, err := storageKey("", FencePrefix+stored, maxStored, 0)
	return keys{stored, fence}, err
}

// storedKey is a key as the library stores it: normalised to NFC, at most 512 bytes
// of that. It refuses, wrapping ErrInvalid, what the library refuses, and what another
// Unicode version might normalise differently: the two would lock different rows and
// not exclude each other.
func storedKey(key string) (string, error) {
	if err := lockstore.LookupKey(key); err != nil {
		return "", err
	}
	normal, err := normalised(key)
	if err != nil {
		return "", err
	}
	if len(normal) > maxKeyBytes {
		return "", fmt.Errorf("%w: key %s is %d bytes long when normalised; shorten it to the %d that SyncGuard takes",
			lockstore.ErrInvalid, plaintext.Shown(key), len(normal), maxKeyBytes)
	}
	return normal, nil
}

// CounterKey is the key of a lock's counter, of the lock's in any Unicode form. It
// refuses, wrapping ErrInvalid, what no lock of SyncGuard's is called, and what this
// program might normalise differently: the counter would be another's, or nobody's.
func CounterKey(key string) (string, error) {
	stored, err := storedKey(key)
	if err != nil {
		return "", err
	}
	return FencePrefix + stored, nil
}

// LockOfCounter is the lock's key of a counter's, and whether SyncGuard could have
// made the two: with its prefix, in NFC, at most 512 bytes. Where another Unicode
// version might normalise differently the key is believed as it stands.
func LockOfCounter(fenceKey string) (key string, ours bool) {
	key, prefixed := strings.CutPrefix(fenceKey, FencePrefix)
	if !prefixed || len(key) > maxKeyBytes || lockstore.LookupKey(key) != nil {
		return key, false
	}
	normal, err := normalised(key)
	return key, err != nil || normal == key
}

// lookupKey is the key of a row that stands. What cannot be normalised safely is
// taken as it is: such a row is found by the key that the list prints.
func lookupKey(key string) (string, error) {
	if err := lockstore.LookupKey(key); err != nil {
		return "", err
	}
	if normal, err := normalised(key); err == nil {
		return normal, nil
	}
	return key, nil
}

// normalised is the NFC of s where every Unicode version agrees on it. Of assigned
// characters that is promised for ever (Unicode's stability policy); one that this
// program's tables do not know may be a composed one to a newer Node.
func normalised(s string) (string, error) {
	for i, r := range s {
		if unicode.Is(unicode.Cn, r) {
			return "", fmt.Errorf("%w: key %s has at byte %d the character U+%04X, which Unicode %s does not assign: SyncGuard may normalise it differently; use another",
				lockstore.ErrInvalid, plaintext.Shown(s), i, r, unicode.Version)
		}
	}
	normal := norm.NFC.String(s)
	if strings.Count(normal, graphemeJoiner) != strings.Count(s, graphemeJoiner) {
		return "", fmt.Errorf("%w: key %s has more than 30 combining marks in a row, which SyncGuard normalises differently; use fewer",
			lockstore.ErrInvalid, plaintext.Shown(s))
	}
	return normal, nil
}

// storageKey is the library's general rule: prefix and key joined by ":", and what
// is over the limit hashed. The limit of 512 bytes leaves its first branch only; it
// is written out whole so that it can be compared with the library's.
func storageKey(prefix, key string, limit, reserve int) (string, error) {
	lead := strings.TrimRight(prefix, ":")
	if lead != "" {
		lead += ":"
	}
	joined := lead + norm.NFC.String(key)
	if len(joined)+reserve <= limit {
		return joined, nil
	}
	sum := sha256.Sum256([]byte(joined))
	hashed := lead + base64.RawURLEncoding.EncodeToString(sum[:16])
	if len(hashed)+reserve > limit {
		return "", fmt.Errorf("%w: prefix %s leaves no room for a key within %d bytes; shorten it", lockstore.ErrInvalid, plaintext.Shown(prefix), limit)
	}
	return hashed, nil
}

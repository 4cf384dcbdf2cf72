package httpd

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"regexp"
	"runtime"
	"slices"
	"strings"
)

// The forms of a credential in the keys file.
const (
	hashPrefix = "sha256:"
	// certWord stands for a client certificate whose common name is the caller's.
	certWord = "cert"
)

// keyPrefix marks a key as one, for whoever finds it in a log or a repository.
const keyPrefix = "dlk_"

// callerName leaves out the slash, which parts a caller from the owner it names
// in a session (K-2.12).
var callerName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._@-]{0,63}$`)

// keyring is the content of a keys file.
type keyring struct {
	keys  []hashedKey
	certs map[string]Caller
}

type hashedKey struct {
	hash   [sha256.Size]byte
	caller Caller
}

// NewKey makes an API key of 256 random bits for a caller, and the line that lets
// it in. The key itself is kept nowhere. The name is letters, digits and . _ @ -,
// at most 64 of them.
func NewKey(name string, scopes []Scope) (key, line string, err error) {
	caller, err := newCaller(name, scopes)
	if err != nil {
		return "", "", err
	}
	var secret [32]byte
	if _, err := rand.Read(secret[:]); err != nil {
		return "", "", fmt.Errorf("draw a key: %w", err)
	}
	key = keyPrefix + base64.RawURLEncoding.EncodeToString(secret[:])
	hash := sha256.Sum256([]byte(key))
	return key, caller.line(hashPrefix + hex.EncodeToString(hash[:])), nil
}

// CertLine is the line that lets in the client certificate with this common name.
func CertLine(name string, scopes []Scope) (string, error) {
	caller, err := newCaller(name, scopes)
	if err != nil {
		return "", err
	}
	return caller.line(certWord), nil
}

func newCaller(name string, scopes []Scope) (Caller, error) {
	if !callerName.MatchString(name) {
		return Caller{}, fmt.Errorf("caller name %q is not possible; use up to 64 letters, digits and . _ @ -", name)
	}
	if len(scopes) == 0 {
		return Caller{}, fmt.Errorf("caller %s has no scope; give some of %s", name, scopeList(Scopes()))
	}
	for _, scope := range scopes {
		if !slices.Contains(Scopes(), scope) {
			return Caller{}, fmt.Errorf("scope %q is unknown; there are %s", scope, scopeList(Scopes()))
		}
	}
	return Caller{Name: name, Scopes: scopes}, nil
}

func scopeList(scopes []Scope) string {
	names := make([]string, len(scopes))
	for i, scope := range scopes {
		names[i] = string(scope)
	}
	return strings.Join(names, ",")
}

func (c Caller) line(credential string) string {
	return c.Name + " " + scopeList(c.Scopes) + " " + credential
}

// may tells whether the caller has one of the scopes.
func (c Caller) may(anyOf []Scope) bool {
	return slices.ContainsFunc(anyOf, func(scope Scope) bool { return slices.Contains(c.Scopes, scope) })
}

// readKeys reads a keys file. One that others can write lets them in, so it is
// refused.
func readKeys(path string) (*keyring, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("read the keys file: %w", err)
	}
	if runtime.GOOS != "windows" && info.Mode().Perm()&0o022 != 0 {
		return nil, fmt.Errorf("the keys file %s can be written by others; chmod go-w it", path)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the keys file: %w", err)
	}
	ring, err := parseKeys(text)
	if err != nil {
		return nil, fmt.Errorf("read the keys file %s: %w", path, err)
	}
	return ring, nil
}

// parseKeys reads the lines; an error names the line, and never what stands where
// a hash should: somebody may have put the key itself there.
func parseKeys(text []byte) (*keyring, error) {
	ring := &keyring{certs: map[string]Caller{}}
	number := 0
	for line := range bytes.Lines(text) {
		number++
		fields := strings.Fields(string(line))
		if len(fields) == 0 || strings.HasPrefix(fields[0], "#") {
			continue
		}
		if len(fields) != 3 {
			return nil, fmt.Errorf("line %d has %d words; write NAME SCOPE[,SCOPE] and sha256:HASH or cert", number, len(fields))
		}
		var scopes []Scope
		for name := range strings.SplitSeq(fields[1], ",") {
			scopes = append(scopes, Scope(name))
		}
		caller, err := newCaller(fields[0], scopes)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", number, err)
		}
		if fields[2] == certWord {
			ring.certs[caller.Name] = caller
			continue
		}
		hash, err := hex.DecodeString(strings.TrimPrefix(fields[2], hashPrefix))
		if err != nil || len(hash) != sha256.Size || !strings.HasPrefix(fields[2], hashPrefix) {
			return nil, fmt.Errorf("line %d: the third word is no hash; dlockctl serve key makes the whole line", number)
		}
		ring.keys = append(ring.keys, hashedKey{[sha256.Size]byte(hash), caller})
	}
	if len(ring.keys)+len(ring.certs) == 0 {
		return nil, errors.New("there is no line in it; dlockctl serve key makes one")
	}
	return ring, nil
}

// byKey finds whose key it is. Every hash is compared to its end: how long it takes
// says nothing about which is near.
func (r *keyring) byKey(key string) (Caller, bool) {
	hash := sha256.Sum256([]byte(key))
	var caller Caller
	found := 0
	for i := range r.keys {
		if subtle.ConstantTimeCompare(hash[:], r.keys[i].hash[:]) == 1 {
			caller, found = r.keys[i].caller, 1
		}
	}
	return caller, found == 1
}

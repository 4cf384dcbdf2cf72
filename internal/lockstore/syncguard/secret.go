package syncguard

import (
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"unicode/utf16"

	"golang.org/x/text/unicode/norm"
)

// newLockID makes the secret that identifies a grant: 128 random bits in 22
// characters. It is compared as text, never decoded: the last character has bits to
// spare.
func newLockID() string {
	var bits [16]byte
	_, _ = rand.Read(bits[:]) // it never fails: the program ends instead
	return base64.RawURLEncoding.EncodeToString(bits[:])
}

// telemetryHash is how the library's telemetry names a key or a lock id: three
// rolling hashes over UTF-16. It hides nothing: "a" hashes to its own code point.
func telemetryHash(s string) string {
	var h1, h2, h3 uint32
	for _, unit := range utf16.Encode([]rune(norm.NFC.String(s))) {
		c := uint32(unit)
		h1, h2, h3 = 31*h1+c, 127*h2+3*c, 2047*h3+7*c
	}
	return fmt.Sprintf("%08x%08x%08x", h1, h2, h3)
}

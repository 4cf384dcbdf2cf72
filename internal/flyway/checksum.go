package flyway

import (
	"bytes"
	"errors"
	"hash/crc32"
	"unicode/utf8"
)

var errMalformedUTF8 = errors.New("is not valid UTF-8")

var byteOrderMark = []byte("\xEF\xBB\xBF")

// Checksum is Flyway's checksum of a migration's bytes: CRC-32 over the text
// without its line ends and without one leading byte order mark, as a signed
// 32-bit number. Only CR and LF end a line, as in Java's BufferedReader; blanks
// and every other control character count.
//
// It returns an error when content is not valid UTF-8, where Flyway's decoder
// refuses too.
func Checksum(content []byte) (int32, error) {
	if !utf8.Valid(content) {
		return 0, errMalformedUTF8
	}
	content = bytes.TrimPrefix(content, byteOrderMark)

	sum := crc32.NewIEEE()
	for len(content) > 0 {
		end := bytes.IndexAny(content, "\r\n")
		if end < 0 {
			end = len(content)
		}
		sum.Write(content[:end])
		content = content[min(end+1, len(content)):]
	}
	return int32(sum.Sum32()), nil //nolint:gosec // Flyway stores the same 32 bits as a signed number.
}

package reconcile

import (
	"bufio"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/big"
	"slices"

	"github.com/google/uuid"
)

// Previous is an earlier run to compare with: a seal, as a run wrote it.
type Previous struct {
	sealHeader

	// since narrows the run to what was written after the seal.
	since    bool
	accounts map[uuid.UUID]opening
	// finals are the fingerprints of the payouts that were final, sorted.
	finals []uint64
}

// opening is what an account opened with; minor is a decimal number.
type opening struct {
	currency, minor string
	recorded        bool
}

// SealError says what is wrong with a seal, and what to do.
type SealError struct{ Problem, Want string }

func (e *SealError) Error() string { return "the seal " + e.Problem }

// Hint says what to do instead.
func (e *SealError) Hint() string { return e.Want }

// maxSealLine bounds a line of a seal; one is some 32 KiB long.
const maxSealLine = 1 << 20

// ReadPrevious reads a seal and checks that it is as it was written. With since the
// run looks at what came after it, and at all that may have changed unseen; without,
// it compares openings and tokens only. It returns [*SealError].
func ReadPrevious(r io.Reader, since bool) (*Previous, error) {
	p := &Previous{since: since, accounts: map[uuid.UUID]opening{}}
	lines := bufio.NewReaderSize(r, maxSealLine)
	sum := sha256.New()
	for number := 1; ; number++ {
		line, err := lines.ReadSlice('\n')
		if errors.Is(err, bufio.ErrBufferFull) {
			return nil, edited(number)
		}
		if errors.Is(err, io.EOF) {
			return nil, &SealError{Problem: "is cut off: its last line is missing", Want: "take another one: dlockctl reconcile --seal FILE, or dlockctl reconcile baseline --out FILE"}
		}
		if err != nil {
			return nil, fmt.Errorf("read the seal: %w", err)
		}
		var end sealEnd
		if number > 1 && json.Unmarshal(line, &end) == nil && end.Digest != "" {
			if err := p.whole(end, hex.EncodeToString(sum.Sum(nil))); err != nil {
				return nil, err
			}
			break
		}
		_, _ = sum.Write(line) // a hash takes everything
		if err := p.line(number, line); err != nil {
			return nil, err
		}
	}
	if p.since && p.Outcome != Clean {
		of := "is"
		if p.Baseline {
			of = "is a baseline"
		}
		return nil, &SealError{
			Problem: fmt.Sprintf("%s of a run that was %s: what it saw cannot be passed over", of, p.Outcome),
			Want:    "give it as --baseline, or seal a clean run with --seal and give that",
		}
	}
	slices.Sort(p.finals)
	return p, nil
}

func (p *Previous) line(number int, line []byte) error {
	if number == 1 {
		err := json.Unmarshal(line, &p.sealHeader)
		if err != nil || p.Kind != sealKind {
			return &SealError{Problem: "is none: its first line does not say so", Want: "give a file that dlockctl reconcile --seal or reconcile baseline wrote"}
		}
		if p.Version != sealVersion {
			return &SealError{Problem: fmt.Sprintf("has version %d, and this program reads %d", p.Version, sealVersion), Want: "take another one"}
		}
		if !p.sound() {
			return edited(number)
		}
		return nil
	}
	var body struct {
		sealAccount
		sealFinals
	}
	if err := json.Unmarshal(line, &body); err != nil {
		return edited(number)
	}
	if body.Finals != "" {
		packed, err := base64.StdEncoding.DecodeString(body.Finals)
		if err != nil || len(packed)%8 != 0 {
			return edited(number)
		}
		for part := range slices.Chunk(packed, 8) {
			p.finals = append(p.finals, binary.BigEndian.Uint64(part))
		}
		return nil
	}
	id, err := uuid.Parse(body.AccountID)
	if err != nil {
		return edited(number)
	}
	p.accounts[id] = opening{currency: body.Currency, minor: body.Opening, recorded: body.Recorded}
	return nil
}

// sound tells that the header has what later is relied on.
func (h sealHeader) sound() bool {
	if _, err := parseSnapshot(h.Snapshot); err != nil || h.Runs < 0 || len(h.Buckets) != SealBuckets {
		return false
	}
	return !slices.ContainsFunc(h.Buckets, func(b bucket) bool {
		_, number := new(big.Int).SetString(b.Sum, 10)
		return !number
	})
}

func (p *Previous) whole(end sealEnd, digest string) error {
	if end.Digest != digest || end.Accounts != int64(len(p.accounts)) || end.Finals != int64(len(p.finals)) {
		return &SealError{Problem: "is not as it was written: its digest differs", Want: "take the copy that was put away when it was made"}
	}
	return nil
}

func edited(number int) error {
	return &SealError{Problem: fmt.Sprintf("is not as it was written: line %d cannot be read", number), Want: "take the copy that was put away when it was made"}
}

// anchors tells that the earlier run knows an opening for the account, which then is
// not UNANCHORED (K-4.8).
func (p *Previous) anchors(accountID string) bool {
	if p == nil {
		return false
	}
	id, err := uuid.Parse(accountID)
	if err != nil {
		return false
	}
	_, known := p.accounts[id]
	return known
}

// wasFinal tells whether a payout stood in this state, for good, when the seal was
// taken.
func (p *Previous) wasFinal(fingerprint int64) bool {
	_, found := slices.BinarySearch(p.finals, uint64(fingerprint)) //nolint:gosec // 64 bits are 64 bits
	return found
}

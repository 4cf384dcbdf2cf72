package reconcile

import (
	"bufio"
	"context"
	"crypto/sha256"
	_ "embed" // the queries
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash"
	"io"
	"math/big"
	"time"

	"github.com/jackc/pgx/v5"
)

var (
	//go:embed queries/seal_facts.sql
	sealFactsQuery string
	//go:embed queries/seal_accounts.sql
	sealAccountsQuery string
	//go:embed queries/seal_finals.sql
	sealFinalsQuery string
	//go:embed queries/seal_legs.sql
	sealLegsQuery string
)

const (
	sealKind    = "dlockctl-seal"
	sealVersion = 1
	// SealBuckets is into how many parts the sealed legs are digested: each later run
	// digests one of them again, so that a sealed leg that was changed without a trace
	// is found within so many runs.
	SealBuckets = 16
	// finalsPerLine is how many fingerprints of final payouts stand on a line.
	finalsPerLine = 3000
)

// Sealing asks a run to write what it saw, so that a later one can go on from there.
type Sealing struct {
	// To is written in the run's own snapshot. What it holds is good only if Run
	// returns no error and the report says Sealed.
	To io.Writer
	// By says who.
	By string
	// Baseline takes the openings and the rest of a seal also when the run is not
	// CLEAN: it says what is, not that it is right.
	Baseline bool
}

// sealHeader is the first line of a seal.
type sealHeader struct {
	Kind     string    `json:"kind"`
	Version  int       `json:"version"`
	RunID    string    `json:"run_id"`
	By       string    `json:"by"`
	At       time.Time `json:"at"`
	Outcome  Outcome   `json:"outcome"`
	Baseline bool      `json:"baseline"`
	// Runs counts the seals that led to this one: the next run digests bucket Runs
	// modulo SealBuckets again.
	Runs             int    `json:"runs"`
	SystemIdentifier int64  `json:"system_identifier"`
	Timeline         int32  `json:"timeline"`
	Database         string `json:"database"`
	Schema           int    `json:"schema_version"`
	// Snapshot is pg_current_snapshot(): which transactions were sealed.
	Snapshot string `json:"snapshot"`
	// LastToken is the last one issued, 0 for not known; the others are the highest
	// in paydb.
	LastToken    int64    `json:"last_token"`
	HighestFence int64    `json:"highest_fence"`
	HighestMark  int64    `json:"highest_mark"`
	HighestClaim int64    `json:"highest_claim"`
	Buckets      []bucket `json:"buckets"`
}

// bucket is a digest of some of the sealed legs, whatever their order.
type bucket struct {
	Legs int64  `json:"legs"`
	Sum  string `json:"sum"`
}

// sealAccount is what an account opened with: as recorded, or as its balance and its
// legs imply.
type sealAccount struct {
	AccountID string `json:"account_id"`
	Currency  string `json:"currency"`
	Opening   string `json:"opening_minor"`
	Recorded  bool   `json:"recorded"`
}

// sealFinals is a line of fingerprints of the payouts that were final, base64 of
// big-endian 64-bit numbers.
type sealFinals struct {
	Finals string `json:"finals"`
}

// sealEnd is the last line: the SHA-256 of all before it.
type sealEnd struct {
	Digest   string `json:"sha256"`
	Accounts int64  `json:"accounts"`
	Finals   int64  `json:"finals"`
}

// sealWriter writes lines, and digests them.
type sealWriter struct {
	out *bufio.Writer
	sum hash.Hash
}

func newSealWriter(w io.Writer) *sealWriter {
	sum := sha256.New()
	return &sealWriter{out: bufio.NewWriter(io.MultiWriter(w, sum)), sum: sum}
}

func (w *sealWriter) line(v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode a line of the seal: %w", err)
	}
	if _, err := w.out.Write(append(text, '\n')); err != nil {
		return fmt.Errorf("write the seal: %w", err)
	}
	return nil
}

// digest is of everything written so far.
func (w *sealWriter) digest() (string, error) {
	if err := w.out.Flush(); err != nil {
		return "", fmt.Errorf("write the seal: %w", err)
	}
	return hex.EncodeToString(w.sum.Sum(nil)), nil
}

// seal writes one, from the snapshot of the run that it closes.
func (r *run) seal(ctx context.Context, rd reading, outcome Outcome) error {
	header := sealHeader{
		Kind: sealKind, Version: sealVersion, RunID: r.id, By: r.o.Seal.By, At: r.pay.facts.At, Outcome: outcome, Baseline: r.o.Seal.Baseline,
		SystemIdentifier: r.pay.facts.SystemIdentifier, Timeline: r.pay.facts.Timeline, Database: r.pay.facts.Database, Schema: r.pay.facts.Schema, LastToken: r.last,
	}
	err := rd.pay.QueryRow(ctx, sealFactsQuery).Scan(&header.Snapshot, &header.HighestFence, &header.HighestMark, &header.HighestClaim)
	if err != nil {
		return fmt.Errorf("read what to seal: %w", err)
	}
	if header.Buckets, err = digestLegs(ctx, rd.pay, header.Snapshot, nil); err != nil {
		return err
	}
	if p := r.o.Previous; p != nil && p.since && p.comparable(r.pay.facts) {
		header.Runs = p.Runs + 1
		if err := p.carry(ctx, rd.pay, header.Buckets); err != nil {
			return err
		}
	}
	w := newSealWriter(r.o.Seal.To)
	if err := w.line(header); err != nil {
		return err
	}
	var end sealEnd
	if end.Accounts, err = w.accounts(ctx, rd.pay); err != nil {
		return err
	}
	if end.Finals, err = w.finals(ctx, rd.pay); err != nil {
		return err
	}
	if end.Digest, err = w.digest(); err != nil {
		return err
	}
	if err := w.line(end); err != nil {
		return err
	}
	if err := w.out.Flush(); err != nil {
		return fmt.Errorf("write the seal: %w", err)
	}
	return nil
}

func (w *sealWriter) accounts(ctx context.Context, tx pgx.Tx) (n int64, err error) {
	rows, err := tx.Query(ctx, sealAccountsQuery)
	if err != nil {
		return 0, fmt.Errorf("read the openings to seal: %w", err)
	}
	var a sealAccount
	_, err = pgx.ForEachRow(rows, []any{&a.AccountID, &a.Currency, &a.Opening, &a.Recorded}, func() error {
		n++
		return w.line(a)
	})
	if err != nil {
		return 0, fmt.Errorf("read the openings to seal: %w", err)
	}
	return n, nil
}

func (w *sealWriter) finals(ctx context.Context, tx pgx.Tx) (n int64, err error) {
	rows, err := tx.Query(ctx, sealFinalsQuery)
	if err != nil {
		return 0, fmt.Errorf("read the final payouts to seal: %w", err)
	}
	var packed []byte
	flush := func() error {
		if len(packed) == 0 {
			return nil
		}
		err := w.line(sealFinals{base64.StdEncoding.EncodeToString(packed)})
		packed = packed[:0]
		return err
	}
	var fingerprint int64
	_, err = pgx.ForEachRow(rows, []any{&fingerprint}, func() error {
		n++
		packed = binary.BigEndian.AppendUint64(packed, uint64(fingerprint)) //nolint:gosec // 64 bits are 64 bits
		if len(packed) == 8*finalsPerLine {
			return flush()
		}
		return nil
	})
	if err != nil {
		return 0, fmt.Errorf("read the final payouts to seal: %w", err)
	}
	return n, flush()
}

// carry puts what the earlier seal says of its legs in the place of what they are now,
// and leaves what was added since: one run in a chain looks at one bucket, and a leg
// that was changed in another must still differ when its turn comes.
func (p *Previous) carry(ctx context.Context, tx pgx.Tx, buckets []bucket) error {
	now, err := digestLegs(ctx, tx, p.Snapshot, nil)
	if err != nil {
		return err
	}
	for i, then := range p.Buckets {
		sum, _ := new(big.Int).SetString(buckets[i].Sum, 10)
		for sign, text := range map[int64]string{1: then.Sum, -1: now[i].Sum} {
			n, _ := new(big.Int).SetString(text, 10) // read as a number before
			sum.Add(sum, n.Mul(n, big.NewInt(sign)))
		}
		buckets[i] = bucket{Legs: buckets[i].Legs + then.Legs - now[i].Legs, Sum: sum.String()}
	}
	return nil
}

// digestLegs digests the legs that the sealed snapshot saw: all buckets, or one.
func digestLegs(ctx context.Context, tx pgx.Tx, snapshot string, only *int) ([]bucket, error) {
	sealed, err := parseSnapshot(snapshot)
	if err != nil {
		return nil, err
	}
	args := sealed.args()
	args["buckets"], args["bucket"] = SealBuckets, only
	rows, err := tx.Query(ctx, sealLegsQuery, args)
	if err != nil {
		return nil, fmt.Errorf("digest the sealed legs: %w", err)
	}
	buckets := make([]bucket, SealBuckets)
	for i := range buckets {
		buckets[i].Sum = "0"
	}
	var i int
	var b bucket
	_, err = pgx.ForEachRow(rows, []any{&i, &b.Legs, &b.Sum}, func() error {
		buckets[i] = b
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("digest the sealed legs: %w", err)
	}
	return buckets, nil
}

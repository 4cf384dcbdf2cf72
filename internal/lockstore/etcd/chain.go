package etcd

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/dlockctl/dlockctl/internal/lockstore"
)

// chain is a list that is only added to (K-3.6): records numbered from 1 without a
// gap, each with the hash of the one before. Its head is compared in the transaction
// that adds, so that two who add at once do so one after the other. etcd has nobody
// who may add and not rewrite; whoever rewrites has to rewrite all that follows, and
// an export holds what it was.
type chain string

// The chains: revocations, and what operators did to the whole store.
const (
	auditChain chain = "audit"
	logChain   chain = "log"
)

func (k keys) links(c chain) string          { return k.prefix + string(c) + "/" }
func (k keys) link(c chain, id int64) string { return k.links(c) + number(id) }
func (k keys) head(c chain) string           { return k.meta(string(c)) }

// link is one record of a chain as its key holds it.
type link struct {
	Previous string          `json:"previous_hash"`
	Hash     string          `json:"hash"`
	Record   json.RawMessage `json:"record"`
}

func linkHash(id int64, previous string, record []byte) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%d\n%s\n%s", id, previous, record))
	return hex.EncodeToString(sum[:])
}

// end is the last link of a chain: its number, and its hash.
type end struct {
	ID   int64  `json:"id"`
	Hash string `json:"hash"`
}

// appender adds records to a chain within one transaction.
type appender struct {
	keys  keys
	chain chain
	end   end
	// seen is the head's ModRevision, 0 for a chain without records.
	seen int64
	puts []clientv3.Op
}

// appendTo begins to add to a chain whose head was read as kv.
func (k keys) appendTo(c chain, kv *mvccpb.KeyValue) (*appender, error) {
	a := &appender{keys: k, chain: c}
	if kv == nil {
		return a, nil
	}
	a.seen = kv.ModRevision
	return a, decode(kv, &a.end)
}

// add puts a record at the end and returns its number.
func (a *appender) add(record any) int64 {
	text := encode(record)
	id := a.end.ID + 1
	next := link{Previous: a.end.Hash, Hash: linkHash(id, a.end.Hash, []byte(text)), Record: json.RawMessage(text)}
	a.puts = append(a.puts, clientv3.OpPut(a.keys.link(a.chain, id), encode(next)))
	a.end = end{id, next.Hash}
	return id
}

// nested is how many operations stand in one at the outer level. etcd allows 128 on
// each way down: with perTxn locks above there are a dozen left.
const nested = 12

// into makes the records part of a transaction.
func (a *appender) into(t *txn) {
	t.compare = append(t.compare, unchanged(a.keys.head(a.chain), a.seen))
	t.then = append(t.then, clientv3.OpPut(a.keys.head(a.chain), encode(a.end)))
	for puts := range slices.Chunk(a.puts, nested) {
		t.then = append(t.then, clientv3.OpTxn(nil, puts, nil))
	}
}

// records walks along a chain, from the number from on or from the newest back.
func (k keys) records(c chain, from int64, newestFirst bool) *walk {
	return &walk{first: k.link(c, from), last: clientv3.GetPrefixRangeEnd(k.links(c)), newestFirst: newestFirst}
}

// links reads a chain until tell says that it has enough.
func (s *Store) links(ctx context.Context, doing string, c chain, w *walk, tell func(id int64, kv *mvccpb.KeyValue, l link) (bool, error)) error {
	return s.walk(ctx, doing, w, func(kv *mvccpb.KeyValue) (bool, error) {
		id, err := numberAfter(s.keys.links(c), kv)
		if err != nil {
			return false, err
		}
		var l link
		if err := decode(kv, &l); err != nil {
			return false, err
		}
		return tell(id, kv, l)
	})
}

// verifyChain names the first link that is missing or not what was written, and counts
// the records.
func (s *Store) verifyChain(ctx context.Context, doing string, c chain, name string) (records int64, findings []lockstore.AuditFinding, err error) {
	found := func(id string, at int64, what string) {
		if len(findings) == 0 {
			findings = append(findings, lockstore.AuditFinding{ID: id, Where: fmt.Sprintf("%s %d", name, at), What: what})
		}
	}
	const missing, rewritten = "the record before it is missing", "its hash, or the hash of the record before it, is not what was written"
	var last end
	w := s.keys.records(c, 0, false)
	err = s.links(ctx, doing, c, w, func(id int64, _ *mvccpb.KeyValue, l link) (bool, error) {
		records++
		switch {
		case id != last.ID+1:
			found("chain_gap", id, missing)
		case l.Previous != last.Hash, l.Hash != linkHash(id, l.Previous, l.Record):
			found("chain_broken", id, rewritten)
		}
		last = end{id, l.Hash}
		return true, nil
	})
	if err != nil {
		return 0, nil, err
	}
	head, err := s.headAt(ctx, doing, c, w.revision)
	switch {
	case err != nil:
		return 0, nil, err
	case head.ID > last.ID:
		found("chain_gap", head.ID, "the last record is missing")
	case head != last:
		found("chain_broken", last.ID, "the head of the chain does not name it as the last record")
	}
	return records, findings, nil
}

// headAt reads the head of a chain at the revision at which its records were read.
func (s *Store) headAt(ctx context.Context, doing string, c chain, revision int64) (end, error) {
	var head end
	got, err := s.read(ctx, doing, clientv3.OpGet(s.keys.head(c), clientv3.WithRev(revision)))
	if err != nil || got.kv(0) == nil {
		return head, err
	}
	return head, decode(got.kv(0), &head)
}

package plant

import (
	"encoding/binary"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5/pgtype"
)

// The past is a row of steps, one payout each, going round all accounts. A step
// has a slot of its own in time and in tokens, so that tokens and times rise
// together. Most payouts use one token, in the middle of the slot: faults find
// free ones on both sides.
const (
	step       = 10 * time.Second
	slot       = 8
	inSlot     = 4
	firstToken = 1000
	// shards is how many clearing accounts a currency has, as in the seed (K-9.4).
	shards = 4
	// plainEnd is how many payouts of an account, the last ones, go without an
	// incident: faults are planted on those.
	plainEnd = 3
	// raisedEvery is the distance of the accounts whose fence was raised by hand.
	raisedEvery, raisedAt = 32, 7
)

var currencies = [...]string{"EUR", "USD", "GBP"}

// history computes any payout of the past from its number alone, so that millions
// need no memory.
type history struct {
	Params
	// now is paydb's clock when the world was made.
	now     time.Time
	workers [16]string
}

func newHistory(p Params, now time.Time) *history {
	h := &history{Params: p, now: now.UTC().Truncate(time.Second)}
	for i := range h.workers {
		h.workers[i] = fmt.Sprintf("executor-%02d", i+1)
	}
	return h
}

// steps is how long the past is: the payouts, then one step per account for what
// an operator did to it, then the open payouts.
func (h *history) steps() int { return h.Payouts + h.Accounts + h.openPayouts() }

func (h *history) openPayouts() int { return h.Open * len(openStates) }

// at is when a step begins. The past ends two days ago: nothing in it is in flight.
func (h *history) at(n int) time.Time {
	return h.now.Add(-48*time.Hour - time.Duration(h.Payouts+h.Accounts-n)*step)
}

func (h *history) token(n int) int64 { return firstToken + int64(n)*slot + inSlot }

// lastToken leaves a gap above what was used, as rolled back grants do.
func (h *history) lastToken() int64 { return h.token(h.steps()) + 100 }

func (h *history) payoutsOf(account int) int {
	n := h.Payouts / h.Accounts
	if account < h.Payouts%h.Accounts {
		n++
	}
	return n
}

func (h *history) nth(account, k int) int { return k*h.Accounts + account }

func (h *history) raised(account int) bool { return account%raisedEvery == raisedAt }

func (h *history) currency(account int) int { return account % len(currencies) }

// What a number is drawn for.
const (
	drawAccount = iota + 1
	drawOpening
	drawPayout
	drawDebit
	drawCredit
	drawAttempt
	drawFenced
	drawAmount
	drawKind
	drawWorker
	drawSession
	drawScene
)

func bits(n int) uint64 { return uint64(n) } //nolint:gosec // nothing is counted below zero

// draw is a number that looks random and depends on the seed alone (splitmix64).
func (h *history) draw(what, n int) uint64 {
	x := h.Seed + bits(what)*0xd1342543de82ef95 + bits(n)*0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// scattered is an id without an order, as accounts have it.
func (h *history) scattered(what, n int) pgtype.UUID {
	var id [16]byte
	binary.BigEndian.PutUint64(id[:8], h.draw(what, 2*n))
	binary.BigEndian.PutUint64(id[8:], h.draw(what, 2*n+1))
	return marked(id, 4)
}

// rising is an id that rises with the step, as UUIDv7 does: indexes grow at their
// right end.
func (h *history) rising(what, n int) pgtype.UUID {
	var id [16]byte
	binary.BigEndian.PutUint64(id[:8], bits(n)<<16)
	binary.BigEndian.PutUint64(id[8:], h.draw(what, n))
	return marked(id, 8)
}

func marked(id [16]byte, version byte) pgtype.UUID {
	id[6] = id[6]&0x0f | version<<4
	id[8] = id[8]&0x3f | 0x80
	return pgtype.UUID{Bytes: id, Valid: true}
}

func (h *history) accountID(account int) pgtype.UUID { return h.scattered(drawAccount, account) }

// clearingID is the seed's own account of the shard.
func clearingID(currency, shard int) pgtype.UUID {
	id := [16]byte{6: 0x40, 8: 0x90}
	// Twelve decimal digits, not a number.
	digits := fmt.Sprintf("%012d", shards*currency+shard)
	for i := range 6 {
		id[10+i] = (digits[2*i]-'0')<<4 | (digits[2*i+1] - '0')
	}
	return pgtype.UUID{Bytes: id, Valid: true}
}

func (h *history) sessionID(worker string) pgtype.UUID {
	for i, name := range h.workers {
		if name == worker {
			return h.scattered(drawSession, i)
		}
	}
	return h.scattered(drawSession, len(h.workers))
}

// amount differs among the payouts of an account, the first 900 at least: an
// amount that is missing names its payout.
func (h *history) amount(n int) int64 {
	return int64(h.draw(drawAmount, n)%2000)*1000 + 100 + int64(n/h.Accounts)%900
}

func key(n int) string { return "payout-" + strconv.Itoa(n) }

func reference(n int) string { return "rail-" + strconv.Itoa(n) }

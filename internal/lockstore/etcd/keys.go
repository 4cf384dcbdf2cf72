package etcd

import (
	"fmt"
	"net/url"
	"strings"

	"github.com/dlockctl/dlockctl/internal/lockstore"
)

// DefaultPrefix is where the store keeps everything, unless told otherwise.
const DefaultPrefix = "dlockctl/"

// keys names what the store keeps, all of it under one prefix that ends in a
// slash:
//
//	lock/KEY           the grant that stands, or has lapsed; its ModRevision is the token
//	session/ID         a session's record, until it is ended or reaped
//	alive/ID           is there exactly as long as the session lives: it hangs on the lease
//	held/ID/KEY        which locks hang on a session
//	queue/KEY/ID/NONCE who waits for a lock, in order of CreateRevision; hangs on a lease of its own
//	grant/TOKEN        the journal: a grant that has ended, and how
//	audit/N, log/N     revocations and the operator log
//	meta/NAME          the heads of these two chains, the gate, the floor
//
// KEY is escaped, so that it has no slash and no two keys share a name; N and
// TOKEN are decimal in a fixed width, so that they sort as numbers.
type keys struct{ prefix string }

func newKeys(prefix string) (keys, error) {
	if prefix == "" {
		prefix = DefaultPrefix
	}
	if err := lockstore.LookupText("prefix", prefix); err != nil {
		return keys{}, err
	}
	if strings.HasPrefix(prefix, "\x00") || len(prefix) > lockstore.MaxKeyBytes {
		return keys{}, fmt.Errorf("%w: the prefix of the etcd keys has %d bytes; give at most %d", lockstore.ErrInvalid, len(prefix), lockstore.MaxKeyBytes)
	}
	return keys{strings.TrimSuffix(prefix, "/") + "/"}, nil
}

func (k keys) locks() string          { return k.prefix + "lock/" }
func (k keys) lock(key string) string { return k.locks() + escape(key) }

func (k keys) sessions() string                               { return k.prefix + "session/" }
func (k keys) session(id lockstore.SessionID) string          { return k.sessions() + string(id) }
func (k keys) alives() string                                 { return k.prefix + "alive/" }
func (k keys) alive(id lockstore.SessionID) string            { return k.alives() + string(id) }
func (k keys) helds() string                                  { return k.prefix + "held/" }
func (k keys) heldBy(id lockstore.SessionID) string           { return k.helds() + string(id) + "/" }
func (k keys) held(id lockstore.SessionID, key string) string { return k.heldBy(id) + escape(key) }

func (k keys) queues() string          { return k.prefix + "queue/" }
func (k keys) queue(key string) string { return k.queues() + escape(key) + "/" }
func (k keys) waiter(key string, id lockstore.SessionID) string {
	return k.queue(key) + string(id)
}

func (k keys) grants() string                     { return k.prefix + "grant/" }
func (k keys) grant(token lockstore.Token) string { return k.grants() + number(int64(token)) }

func (k keys) meta(name string) string { return k.prefix + "meta/" + name }
func (k keys) gate() string            { return k.meta("gate") }
func (k keys) floor() string           { return k.meta("floor") }

// numberWidth holds every int64.
const numberWidth = 19

func number(n int64) string { return fmt.Sprintf("%0*d", numberWidth, n) }

const hexDigits = "0123456789ABCDEF"

// keyOf is the key of the lock that has this etcd key. One that escape did not make is no
// lock's, and stands for itself, so that it is taken for no lock of ours.
func (k keys) keyOf(name string) string {
	key, err := url.PathUnescape(strings.TrimPrefix(name, k.locks()))
	if err != nil || k.lock(key) != name {
		return name
	}
	return key
}

// escape writes each byte that is not a printable ASCII letter, and the slash and
// the percent sign, as %XX. Each byte stands for itself alone, so that a prefix of a
// key is a prefix of its name, and a key is the only one with its name.
func escape(key string) string {
	var b strings.Builder
	for i := range len(key) {
		c := key[i]
		if c > ' ' && c < 0x7f && c != '/' && c != '%' {
			b.WriteByte(c)
			continue
		}
		b.WriteByte('%')
		b.WriteByte(hexDigits[c>>4])
		b.WriteByte(hexDigits[c&0xf])
	}
	return b.String()
}

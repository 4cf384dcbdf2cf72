package etcd

import (
	"context"
	"errors"
	"fmt"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/dlockctl/dlockctl/internal/lockstore"
)

// Acquire tries once. Besides the errors of the package comment of lockstore it
// returns one that wraps ErrInvalid before anything is sent.
func (s *Store) Acquire(ctx context.Context, params lockstore.AcquireParams) (lockstore.Grant, error) {
	return s.acquire(ctx, acquisition{params: params})
}

// place is where a waiter stands in a queue.
type place struct {
	name string
	// since is its CreateRevision.
	since int64
	// lease is what it hangs on, kept when that was renewed last.
	lease clientv3.LeaseID
	kept  time.Time
}

// acquire does what a says: its params, and how it stands to a queue.
func (s *Store) acquire(ctx context.Context, a acquisition) (lockstore.Grant, error) {
	params := a.params
	if err := errors.Join(lockstore.ValidKey(params.Key), lockstore.ValidOwner(params.Owner), lockstore.ValidTTL(params.TTL), validSession(params.Session)); err != nil {
		return lockstore.Grant{}, err
	}
	a.Store, a.doing = s, fmt.Sprintf("acquire lock %q", params.Key)
	for range attempts {
		var err error
		if a.asked, err = s.admit(ctx); err != nil {
			return lockstore.Grant{}, err
		}
		grant, err := a.run(ctx)
		if _, unknown := errors.AsType[*lockstore.UnknownOutcomeError](err); unknown || !errors.Is(err, errReconnected) {
			return grant, err
		}
	}
	return lockstore.Grant{}, &lockstore.UnreachableError{Doing: a.doing, Err: errReconnected}
}

// acquisition is one try for a lock.
type acquisition struct {
	*Store
	params lockstore.AcquireParams
	doing  string
	// from is the place of a waiter whose turn it is; behind tells of one without that it
	// takes nothing from those who wait.
	from   *place
	behind bool
	// asked is what the grant's token must be above.
	asked lockstore.Token
	// seen is the entry that the grant is to replace: the caller's own, or one whose
	// session was seen to be over. Nil takes the key for free.
	seen *standing
}

// run takes the key for free, which is one transaction in one round trip when it is.
// Otherwise that transaction has read what is in the way, and the next one compares
// just this.
func (a *acquisition) run(ctx context.Context) (lockstore.Grant, error) {
	for range attempts {
		grant := lockstore.Grant{Key: a.params.Key, Owner: a.params.Owner, Session: a.params.Session, AcquiredAt: shown(now()), TTL: a.params.TTL, Sent: time.Now()}
		got, err := a.change(ctx, a.doing, a.txn(grant))
		if err != nil {
			return lockstore.Grant{}, err
		}
		if got.done {
			grant.Token = lockstore.Token(got.revision)
			return a.granted(ctx, grant, got)
		}
		if err := a.refusal(ctx, got); err != nil {
			return lockstore.Grant{}, err
		}
	}
	// Somebody else was faster each time.
	return lockstore.Grant{}, &lockstore.HeldError{Key: a.params.Key}
}

func (a *acquisition) record(grant lockstore.Grant) lockRecord {
	return lockRecord{Key: grant.Key, Owner: grant.Owner, Session: grant.Session, AcquiredAt: grant.AcquiredAt.Time}
}

// txn grants: under a session that is alive (K-2.3), through an open gate (K-7.4), on
// a key that is as it was seen. The floor is read in the same transaction.
func (a *acquisition) txn(grant lockstore.Grant) txn {
	k, p := a.keys, a.params
	t := txn{
		compare: []clientv3.Cmp{present(k.alive(p.Session)), k.gateIsOpen()},
		then: []clientv3.Op{
			clientv3.OpGet(k.floor()),
			clientv3.OpPut(k.lock(p.Key), encode(a.record(grant))),
			clientv3.OpPut(k.held(p.Session, p.Key), ""),
		},
		otherwise: []clientv3.Op{clientv3.OpGet(k.gate()), clientv3.OpGet(k.alive(p.Session)), clientv3.OpGet(k.lock(p.Key))},
	}
	switch {
	case a.from != nil:
		t.compare = append(t.compare, present(a.from.name))
		t.then = append(t.then, clientv3.OpDelete(a.from.name))
		t.otherwise = append(t.otherwise, clientv3.OpGet(a.from.name))
	case a.behind:
		t.compare = append(t.compare, nothingNewer(k.queue(p.Key), 0))
		t.otherwise = append(t.otherwise, clientv3.OpGet(k.queue(p.Key), clientv3.WithPrefix(), clientv3.WithCountOnly()))
	}
	if a.seen == nil {
		t.compare = append(t.compare, absent(k.lock(p.Key)))
		return t
	}
	t.compare = append(t.compare, k.stands(p.Key, a.seen.token))
	how := endReEntered
	if a.seen.Session != p.Session {
		how = endTakenOver
		t.compare = append(t.compare, absent(k.alive(a.seen.Session)))
		t.then = append(t.then, clientv3.OpDelete(k.held(a.seen.Session, p.Key)))
	}
	t.then = append(t.then, k.journal(*a.seen, how))
	return t
}

// refusal says why a transaction was not carried out; nil means that another is worth
// it, with what was seen now.
func (a *acquisition) refusal(ctx context.Context, got answer) error {
	gate, alive, kv := got.kv(0), got.kv(1), got.kv(2)
	if err := closed(gate); err != nil {
		return err
	}
	if alive == nil {
		return fmt.Errorf("%s: %w", a.doing, lockstore.ErrSessionLost)
	}
	a.seen = nil
	var seen standing
	if kv != nil {
		if seen = a.keys.readLock(kv); seen.odd != "" {
			return seen.unreadable()
		}
	}
	queued, notYet := got.count(3), &lockstore.HeldError{Key: a.params.Key}
	switch {
	case a.from != nil && queued == 0: // the place is gone, and with it the turn
		return notYet
	case kv != nil && seen.Owner == a.params.Owner && seen.Session == a.params.Session:
		a.seen, a.behind = &seen, false // whoever re-enters takes nothing from anybody
		return nil
	case kv == nil && a.behind && queued > 0:
		return notYet
	case kv == nil:
		return nil
	}
	entry, err := a.entry(ctx, a.doing, seen)
	switch {
	case err != nil:
		return err
	case entry.Expired && a.behind && queued > 0:
		return notYet
	case entry.Expired:
		a.seen = &seen // for good: no session comes back
		return nil
	}
	return &lockstore.HeldError{Key: entry.Key, Owner: entry.Owner, Token: entry.Token, ExpiresAt: entry.ExpiresAt, Remaining: entry.Remaining}
}

// granted judges a grant that the cluster has made, before anybody is told of it.
func (a *acquisition) granted(ctx context.Context, grant lockstore.Grant, got answer) (lockstore.Grant, error) {
	made := standing{lockRecord: a.record(grant), token: grant.Token}
	if err := a.guard(ctx, a.asked, grant.Token, got.kv(0)); err != nil {
		return lockstore.Grant{}, a.withheld(ctx, made, err)
	}
	a.grants.put(lockstore.GrantRef{Key: grant.Key, Token: grant.Token}, made)
	grant.ExpiresAt = shown(a.ends(ctx, grant))
	return grant, nil
}

// withheld gives back a grant that nobody is told of, whatever has become of the caller,
// and is the caller's answer. One that cannot be given back stands as long as its session,
// and the session's next try re-enters it (K-2.9).
func (a *acquisition) withheld(ctx context.Context, made standing, err error) error {
	kept := a.giveBack(context.WithoutCancel(ctx), made)
	closed, isClosed := errors.AsType[*lockstore.GrantsClosedError](err)
	switch {
	case isClosed && kept != nil:
		return &lockstore.GrantsClosedError{Reason: fmt.Sprintf("%s; the grant, which could not be given back, ends with its session: %v", closed.Reason, kept), Hint: closed.Hint}
	case isClosed:
		return closed
	case kept != nil:
		return &lockstore.UnknownOutcomeError{Doing: a.doing, Err: errors.Join(err, kept)}
	default:
		return fmt.Errorf("%s: %w", a.doing, err)
	}
}

// giveBack takes a grant away that nobody was told of.
func (s *Store) giveBack(ctx context.Context, made standing) error {
	_, err := s.change(ctx, fmt.Sprintf("give lock %q back", made.Key), txn{
		compare: []clientv3.Cmp{s.keys.asSeen(made)},
		then:    s.keys.end(made, endReleased),
	})
	return err
}

// ends tells people until when a grant is good at least. The lease behind it is asked
// about where it is not known to last: others may have renewed it.
func (a *acquisition) ends(ctx context.Context, grant lockstore.Grant) time.Time {
	if l, ok := a.leases.get(grant.Session); ok && l.until.After(grant.Sent) {
		return l.until
	}
	// The grant stands, whatever can be told of its end.
	l, err := a.findLife(ctx, a.doing, grant.Session)
	if err != nil {
		return grant.Sent.Add(grant.TTL)
	}
	left, err := a.remaining(ctx, a.doing, l.lease)
	if err != nil {
		return grant.Sent.Add(grant.TTL)
	}
	l.until = grant.Sent.Add(left)
	a.leases.put(grant.Session, l)
	return l.until
}

// journal writes a grant's end; its token is known by then.
func (k keys) journal(lock standing, how string) clientv3.Op {
	return clientv3.OpPut(k.grant(lock.token), encode(grantRecord{lock.lockRecord, now(), how}))
}

// end takes a grant away, in the lock table, on its session, and in the journal. What cannot
// be read was granted to nobody, and is in neither: two that one transaction of somebody
// else's wrote have one token, which one transaction cannot journal twice.
func (k keys) end(lock standing, how string) []clientv3.Op {
	if lock.odd != "" {
		return []clientv3.Op{clientv3.OpDelete(k.nameOf(lock))}
	}
	return []clientv3.Op{
		clientv3.OpDelete(k.nameOf(lock)),
		clientv3.OpDelete(k.held(lock.Session, lock.Key)),
		k.journal(lock, how),
	}
}

// find reads the grant of this very token, and whether it stands.
func (s *Store) find(ctx context.Context, doing, key string, token lockstore.Token) (standing, bool, error) {
	if lock, ok := s.grants.get(lockstore.GrantRef{Key: key, Token: token}); ok {
		return lock, true, nil
	}
	got, err := s.read(ctx, doing, clientv3.OpGet(s.keys.lock(key)))
	if err != nil || got.kv(0) == nil {
		return standing{}, false, err
	}
	lock := s.keys.readLock(got.kv(0))
	return lock, lock.token == token, nil
}

// Renew confirms the grant and extends its session to ttl from now, at least; the
// other locks of the session gain by it too.
func (s *Store) Renew(ctx context.Context, key string, token lockstore.Token, ttl time.Duration) (lockstore.Grant, error) {
	if err := errors.Join(lockstore.LookupKey(key), lockstore.ValidToken(token), lockstore.ValidTTL(ttl)); err != nil {
		return lockstore.Grant{}, err
	}
	doing := fmt.Sprintf("renew lock %q", key)
	grant := lockstore.Grant{Key: key, Token: token, TTL: ttl, Sent: time.Now()}
	lock, stood, err := s.find(ctx, doing, key, token)
	if err != nil {
		return lockstore.Grant{}, err
	}
	lost := fmt.Errorf("%s with token %s: %w", doing, token, lockstore.ErrLockLost)
	if !stood {
		return lockstore.Grant{}, lost
	}
	if lock.odd != "" {
		return lockstore.Grant{}, lock.unreadable()
	}
	l, err := s.extend(ctx, doing, lock.Session, ttl, s.keys.stands(key, token))
	switch {
	case errors.Is(err, errElse), errors.Is(err, lockstore.ErrSessionLost):
		s.grants.forget(lockstore.GrantRef{Key: key, Token: token})
		return lockstore.Grant{}, lost
	case err != nil:
		return lockstore.Grant{}, err
	}
	grant.ExpiresAt = shown(l.until)
	return grant, nil
}

// Release deletes the grant of this very token, or answers Stale. One whose answer was
// lost may be repeated for ever (K-2.7).
func (s *Store) Release(ctx context.Context, key string, token lockstore.Token) (lockstore.Release, error) {
	if err := errors.Join(lockstore.LookupKey(key), lockstore.ValidToken(token)); err != nil {
		return lockstore.Release{}, err
	}
	doing := fmt.Sprintf("release lock %q", key)
	release := lockstore.Release{Key: key, Token: token, Stale: true}
	lock, stood, err := s.find(ctx, doing, key, token)
	if err != nil {
		return lockstore.Release{}, err
	}
	if !stood {
		return release, nil
	}
	if lock.odd != "" { // nobody holds it, and a release leaves no audit record
		return lockstore.Release{}, lock.unreadable()
	}
	got, err := s.change(ctx, doing, txn{compare: []clientv3.Cmp{s.keys.stands(key, token)}, then: s.keys.end(lock, endReleased)})
	if err != nil {
		return lockstore.Release{}, err
	}
	s.grants.forget(lockstore.GrantRef{Key: key, Token: token})
	release.Stale = !got.done
	return release, nil
}

// AcquireBatch is not to be had: all keys of one etcd transaction share its revision,
// and two grants one token (K-1.3).
func (s *Store) AcquireBatch(context.Context, []lockstore.AcquireParams) ([]lockstore.AcquireResult, error) {
	return nil, fmt.Errorf("acquire a batch of locks in one transaction: %w", lockstore.ErrUnsupported)
}

// ReleaseBatch is not to be had either: what cannot be acquired so is not.
func (s *Store) ReleaseBatch(context.Context, []lockstore.GrantRef) ([]lockstore.Release, error) {
	return nil, fmt.Errorf("release a batch of locks in one transaction: %w", lockstore.ErrUnsupported)
}

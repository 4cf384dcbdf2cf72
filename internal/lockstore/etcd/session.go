package etcd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/sync/errgroup"

	"github.com/dlockctl/dlockctl/internal/lockstore"
)

// CreateSession opens a session under an id made here, at random: it is a secret
// (K-2.12).
func (s *Store) CreateSession(ctx context.Context, owner string, ttl time.Duration) (lockstore.Session, error) {
	if err := errors.Join(lockstore.ValidOwner(owner), lockstore.ValidTTL(ttl)); err != nil {
		return lockstore.Session{}, err
	}
	id, err := uuid.NewRandom()
	if err != nil {
		return lockstore.Session{}, fmt.Errorf("make a session id: %w", err)
	}
	const doing = "create session"
	session := lockstore.Session{ID: lockstore.SessionID(id.String()), Owner: owner, CreatedAt: shown(now()), Remaining: ttl, Sent: time.Now()}
	l, err := s.grantLease(ctx, doing, ttl)
	if err != nil {
		return lockstore.Session{}, err
	}
	got, err := s.change(ctx, doing, txn{
		compare: []clientv3.Cmp{absent(s.keys.session(session.ID))},
		then: []clientv3.Op{
			clientv3.OpPut(s.keys.session(session.ID), encode(sessionRecord{Owner: owner, CreatedAt: session.CreatedAt.Time})),
			s.keys.hang(session.ID, l),
		},
	})
	if err != nil {
		return lockstore.Session{}, err
	}
	if !got.done {
		return lockstore.Session{}, fmt.Errorf("%s: the id %s is taken", doing, session.ID.Masked())
	}
	l.mod = got.revision
	s.leases.put(session.ID, l)
	session.ExpiresAt = shown(l.until)
	return session, nil
}

// Heartbeat extends a live session, never shortens it (K-2.10): a lease granted for
// longer is renewed to its own length.
func (s *Store) Heartbeat(ctx context.Context, id lockstore.SessionID, ttl time.Duration) (lockstore.Session, error) {
	if err := errors.Join(lockstore.ValidTTL(ttl), validSession(id)); err != nil {
		return lockstore.Session{}, err
	}
	doing := "heartbeat session " + id.Masked()
	session := lockstore.Session{ID: id, Remaining: ttl, Sent: time.Now()}
	l, err := s.extend(ctx, doing, id, ttl)
	if err != nil {
		if errors.Is(err, lockstore.ErrSessionLost) {
			return lockstore.Session{}, fmt.Errorf("%s: %w", doing, err)
		}
		return lockstore.Session{}, err
	}
	session.ExpiresAt = shown(l.until)
	return session, nil
}

// EndSession ends a session in one transaction, which frees its locks, and then takes
// their entries away as the reaper would. An error beside a count came after the
// session had ended.
func (s *Store) EndSession(ctx context.Context, id lockstore.SessionID) (int, error) {
	if err := validSession(id); err != nil {
		return 0, err
	}
	doing := "end session " + id.Masked()
	got, err := s.change(ctx, doing, txn{
		compare: []clientv3.Cmp{present(s.keys.session(id))},
		then: []clientv3.Op{
			clientv3.OpGet(s.keys.heldBy(id), clientv3.WithPrefix(), clientv3.WithCountOnly()),
			clientv3.OpDelete(s.keys.alive(id), clientv3.WithPrevKV()),
		},
	})
	if err != nil {
		return 0, err
	}
	if !got.done {
		return 0, fmt.Errorf("%s: %w", doing, lockstore.ErrNotFound)
	}
	s.leases.forget(id)
	locks := got.count(0)
	if before := got.replies[1].GetResponseDeleteRange().GetPrevKvs(); len(before) > 0 {
		s.dropLease(ctx, clientv3.LeaseID(before[0].Lease))
	}
	_, err = s.sweep(ctx, doing, id)
	return locks, err
}

// ReapSessions takes away at most limit sessions whose lease is over, with their locks,
// which have been free since then.
func (s *Store) ReapSessions(ctx context.Context, limit int) (lockstore.Reaped, error) {
	if limit < 1 {
		return lockstore.Reaped{}, fmt.Errorf("limit %d: at least one session is reaped at a time: %w", limit, lockstore.ErrInvalid)
	}
	const doing = "reap sessions"
	if none, err := s.noneLapsed(ctx, doing); err != nil || none {
		return lockstore.Reaped{}, err
	}
	got, err := s.read(ctx, doing,
		clientv3.OpGet(s.keys.sessions(), clientv3.WithPrefix(), clientv3.WithKeysOnly()),
		clientv3.OpGet(s.keys.alives(), clientv3.WithPrefix(), clientv3.WithKeysOnly()))
	if err != nil {
		return lockstore.Reaped{}, err
	}
	alive := make(map[string]bool)
	for _, kv := range got.kvs(1) {
		alive[strings.TrimPrefix(string(kv.Key), s.keys.alives())] = true
	}
	var reaped lockstore.Reaped
	for _, kv := range got.kvs(0) {
		id := strings.TrimPrefix(string(kv.Key), s.keys.sessions())
		if alive[id] || reaped.Sessions == limit {
			continue
		}
		locks, err := s.sweep(ctx, doing, lockstore.SessionID(id))
		reaped.Locks += locks
		if err != nil {
			return reaped, err
		}
		reaped.Sessions++
	}
	return reaped, nil
}

// readAllEvery is how many looks of the reaper there are to one that reads every session,
// whatever their number says: five minutes of a lock-server's looks.
const readAllEvery = 300

// noneLapsed tells that every session is alive, by two numbers in place of two lists as
// long as there are sessions: the key that says so of a session is written with its record
// and never outlives it. Where somebody's hand has taken a record away, the numbers hide
// one that has lapsed: now and then, and at first, the lists are read all the same.
func (s *Store) noneLapsed(ctx context.Context, doing string) (bool, error) {
	if (s.reaperLooks.Add(1)-1)%readAllEvery == 0 {
		return false, nil
	}
	got, err := s.read(ctx, doing,
		clientv3.OpGet(s.keys.sessions(), clientv3.WithPrefix(), clientv3.WithCountOnly()),
		clientv3.OpGet(s.keys.alives(), clientv3.WithPrefix(), clientv3.WithCountOnly()))
	return err == nil && got.count(0) <= got.count(1), err
}

// Session returns one session, or ErrNotFound.
func (s *Store) Session(ctx context.Context, id lockstore.SessionID) (lockstore.Session, error) {
	if err := validSession(id); err != nil {
		return lockstore.Session{}, err
	}
	doing := "show session " + id.Masked()
	got, err := s.read(ctx, doing, clientv3.OpGet(s.keys.session(id)), clientv3.OpGet(s.keys.alive(id)),
		clientv3.OpGet(s.keys.heldBy(id), clientv3.WithPrefix(), clientv3.WithCountOnly()))
	if err != nil {
		return lockstore.Session{}, err
	}
	if got.kv(0) == nil {
		return lockstore.Session{}, fmt.Errorf("session %s: %w", id.Masked(), lockstore.ErrNotFound)
	}
	if _, odd := readSession(got.kv(0)); odd != nil {
		return lockstore.Session{}, &lockstore.UnsafeError{
			Clause: "K-10.1", Problem: fmt.Sprintf("session %s has a value in etcd that cannot be read: %v", id.Masked(), odd),
			Fix: "find out who wrote it, then end the session with its locks: dlockctl session end ID",
		}
	}
	return s.session(ctx, doing, id, got.kv(0), got.kv(1), got.count(2))
}

func (s *Store) session(ctx context.Context, doing string, id lockstore.SessionID, kv, alive *mvccpb.KeyValue, locks int) (lockstore.Session, error) {
	record, odd := readSession(kv)
	session := lockstore.Session{ID: id, Owner: record.Owner, Locks: locks}
	if odd == nil {
		session.CreatedAt = shown(record.CreatedAt)
	}
	left, err := s.lifeLeft(ctx, doing, id, alive)
	if err != nil {
		return lockstore.Session{}, err
	}
	session.Remaining = left
	if session.Remaining > 0 {
		session.ExpiresAt = s.expiry(id, session.Remaining)
	} else {
		session.ExpiresAt = s.ended(id, record.CreatedAt)
	}
	return session, nil
}

// Sessions lists sessions by creation, one whose value cannot be read without an owner.
// What is left of each is a question of its own.
func (s *Store) Sessions(ctx context.Context, filter lockstore.SessionFilter) ([]lockstore.Session, error) {
	if err := lockstore.LookupText("owner", filter.Owner); err != nil {
		return nil, err
	}
	const doing = "list sessions"
	got, err := s.read(ctx, doing,
		clientv3.OpGet(s.keys.sessions(), clientv3.WithPrefix()),
		clientv3.OpGet(s.keys.alives(), clientv3.WithPrefix()),
		clientv3.OpGet(s.keys.helds(), clientv3.WithPrefix(), clientv3.WithKeysOnly()))
	if err != nil {
		return nil, err
	}
	alive := s.aliveByID(got.kvs(1))
	locks := make(map[lockstore.SessionID]int)
	for _, kv := range got.kvs(2) {
		id, _, _ := strings.Cut(strings.TrimPrefix(string(kv.Key), s.keys.helds()), "/")
		locks[lockstore.SessionID(id)]++
	}
	found := got.kvs(0)
	slices.SortFunc(found, func(a, b *mvccpb.KeyValue) int { return cmp.Compare(a.CreateRevision, b.CreateRevision) })
	var chosen []*mvccpb.KeyValue
	for _, kv := range found {
		record, _ := readSession(kv)
		over := alive[s.sessionID(kv)] == nil
		if filter.Owner != "" && record.Owner != filter.Owner || filter.Expired && !over {
			continue
		}
		if chosen = append(chosen, kv); len(chosen) == filter.Limit {
			break
		}
	}
	sessions := make([]lockstore.Session, len(chosen))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(atOnce)
	for i, kv := range chosen {
		group.Go(func() (err error) {
			id := s.sessionID(kv)
			sessions[i], err = s.session(ctx, doing, id, kv, alive[id], locks[id])
			return err
		})
	}
	return sessions, group.Wait()
}

// atOnce bounds how many questions about leases are under way: etcd has no way to ask
// for many in one.
const atOnce = 16

func (s *Store) sessionID(kv *mvccpb.KeyValue) lockstore.SessionID {
	return lockstore.SessionID(strings.TrimPrefix(string(kv.Key), s.keys.sessions()))
}

func (s *Store) aliveByID(kvs []*mvccpb.KeyValue) map[lockstore.SessionID]*mvccpb.KeyValue {
	alive := make(map[lockstore.SessionID]*mvccpb.KeyValue, len(kvs))
	for _, kv := range kvs {
		alive[lockstore.SessionID(strings.TrimPrefix(string(kv.Key), s.keys.alives()))] = kv
	}
	return alive
}

// validSession refuses what no session of this store is called; the error shows the id
// masked, for it is a secret (K-2.12).
func validSession(id lockstore.SessionID) error {
	if _, err := uuid.Parse(string(id)); err != nil || len(id) != 36 || strings.ToLower(string(id)) != string(id) {
		return fmt.Errorf("%w: session id %q is not one; give the id that acquire or session create printed", lockstore.ErrInvalid, id.Masked())
	}
	return nil
}

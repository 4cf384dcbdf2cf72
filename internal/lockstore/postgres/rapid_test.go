package postgres_test

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/dlockctl/dlockctl/internal/lockstore"
)

// machine plays sessions, locks and revocation one call at a time against lockdb
// and against what a reader of the contract would expect, and compares all that
// can be listed after each.
type machine struct {
	t        *testing.T
	b        bundle
	sessions map[lockstore.SessionID]*expectedSession
	entries  map[string]*expectedEntry
	audit    []expectedAudit
	before   int64
	high     lockstore.Token
	// old are tokens that were once issued, with their keys.
	old []lockstore.GrantRef
	// seen counts what happened in all runs: what never happens proves nothing.
	seen map[string]int
}

type expectedSession struct {
	Owner  string
	Lapsed bool
}

type expectedEntry struct {
	Key     string
	Token   lockstore.Token
	Owner   string
	Session lockstore.SessionID
	Expired bool
}

type expectedAudit struct {
	Key   string
	Owner string
	Token lockstore.Token
}

// Whatever the order of calls, lockdb holds what the contract says, and each call
// is answered so.
//
// Clauses: K-2.2, K-2.3, K-2.4, K-2.6, K-2.7, K-3.1, K-3.4, K-3.5
// Mutation: leave the audit row out of endSession, or the cascade out of the
// reaper's DELETE.
func TestSessionsAndRevocation(t *testing.T) {
	t.Parallel()
	b := setup(t, 16)
	enough, seen := over(soak(t)), make(map[string]int)
	for run := 0; run < 2 || !enough(); run++ {
		rapid.Check(t, func(r *rapid.T) {
			m := newMachine(t, b, seen)
			for _, owner := range []string{"alice", "bob", "bob"} {
				m.sessions[b.session(t, owner)] = &expectedSession{Owner: owner}
			}
			r.Repeat(map[string]func(*rapid.T){
				"": m.compare, "create session": m.createSession, "end session": m.endSession, "heartbeat": m.heartbeat, "a session lapses": m.lapseSession,
				"reap": m.reap, "acquire": m.acquire, "acquire again": m.acquire, "acquire once more": m.acquire, "acquire a batch": m.acquireBatch,
				"renew": m.renew, "release": m.release, "a lease lapses": m.lapseLease, "revoke": m.revoke, "revoke again": m.revoke, "revoke many": m.revokeMany, "prune": m.prune,
			})
		})
	}
	t.Logf("seen: %v", seen)
	for _, what := range []string{
		"granted", "held", "re-entered", "taken over", "session lost", "renewed", "renewal lost", "released", "stale", "revoked",
		"revoked others with the session", "moved", "not held", "revoked many", "count moved", "reaped locks", "ended with locks", "pruned", "heartbeat lost",
	} {
		if seen[what] == 0 {
			t.Errorf("it never happened: %s", what)
		}
	}
}

func newMachine(t *testing.T, b bundle, seen map[string]int) *machine {
	t.Helper()
	b.exec(t, `DELETE FROM lock_session`)
	m := &machine{t: t, b: b, sessions: make(map[lockstore.SessionID]*expectedSession), entries: make(map[string]*expectedEntry), seen: seen}
	if err := b.super.QueryRow(t.Context(), `SELECT coalesce(max(id), 0) FROM lock_revocation`).Scan(&m.before); err != nil {
		t.Fatal(err)
	}
	return m
}

func (m *machine) saw(what string, happened bool) {
	if happened {
		m.seen[what]++
	}
}

// compare lists everything.
func (m *machine) compare(r *rapid.T) {
	entries, err := m.b.store.List(m.t.Context(), lockstore.Filter{})
	if err != nil {
		r.Fatal(err)
	}
	got := map[string]*expectedEntry{}
	for _, e := range entries {
		got[e.Key] = &expectedEntry{e.Key, e.Token, e.Owner, e.Session, e.Expired}
	}
	if diff := gocmp.Diff(m.entries, got); diff != "" {
		r.Fatalf("entries (-want +got):\n%s", diff)
	}
	sessions, err := m.b.store.Sessions(m.t.Context(), lockstore.SessionFilter{})
	if err != nil {
		r.Fatal(err)
	}
	gotSessions := map[lockstore.SessionID]*expectedSession{}
	for _, s := range sessions {
		gotSessions[s.ID] = &expectedSession{s.Owner, s.Remaining <= 0}
		if want := len(m.locksOf(s.ID)); s.Locks != want {
			r.Fatalf("session %s has %d locks, want %d", s.ID, s.Locks, want)
		}
	}
	if diff := gocmp.Diff(m.sessions, gotSessions); diff != "" {
		r.Fatalf("sessions (-want +got):\n%s", diff)
	}
	rows, err := m.b.store.Revocations(m.t.Context(), lockstore.RevocationFilter{After: &m.before})
	if err != nil {
		r.Fatal(err)
	}
	var audit []expectedAudit
	for _, row := range rows {
		audit = append(audit, expectedAudit{row.Key, row.PrevOwner, row.PrevToken})
	}
	if diff := gocmp.Diff(m.audit, audit); diff != "" {
		r.Fatalf("audit (-want +got):\n%s", diff)
	}
}

func (m *machine) locksOf(id lockstore.SessionID) (keys []string) {
	for key, e := range m.entries {
		if e.Session == id {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}

func drawKey(r *rapid.T) string {
	return rapid.SampledFrom([]string{"a/1", "a/2", "b/1", "b/2"}).Draw(r, "key")
}

// drawSession is one that was made; skips the action when there is none.
func (m *machine) drawSession(r *rapid.T) lockstore.SessionID {
	if len(m.sessions) == 0 {
		r.Skip("no session yet")
	}
	return rapid.SampledFrom(slices.Sorted(maps.Keys(m.sessions))).Draw(r, "session")
}

// drawRef is a token that stands, or one that was issued for some key before.
func (m *machine) drawRef(r *rapid.T) lockstore.GrantRef {
	if len(m.old) == 0 {
		r.Skip("no token yet")
	}
	key := drawKey(r)
	if e := m.entries[key]; e != nil && rapid.Bool().Draw(r, "the token that stands") {
		return lockstore.GrantRef{Key: key, Token: e.Token}
	}
	return rapid.SampledFrom(m.old).Draw(r, "old token")
}

// standing is the entry of this very grant.
func (m *machine) standing(ref lockstore.GrantRef) *expectedEntry {
	if e := m.entries[ref.Key]; e != nil && e.Token == ref.Token {
		return e
	}
	return nil
}

func (m *machine) createSession(r *rapid.T) {
	if len(m.sessions) >= 5 {
		r.Skip("enough sessions")
	}
	owner := rapid.SampledFrom([]string{"alice", "bob"}).Draw(r, "owner")
	session, err := m.b.store.CreateSession(m.t.Context(), owner, time.Hour)
	if err != nil {
		r.Fatal(err)
	}
	m.sessions[session.ID] = &expectedSession{Owner: owner}
}

func (m *machine) endSession(r *rapid.T) {
	id := m.drawSession(r)
	n, err := m.b.store.EndSession(m.t.Context(), id)
	if err != nil || n != len(m.locksOf(id)) {
		r.Fatalf("end: %d, %v, want %d", n, err, len(m.locksOf(id)))
	}
	m.saw("ended with locks", n > 0)
	m.dropSession(id)
	if _, err := m.b.store.EndSession(m.t.Context(), id); !errors.Is(err, lockstore.ErrNotFound) {
		r.Fatalf("end again: %v, want ErrNotFound", err)
	}
}

func (m *machine) dropSession(id lockstore.SessionID) {
	for _, key := range m.locksOf(id) {
		delete(m.entries, key)
	}
	delete(m.sessions, id)
}

func (m *machine) heartbeat(r *rapid.T) {
	id := m.drawSession(r)
	_, err := m.b.store.Heartbeat(m.t.Context(), id, time.Hour)
	if lost := errors.Is(err, lockstore.ErrSessionLost); lost != m.sessions[id].Lapsed || err != nil && !lost {
		r.Fatalf("heartbeat: %v, lapsed %t", err, m.sessions[id].Lapsed)
	}
	m.saw("heartbeat lost", m.sessions[id].Lapsed)
}

// lapse moves the end of a row into the past: a day earlier, where no guard is.
func (m *machine) lapse(r *rapid.T, table, trigger, row string, id any) {
	start := map[string]string{"lock_session": "created_at", "lock_entry": "acquired_at"}[table]
	tx, err := m.b.super.Begin(m.t.Context())
	if err != nil {
		r.Fatal(err)
	}
	for _, step := range []string{
		fmt.Sprintf(`ALTER TABLE %s DISABLE TRIGGER %s`, table, trigger),
		fmt.Sprintf(`UPDATE %s SET %s = %[2]s - interval '1 day', expires_at = expires_at - interval '1 day' WHERE %s`, table, start, row),
		fmt.Sprintf(`ALTER TABLE %s ENABLE ALWAYS TRIGGER %s`, table, trigger),
	} {
		var args []any
		if step[0] == 'U' {
			args = append(args, id)
		}
		if _, err := tx.Exec(m.t.Context(), step, args...); err != nil {
			r.Fatalf("%s: %v", step, err)
		}
	}
	if err := tx.Commit(m.t.Context()); err != nil {
		r.Fatal(err)
	}
}

func (m *machine) lapseSession(r *rapid.T) {
	id := m.drawSession(r)
	m.lapse(r, "lock_session", "lock_session_guard", "session_id = $1::text::uuid", string(id))
	m.sessions[id].Lapsed = true
}

func (m *machine) lapseLease(r *rapid.T) {
	key := drawKey(r)
	if m.entries[key] == nil {
		r.Skip("not held")
	}
	m.lapse(r, "lock_entry", "lock_entry_guard", "lock_key = $1", key)
	m.entries[key].Expired = true
}

func (m *machine) reap(r *rapid.T) {
	var want lockstore.Reaped
	for id, s := range m.sessions {
		if s.Lapsed {
			want.Sessions++
			want.Locks += len(m.locksOf(id))
			m.dropSession(id)
		}
	}
	if got, err := m.b.store.ReapSessions(m.t.Context(), 100); err != nil || got != want {
		r.Fatalf("reaped %+v, %v, want %+v", got, err, want)
	}
	m.saw("reaped locks", want.Locks > 0)
}

func (m *machine) wants(r *rapid.T, key string) lockstore.AcquireParams {
	id := m.drawSession(r)
	return lockstore.AcquireParams{Key: key, Owner: m.sessions[id].Owner, Session: id, TTL: time.Hour}
}

func (m *machine) acquire(r *rapid.T) {
	params := m.wants(r, drawKey(r))
	grant, err := m.b.store.Acquire(m.t.Context(), params)
	m.answered(r, params, grant, err)
}

// answered judges an acquire, single or of a batch.
func (m *machine) answered(r *rapid.T, params lockstore.AcquireParams, grant lockstore.Grant, err error) {
	_, held := errors.AsType[*lockstore.HeldError](err)
	e := m.entries[params.Key]
	switch mine := e != nil && e.Session == params.Session; {
	case m.sessions[params.Session].Lapsed:
		if !errors.Is(err, lockstore.ErrSessionLost) {
			r.Fatalf("acquire under a lapsed session: %+v, %v", grant, err)
		}
		m.saw("session lost", true)
	case e != nil && !e.Expired && !mine:
		if !held {
			r.Fatalf("acquire of a held key: %+v, %v", grant, err)
		}
		m.saw("held", true)
	case err != nil || grant.Token <= m.high:
		r.Fatalf("acquire: %+v, %v, want a token above %s", grant, err, m.high)
	default:
		m.saw("granted", e == nil)
		m.saw("re-entered", mine)
		m.saw("taken over", e != nil && !mine)
		m.high = grant.Token
		m.old = append(m.old, lockstore.GrantRef{Key: params.Key, Token: grant.Token})
		m.entries[params.Key] = &expectedEntry{params.Key, grant.Token, params.Owner, params.Session, false}
	}
}

func (m *machine) acquireBatch(r *rapid.T) {
	keys := rapid.Permutation([]string{"a/1", "a/2", "b/1", "b/2"}).Draw(r, "keys")[:rapid.IntRange(1, 4).Draw(r, "how many")]
	var params []lockstore.AcquireParams
	for _, key := range keys {
		params = append(params, m.wants(r, key))
	}
	results, err := m.b.store.AcquireBatch(m.t.Context(), params)
	if err != nil || len(results) != len(params) {
		r.Fatalf("batch: %+v, %v", results, err)
	}
	// Tokens are drawn in the order of keys.
	order := slices.SortedFunc(slices.Values([]int{0, 1, 2, 3}[:len(params)]), func(i, j int) int { return cmp.Compare(params[i].Key, params[j].Key) })
	for _, i := range order {
		m.answered(r, params[i], results[i].Grant, results[i].Err)
	}
}

func (m *machine) renew(r *rapid.T) {
	ref := m.drawRef(r)
	_, err := m.b.store.Renew(m.t.Context(), ref.Key, ref.Token, time.Hour)
	e := m.standing(ref)
	live := e != nil && !e.Expired
	if live != (err == nil) || !live && !errors.Is(err, lockstore.ErrLockLost) {
		r.Fatalf("renew %+v: %v, live %t", ref, err, live)
	}
	m.saw("renewed", live)
	m.saw("renewal lost", !live)
}

func (m *machine) release(r *rapid.T) {
	ref := m.drawRef(r)
	got, err := m.b.store.Release(m.t.Context(), ref.Key, ref.Token)
	e := m.standing(ref)
	if err != nil || got.Stale != (e == nil) {
		r.Fatalf("release %+v: %+v, %v, standing %+v", ref, got, err, e)
	}
	m.saw("stale", e == nil)
	m.saw("released", e != nil)
	if e != nil {
		delete(m.entries, ref.Key)
	}
}

func (m *machine) revoke(r *rapid.T) {
	ref := m.drawRef(r)
	params := lockstore.RevokeParams{Key: ref.Key, Token: ref.Token, Operator: "erin", Reason: "rapid", EndSession: rapid.Bool().Draw(r, "end session")}
	got, err := m.b.store.Revoke(m.t.Context(), params)
	if err != nil {
		r.Fatal(err)
	}
	e := m.entries[ref.Key]
	switch {
	case e == nil:
		if got.Outcome != lockstore.NotHeld {
			r.Fatalf("revoke of a free key: %+v", got)
		}
		m.saw("not held", true)
	case e.Token != ref.Token:
		if got.Outcome != lockstore.TokenMoved || got.Token != e.Token {
			r.Fatalf("revoke of a token that moved: %+v, want %s", got, e.Token)
		}
		m.saw("moved", true)
	default:
		if got.Outcome != lockstore.Revoked || got.Token != e.Token || got.Owner != e.Owner || got.SessionEnded != params.EndSession {
			r.Fatalf("revoke: %+v, want %+v", got, e)
		}
		m.saw("revoked", true)
		m.takeAway(ref.Key)
		if !params.EndSession {
			return
		}
		for _, key := range m.locksOf(e.Session) {
			m.saw("revoked others with the session", true)
			m.takeAway(key)
		}
		m.dropSession(e.Session)
	}
}

// takeAway is a revoke's effect on one key.
func (m *machine) takeAway(key string) {
	e := m.entries[key]
	m.audit = append(m.audit, expectedAudit{e.Key, e.Owner, e.Token})
	delete(m.entries, key)
}

func (m *machine) revokeMany(r *rapid.T) {
	prefix := rapid.SampledFrom([]string{"a/", "b/"}).Draw(r, "prefix")
	var keys []string
	for key := range m.entries {
		if key[:2] == prefix {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	wrong := rapid.IntRange(0, 1).Draw(r, "more than there are")
	got, err := m.b.store.RevokeMany(m.t.Context(), lockstore.RevokeManyParams{
		Filter: lockstore.Filter{Prefix: prefix}, Operator: "erin", Reason: "rapid", Expect: len(keys) + wrong,
	})
	if _, moved := errors.AsType[*lockstore.CountMovedError](err); wrong > 0 {
		if !moved {
			r.Fatalf("revoke many, %d expected of %d: %+v, %v", len(keys)+wrong, len(keys), got, err)
		}
		m.saw("count moved", true)
		return
	}
	if err != nil || len(got) != len(keys) {
		r.Fatalf("revoke many: %+v, %v, want %d", got, err, len(keys))
	}
	m.saw("revoked many", len(keys) > 1)
	for _, key := range keys {
		m.takeAway(key)
	}
}

func (m *machine) prune(r *rapid.T) {
	want := 0
	for key, e := range m.entries {
		if e.Expired {
			want++
			delete(m.entries, key)
		}
	}
	if got, err := m.b.store.Prune(m.t.Context(), 0, 100); err != nil || len(got) != want {
		r.Fatalf("pruned %+v, %v, want %d", got, err, want)
	}
	m.saw("pruned", want > 0)
}

package locktest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dlockctl/dlockctl/internal/lockstore"
)

func (s *suite) revoked(params lockstore.RevokeParams) lockstore.LockOutcome {
	s.Helper()
	params.Operator, params.Reason = "erin", "stuck"
	outcome, err := s.store.Revoke(s.ctx(), params)
	if err != nil {
		s.Fatalf("revoke %s: %v", params.Key, err)
	}
	return outcome
}

func (s *suite) auditRows(filter lockstore.RevocationFilter) []lockstore.Revocation {
	s.Helper()
	rows, err := s.other.Revocations(s.ctx(), filter)
	if err != nil {
		s.Fatalf("read the audit: %v", err)
	}
	return rows
}

func revoke(s *suite) {
	alice, bob := s.holder("alice"), s.holder("bob")
	old := s.acquire(alice, "k", time.Minute)
	s.release("k", old.Token, false)
	current := s.acquire(bob, "k", time.Minute)

	moved := s.revoked(lockstore.RevokeParams{Key: "k", Token: old.Token})
	if moved.Outcome != lockstore.TokenMoved || moved.Token != current.Token || moved.Owner != s.kept("bob") || moved.Presented != old.Token || moved.AuditID != 0 {
		s.Errorf("the older token: %+v", moved)
	}
	s.stands(current)
	s.byHash(current)
	done := s.revoked(lockstore.RevokeParams{Key: "k", Token: current.Token})
	if done.Outcome != lockstore.Revoked || done.Token != current.Token || done.Owner != s.kept("bob") || done.AuditID == 0 {
		s.Errorf("the current token: %+v", done)
	}
	s.free("k")
	s.lost("k", current.Token)
	if again := s.revoked(lockstore.RevokeParams{Key: "k", Token: current.Token}); again.Outcome != lockstore.NotHeld || again.AuditID != 0 {
		s.Errorf("again: %+v", again)
	}
	rows := s.auditRows(lockstore.RevocationFilter{})
	if len(rows) != 1 {
		s.Fatalf("%d audit rows, want 1: %+v", len(rows), rows)
	}
	if r := rows[0]; r.ID != done.AuditID || r.Key != "k" || r.PrevOwner != s.kept("bob") || r.PrevToken != current.Token || r.Operator != "erin" || r.Reason != "stuck" || r.RevokedAt.IsZero() {
		s.Errorf("the audit row is %+v", r)
	}
	s.above(s.acquire(alice, "k", time.Minute), current, "after a revoke")
}

// byHash names the grant by a hash that is not its lock id's: that revokes nothing,
// and is refused where grants have no lock ids.
func (s *suite) byHash(standing lockstore.Grant) {
	s.Helper()
	params := lockstore.RevokeParams{Key: standing.Key, Token: standing.Token, LockIDHash: strings.Repeat("0", 24)}
	if s.Declared.LockIDs {
		if outcome := s.revoked(params); outcome.Outcome != lockstore.TokenMoved {
			s.Errorf("by another lock id's hash: %+v", outcome)
		}
	} else {
		params.Operator, params.Reason = "erin", "stuck"
		_, err := s.store.Revoke(s.ctx(), params)
		s.unsupported(map[string]error{"Revoke by the hash of a lock id": err})
	}
	s.stands(standing)
}

func revokeWithSession(s *suite) {
	alice, bob := s.holder("alice"), s.holder("bob")
	first := s.acquire(alice, "a", time.Minute)
	params := lockstore.RevokeParams{Key: "a", Token: first.Token, Operator: "erin", Reason: "stuck", EndSession: true}
	if !s.Declared.Sessions {
		_, err := s.store.Revoke(s.ctx(), params)
		s.unsupported(map[string]error{"Revoke with EndSession": err})
		s.stands(first)
		return
	}
	s.acquire(alice, "b", time.Minute)
	kept := s.acquire(bob, "c", time.Minute)
	outcome := s.revoked(params)
	if outcome.Outcome != lockstore.Revoked || !outcome.SessionEnded || outcome.Session != alice.session || len(outcome.AlsoRevoked) != 1 || outcome.AlsoRevoked[0].Key != "b" {
		s.Errorf("revoked %+v", outcome)
	}
	if rows := s.auditRows(lockstore.RevocationFilter{}); len(rows) != 2 {
		s.Errorf("%d audit rows, want 2", len(rows))
	}
	s.free("b")
	s.stands(kept)
	if _, err := s.store.Acquire(s.ctx(), alice.wants("a", time.Minute)); !errors.Is(err, lockstore.ErrSessionLost) {
		s.Errorf("the revoked holder acquires again: %v, want ErrSessionLost", err)
	}
}

func bulkRevoke(s *suite) {
	alice, bob := s.holder("alice"), s.holder("bob")
	one, two := s.acquire(alice, "app/1", time.Minute), s.acquire(alice, "app/2", time.Minute)
	kept := s.acquire(bob, s.others("app/3"), time.Minute)
	params := lockstore.RevokeManyParams{Filter: lockstore.Filter{Owner: "alice", Prefix: "app/"}, Operator: "erin", Reason: "stuck", Expect: 1}
	if s.Declared.Ownerless {
		_, err := s.store.RevokeMany(s.ctx(), params)
		s.unsupported(map[string]error{"RevokeMany by owner": err})
		params.Filter.Owner = ""
	}
	_, err := s.store.RevokeMany(s.ctx(), params)
	moved, ok := errors.AsType[*lockstore.CountMovedError](err)
	if !ok || moved.Expected != 1 || moved.Found != 2 {
		s.Errorf("two where one was seen: %v", err)
	}
	s.stands(one)
	params.Expect = 2
	outcomes, err := s.store.RevokeMany(s.ctx(), params)
	if err != nil || len(outcomes) != 2 || outcomes[0].Token != one.Token || outcomes[1].Token != two.Token {
		s.Errorf("revoke two: %+v, %v", outcomes, err)
	}
	s.tooMany(alice)
	s.free("app/1")
	s.stands(kept)
	if rows := s.auditRows(lockstore.RevocationFilter{}); len(rows) != 2+s.Declared.BulkLimit {
		s.Errorf("%d audit rows, want %d", len(rows), 2+s.Declared.BulkLimit)
	}
	params.Filter = lockstore.Filter{}
	if _, err := s.store.RevokeMany(s.ctx(), params); !errors.Is(err, lockstore.ErrInvalid) {
		s.Errorf("revoke everything: %v, want ErrInvalid", err)
	}
	s.stands(kept)
}

// tooMany asks for one grant more than the backend revokes at once.
func (s *suite) tooMany(h holder) {
	s.Helper()
	if s.Declared.BulkLimit == 0 {
		return
	}
	var first lockstore.Grant
	for i := range s.Declared.BulkLimit + 1 {
		if grant := s.acquire(h, fmt.Sprint("many/", i), time.Minute); i == 0 {
			first = grant
		}
	}
	params := lockstore.RevokeManyParams{Filter: lockstore.Filter{Prefix: "many/"}, Operator: "erin", Reason: "stuck", Expect: s.Declared.BulkLimit + 1}
	_, err := s.store.RevokeMany(s.ctx(), params)
	s.unsupported(map[string]error{"RevokeMany above the limit": err})
	s.stands(first)
	s.release(first.Key, first.Token, false)
	params.Expect--
	if outcomes, err := s.store.RevokeMany(s.ctx(), params); err != nil || len(outcomes) != params.Expect {
		s.Errorf("revoke as many as are allowed: %d, %v", len(outcomes), err)
	}
}

// others is a key that a bulk revoke of alice's below app/ leaves alone: without
// owners, one that is not below it.
func (s *suite) others(key string) string {
	if s.Declared.Ownerless {
		return "not-" + key
	}
	return key
}

func prune(s *suite) {
	kept := s.acquire(s.holder("bob"), "live", time.Minute)
	old := s.lapsed("alice", "old")
	pruned, err := s.store.Prune(s.ctx(), time.Hour, 10)
	if s.Declared.EndsUntimed {
		s.unsupported(map[string]error{"Prune by age": err})
	} else if err != nil || len(pruned) != 0 {
		s.Errorf("prune what is an hour old: %+v, %v", pruned, err)
	}
	// Where a lease outlives its end for a while, so may its row.
	s.until("what has lapsed is pruned", func() (bool, error) {
		pruned, err := s.store.Prune(s.ctx(), 0, 10)
		if len(pruned) > 1 || len(pruned) == 1 && pruned[0].Token != old.Token {
			s.Errorf("pruned %+v, want at most the lapsed one", pruned)
		}
		return len(pruned) > 0 || s.Declared.Tolerance == 0, err
	})
	s.free("old")
	s.stands(kept)
}

func lists(s *suite) {
	alice, bob := s.holder("alice"), s.holder("bob")
	for key, h := range map[string]holder{"b/2": bob, "a/1": alice, "B/3": alice, "b%": bob} {
		s.acquire(h, key, time.Minute)
	}
	type list struct {
		filter lockstore.Filter
		keys   []string
	}
	wanted := map[string]list{
		"all, by bytes":          {lockstore.Filter{}, []string{"B/3", "a/1", "b%", "b/2"}},
		"prefix":                 {lockstore.Filter{Prefix: "b"}, []string{"b%", "b/2"}},
		"a prefix is no pattern": {lockstore.Filter{Prefix: "%"}, nil},
		"expired":                {lockstore.Filter{Expired: true}, nil},
		"limit":                  {lockstore.Filter{Limit: 2}, []string{"B/3", "a/1"}},
	}
	if byOwner := (lockstore.Filter{Owner: "alice"}); s.Declared.Ownerless {
		_, err := s.other.List(s.ctx(), byOwner)
		s.unsupported(map[string]error{"List by owner": err})
	} else {
		wanted["owner"] = list{byOwner, []string{"B/3", "a/1"}}
	}
	for name, want := range wanted {
		entries, err := s.other.List(s.ctx(), want.filter)
		var keys []string
		for _, e := range entries {
			keys = append(keys, e.Key)
		}
		if err != nil || !slices.Equal(keys, want.keys) {
			s.Errorf("%s: %q, %v, want %q", name, keys, err, want.keys)
		}
	}
	if s.Declared.Sessions {
		if entries, err := s.other.List(s.ctx(), lockstore.Filter{Session: bob.session}); err != nil || len(entries) != 2 {
			s.Errorf("by session: %+v, %v, want 2", entries, err)
		}
		if sessions, err := s.other.Sessions(s.ctx(), lockstore.SessionFilter{Owner: "bob"}); err != nil || len(sessions) != 1 || sessions[0].Locks != 2 {
			s.Errorf("sessions: %+v, %v, want bob's with 2 locks", sessions, err)
		}
	}
}

func audit(s *suite) {
	alice := s.holder("alice")
	var ids []int64
	for _, key := range []string{"a", "b", "c"} {
		ids = append(ids, s.revoked(lockstore.RevokeParams{Key: key, Token: s.acquire(alice, key, time.Minute).Token}).AuditID)
	}
	order := func(filter lockstore.RevocationFilter) (got []int64) {
		for _, row := range s.auditRows(filter) {
			got = append(got, row.ID)
		}
		return got
	}
	if got, want := order(lockstore.RevocationFilter{}), []int64{ids[2], ids[1], ids[0]}; !slices.Equal(got, want) {
		s.Errorf("newest first: %v, want %v", got, want)
	}
	if got := order(lockstore.RevocationFilter{After: &ids[0]}); !slices.Equal(got, ids[1:]) {
		s.Errorf("after the first: %v, want %v", got, ids[1:])
	}
	if got := order(lockstore.RevocationFilter{Key: "b"}); !slices.Equal(got, ids[1:2]) {
		s.Errorf("of one key: %v", got)
	}
	if got := order(lockstore.RevocationFilter{Operator: "nobody"}); len(got) != 0 {
		s.Errorf("of nobody: %v", got)
	}
	if row, err := s.other.Revocation(s.ctx(), ids[1]); err != nil || row.Key != "b" {
		s.Errorf("by id: %+v, %v", row, err)
	}
	if _, err := s.other.Revocation(s.ctx(), ids[2]+1000); !errors.Is(err, lockstore.ErrNotFound) {
		s.Errorf("by an id that is not there: %v, want ErrNotFound", err)
	}
}

func journal(s *suite) {
	alice, bob := s.holder("alice"), s.holder("bob")
	first := s.acquire(alice, "k", time.Minute)
	if !s.Declared.Journal {
		_, err := s.store.GrantHistory(s.ctx(), first.Token)
		s.unsupported(map[string]error{"GrantHistory": err})
		return
	}
	s.release("k", first.Token, false)
	second := s.acquire(bob, "k", time.Minute)
	s.revoked(lockstore.RevokeParams{Key: "k", Token: second.Token})
	third := s.acquire(alice, "k", time.Minute)
	for _, want := range []struct {
		grant lockstore.Grant
		ended string
	}{{first, "released"}, {second, "revoked"}, {third, ""}} {
		got, err := s.other.GrantHistory(s.ctx(), want.grant.Token)
		if err != nil || got.Key != "k" || got.Owner != want.grant.Owner || got.Session != want.grant.Session || got.Ended != want.ended || got.EndedAt.IsZero() != (want.ended == "") {
			s.Errorf("token %s: %+v, %v, want ended %q", want.grant.Token, got, err, want.ended)
		}
	}
	if _, err := s.other.GrantHistory(s.ctx(), third.Token+1000); !errors.Is(err, lockstore.ErrNotFound) {
		s.Errorf("a token that was never issued: %v, want ErrNotFound", err)
	}
}

func wrongInput(s *suite) {
	alice := s.holder("alice")
	standing := s.acquire(alice, "k", time.Minute)
	for name, change := range map[string]func(*lockstore.AcquireParams){
		"empty key":     func(p *lockstore.AcquireParams) { p.Key = "" },
		"NUL":           func(p *lockstore.AcquireParams) { p.Key = "a\x00b" },
		"not UTF-8":     func(p *lockstore.AcquireParams) { p.Key = "\xff" },
		"blank owner":   func(p *lockstore.AcquireParams) { p.Owner = "  " },
		"zero ttl":      func(p *lockstore.AcquireParams) { p.TTL = 0 },
		"negative ttl":  func(p *lockstore.AcquireParams) { p.TTL = -time.Second },
		"above maximum": func(p *lockstore.AcquireParams) { p.TTL = lockstore.MaxTTL + 1 },
	} {
		params := alice.wants("new", time.Minute)
		change(&params)
		if got, err := s.store.Acquire(s.ctx(), params); !errors.Is(err, lockstore.ErrInvalid) {
			s.Errorf("%s: %+v, %v, want ErrInvalid", name, got, err)
		}
	}
	for _, token := range []lockstore.Token{0, -1, lockstore.MaxToken + 1} {
		_, renewed := s.store.Renew(s.ctx(), "k", token, time.Minute)
		_, released := s.store.Release(s.ctx(), "k", token)
		_, revoked := s.store.Revoke(s.ctx(), lockstore.RevokeParams{Key: "k", Token: token, Operator: "erin", Reason: "why"})
		for name, err := range map[string]error{"renew": renewed, "release": released, "revoke": revoked} {
			if !errors.Is(err, lockstore.ErrInvalid) {
				s.Errorf("%s with token %d: %v, want ErrInvalid", name, token, err)
			}
		}
	}
	for _, params := range []lockstore.RevokeParams{{Operator: " ", Reason: "why"}, {Operator: "erin", Reason: "\n"}} {
		params.Key, params.Token = "k", standing.Token
		if _, err := s.store.Revoke(s.ctx(), params); !errors.Is(err, lockstore.ErrInvalid) {
			s.Errorf("revoke by %q for %q: %v, want ErrInvalid", params.Operator, params.Reason, err)
		}
	}
	s.stands(standing)
	s.free("new")
}

func auditVerifies(s *suite) {
	s.revoked(lockstore.RevokeParams{Key: "k", Token: s.acquire(s.holder("alice"), "k", time.Minute).Token})
	report, err := s.other.VerifyAudit(s.ctx())
	if err != nil || len(report.Findings) != 0 || report.Revocations != 1 {
		s.Errorf("verify: %+v, %v, want 1 revocation and no findings", report, err)
	}
}

package lockserver_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/pgtest"
	"github.com/dlockctl/dlockctl/internal/service/httpd"
	"github.com/dlockctl/dlockctl/internal/service/httpdtest"
	"github.com/dlockctl/dlockctl/internal/service/lockapi"
	"github.com/dlockctl/dlockctl/internal/service/lockserver"
)

// A lock's life over HTTP: the token is in the header and, in both forms, in the
// body; a held lock names its holder and says when to ask again; a lost one is a
// conflict, and a release of it is stale.
//
// Clauses: K-2.6, K-5.4
// Mutation: leave the header out of an answer, or Retry-After out of a refusal.
func TestLifeOfALock(t *testing.T) {
	t.Parallel()
	dbs := pgtest.Migrated(t, 16)
	c := caller{serve(t, options(dbs.Lock.Config(t, "t_lockapp")), "").ready(t), ""}
	alice, bob := c.session(t, "alice"), c.session(t, "bob")
	taken := c.post(t, "/v1/locks/acquire", lockapi.AcquireRequest{Key: "account:1", SessionID: alice.SessionID, TTLMS: 60_000})
	var grant lockapi.Grant
	taken.into(t, &grant)
	if grant.Owner != "alice" || grant.TokenStr == "" || taken.header.Get(lockapi.TokenHeader) != grant.TokenStr {
		t.Errorf("a grant: %+v, header %q", grant, taken.header.Get(lockapi.TokenHeader))
	}
	refused := c.post(t, "/v1/locks/acquire", lockapi.AcquireRequest{Key: "account:1", SessionID: bob.SessionID, TTLMS: 60_000})
	held, isHeld := errors.AsType[*lockstore.HeldError](lockapi.Error(refused.problem()))
	if refused.status != http.StatusConflict || !isHeld || held.Owner != "alice" || held.Token != grant.Token.Token || held.Remaining <= 0 {
		t.Errorf("a held lock: %d %s", refused.status, refused.body)
	}
	if after := refused.problem().RetryAfter; after <= 0 || after > time.Minute {
		t.Errorf("ask again after %s", after)
	}
	renewed := c.post(t, "/v1/locks/renew", lockapi.RenewRequest{Key: "account:1", SessionID: alice.SessionID, TTLMS: 120_000}, lockapi.TokenHeader, grant.TokenStr)
	if renewed.status != http.StatusOK || renewed.header.Get(lockapi.TokenHeader) != grant.TokenStr {
		t.Errorf("a renewal: %d %s", renewed.status, renewed.body)
	}
	for stale, want := range []bool{false, true} {
		var release lockapi.Release
		c.post(t, "/v1/locks/release", lockapi.ReleaseRequest{Key: "account:1"}, lockapi.TokenHeader, grant.TokenStr).into(t, &release)
		if release.Stale != want {
			t.Errorf("release %d: %+v", stale, release)
		}
	}
	lost := c.post(t, "/v1/locks/renew", lockapi.RenewRequest{Key: "account:1", TTLMS: 60_000}, lockapi.TokenHeader, grant.TokenStr)
	if err := lockapi.Error(lost.problem()); lost.status != http.StatusConflict || !errors.Is(err, lockstore.ErrLockLost) {
		t.Errorf("a renewal of what is gone: %d %v", lost.status, err)
	}
}

// Wrong input gets an error that names it, and nothing is sent.
//
// Clauses: K-1.6, K-2.5
// Mutation: leave out a check of an operation: the store's own then is an internal error.
func TestWrongInputIsRefused(t *testing.T) {
	t.Parallel()
	dbs := pgtest.Migrated(t, 16)
	c := caller{serve(t, options(dbs.Lock.Config(t, "t_lockapp")), "").ready(t), ""}
	session := c.session(t, "alice").SessionID
	for name, a := range map[string]answer{
		"no owner":           c.post(t, "/v1/sessions", lockapi.CreateSessionRequest{TTLMS: 60_000}),
		"a short session":    c.post(t, "/v1/sessions", lockapi.CreateSessionRequest{Owner: "a", TTLMS: 1}),
		"a ttl that wraps":   c.post(t, "/v1/locks/acquire", lockapi.AcquireRequest{Key: "k", SessionID: session, TTLMS: 18446744073739}),
		"no ttl":             c.post(t, "/v1/locks/acquire", lockapi.AcquireRequest{Key: "k", SessionID: session}),
		"no key":             c.post(t, "/v1/locks/acquire", lockapi.AcquireRequest{SessionID: session, TTLMS: 60_000}),
		"no session":         c.post(t, "/v1/locks/acquire", lockapi.AcquireRequest{Key: "k", TTLMS: 60_000}),
		"a session mistyped": c.post(t, "/v1/locks/acquire", lockapi.AcquireRequest{Key: "k", SessionID: "nonsense", TTLMS: 60_000}),
		"a wait for ever":    c.post(t, "/v1/locks/acquire", lockapi.AcquireRequest{Key: "k", SessionID: session, TTLMS: 60_000, WaitMS: 86_400_000}),
		"no token":           c.post(t, "/v1/locks/release", lockapi.ReleaseRequest{Key: "k"}),
		"a forged token":     c.post(t, "/v1/locks/release", lockapi.ReleaseRequest{Key: "k"}, lockapi.TokenHeader, "9223372036854775807"),
		"two tokens":         c.post(t, "/v1/locks/revoke", lockapi.RevokeRequest{Key: "k", Token: 1, TokenStr: "2", Operator: "o", Reason: "r"}),
		"no reason":          c.post(t, "/v1/locks/revoke", lockapi.RevokeRequest{Key: "k", Token: 1, Operator: "o", Reason: " "}),
		"no batch":           c.post(t, "/v1/locks/acquire-batch", lockapi.AcquireBatchRequest{Locks: []lockapi.AcquireItem{}}),
		"an unknown field":   c.post(t, "/v1/sessions/heartbeat", map[string]any{"session_id": session, "ttl_ms": 60_000, "ttl": 3}),
		"no JSON":            c.do(t, http.MethodPost, "/v1/locks/acquire", "nonsense"),
	} {
		p := a.problem()
		if a.status < 400 || a.status >= 500 || p.Detail == "" || p.Code == "unexpected" {
			t.Errorf("%s: %d %s", name, a.status, a.body)
		}
		if strings.Contains(string(a.body), session) {
			t.Errorf("%s: the session id is in the answer: %s", name, a.body)
		}
	}
}

// Nobody reaches another credential's session or grant, by whatever operation; the
// answer is that of a session or a grant that does not exist. An operator may look,
// and sees no id unless it asks.
//
// Clauses: K-2.12
// Mutation: leave mine out of sessionOwner, of ownsGrant or of showSession.
func TestAnotherCallersSession(t *testing.T) {
	t.Parallel()
	dbs := pgtest.Migrated(t, 16)
	file, keys := keys(t, map[string][]httpd.Scope{
		"payments": {httpd.Acquire}, "pay": {httpd.Acquire}, "auditor": {httpd.Audit}, "operator": {httpd.Audit, httpd.Operate},
	})
	s := serve(t, options(dbs.Lock.Config(t, "t_lockapp")), file).ready(t)
	// The one name is the beginning of the other.
	owner, thief := caller{s, keys["payments"]}, caller{s, keys["pay"]}
	session, own := owner.session(t, "worker"), thief.session(t, "ments/worker")
	if session.Owner != "payments/worker" || own.Owner != "pay/ments/worker" {
		t.Fatalf("the owners are %q and %q", session.Owner, own.Owner)
	}
	grant := owner.acquire(t, "k", session)
	token, id, nobody := grant.TokenStr, session.SessionID, "00000000-0000-4000-8000-000000000000"
	for name, pair := range map[string][2]answer{
		"acquire":   {thief.post(t, "/v1/locks/acquire", lockapi.AcquireRequest{Key: "k", SessionID: id, TTLMS: 60_000}), thief.post(t, "/v1/locks/acquire", lockapi.AcquireRequest{Key: "k", SessionID: nobody, TTLMS: 60_000})},
		"heartbeat": {thief.post(t, "/v1/sessions/heartbeat", lockapi.HeartbeatRequest{SessionID: id, TTLMS: 60_000}), thief.post(t, "/v1/sessions/heartbeat", lockapi.HeartbeatRequest{SessionID: nobody, TTLMS: 60_000})},
		"end":       {thief.post(t, "/v1/sessions/end", lockapi.SessionRequest{SessionID: id}), thief.post(t, "/v1/sessions/end", lockapi.SessionRequest{SessionID: nobody})},
		"show":      {thief.post(t, "/v1/sessions/show", lockapi.SessionRequest{SessionID: id}), thief.post(t, "/v1/sessions/show", lockapi.SessionRequest{SessionID: nobody})},
		"renew":     {thief.post(t, "/v1/locks/renew", lockapi.RenewRequest{Key: "k", TTLMS: 60_000}, lockapi.TokenHeader, token), thief.post(t, "/v1/locks/renew", lockapi.RenewRequest{Key: "k", TTLMS: 60_000}, lockapi.TokenHeader, "999")},
		"renew with its session": {
			thief.post(t, "/v1/locks/renew", lockapi.RenewRequest{Key: "k", SessionID: id, TTLMS: 60_000}, lockapi.TokenHeader, token),
			thief.post(t, "/v1/locks/renew", lockapi.RenewRequest{Key: "k", SessionID: nobody, TTLMS: 60_000}, lockapi.TokenHeader, "999"),
		},
		"release":                 {thief.post(t, "/v1/locks/release", lockapi.ReleaseRequest{Key: "k"}, lockapi.TokenHeader, token), thief.post(t, "/v1/locks/release", lockapi.ReleaseRequest{Key: "k"}, lockapi.TokenHeader, "999")},
		"release under one's own": {thief.post(t, "/v1/locks/release", lockapi.ReleaseRequest{Key: "k", SessionID: own.SessionID}, lockapi.TokenHeader, token), thief.post(t, "/v1/locks/release", lockapi.ReleaseRequest{Key: "k"}, lockapi.TokenHeader, "999")},
		"release a batch":         {thief.post(t, "/v1/locks/release-batch", lockapi.ReleaseBatchRequest{Grants: []lockapi.GrantRef{{Key: "k", TokenStr: token}}}), thief.post(t, "/v1/locks/release-batch", lockapi.ReleaseBatchRequest{Grants: []lockapi.GrantRef{{Key: "k", TokenStr: "999"}}})},
		"acquire a batch":         {thief.post(t, "/v1/locks/acquire-batch", lockapi.AcquireBatchRequest{Locks: []lockapi.AcquireItem{{Key: "k", SessionID: id, TTLMS: 60_000}}}), thief.post(t, "/v1/locks/acquire-batch", lockapi.AcquireBatchRequest{Locks: []lockapi.AcquireItem{{Key: "k", SessionID: nobody, TTLMS: 60_000}}})},
	} {
		theirs, none := pair[0], pair[1]
		same := func(a answer) string {
			text := strings.NewReplacer(id[:8], "ID", nobody[:8], "ID", `"token":`+token, "TOKEN", `"token":999`, "TOKEN", `"`+token+`"`, "T", `"999"`, "T", "token "+token, "token T", "token 999", "token T").Replace(string(a.body))
			before, _, _ := strings.Cut(text, `"instance"`)
			return before
		}
		if theirs.status != none.status || same(theirs) != same(none) {
			t.Errorf("%s: another's is answered\n%d %s\nand nobody's\n%d %s", name, theirs.status, theirs.body, none.status, none.body)
		}
	}
	var entry lockapi.Entry
	owner.get(t, "/v1/locks/show?key=k").into(t, &entry)
	if entry.Token.Token != grant.Token.Token || entry.Expired {
		t.Errorf("the grant did not survive: %+v", entry)
	}
	auditor, operator := caller{s, keys["auditor"]}, caller{s, keys["operator"]}
	var list lockapi.EntryList
	auditor.get(t, "/v1/locks").into(t, &list)
	if len(list.Locks) != 1 || strings.Contains(id, list.Locks[0].SessionID) {
		t.Errorf("an auditor sees %+v", list)
	}
	if a := auditor.get(t, "/v1/locks?show_session=true"); a.status != http.StatusForbidden {
		t.Errorf("an auditor who asks for ids: %d", a.status)
	}
	operator.get(t, "/v1/locks?show_session=true").into(t, &list)
	if list.Locks[0].SessionID != id {
		t.Errorf("an operator who asks sees %+v", list)
	}
	var outcome lockapi.LockOutcome
	operator.post(t, "/v1/locks/revoke", lockapi.RevokeRequest{Key: "k", TokenStr: token, Operator: "erin", Reason: "stuck"}).into(t, &outcome)
	var audit lockapi.RevocationList
	auditor.get(t, "/v1/audit/revocations").into(t, &audit)
	if outcome.Outcome != lockstore.Revoked || len(audit.Revocations) != 1 || audit.Revocations[0].Operator != "operator/erin" {
		t.Errorf("revoked %+v, in the audit %+v", outcome, audit)
	}
}

// The locks under a session are asked for in a body; an id in the query is refused with
// the way that there is, and the answer does not repeat it.
//
// Clauses: K-2.12
// Mutation: leave Resolve out of listInput, or the session out of listOfSession.
func TestLocksOfASession(t *testing.T) {
	t.Parallel()
	dbs := pgtest.Migrated(t, 16)
	file, keys := keys(t, map[string][]httpd.Scope{"w": {httpd.Acquire}, "auditor": {httpd.Audit}, "operator": {httpd.Audit, httpd.Operate}})
	s := serve(t, options(dbs.Lock.Config(t, "t_lockapp")), file).ready(t)
	worker, auditor, operator := caller{s, keys["w"]}, caller{s, keys["auditor"]}, caller{s, keys["operator"]}
	one, other := worker.session(t, "a"), worker.session(t, "b")
	for _, key := range []string{"b", "a"} {
		worker.acquire(t, key, one)
	}
	worker.acquire(t, "c", other)
	for _, query := range []string{"?session_id=" + one.SessionID, "?owner=w/a&session_id="} {
		a := auditor.get(t, "/v1/locks"+query)
		if a.status != http.StatusUnprocessableEntity || !strings.Contains(a.problem().Detail, "POST /v1/sessions/locks") || strings.Contains(string(a.body), one.SessionID) {
			t.Errorf("GET with a session id: %d %s", a.status, a.body)
		}
	}
	for _, c := range []struct {
		by   caller
		ask  lockapi.SessionLocksRequest
		want string
	}{
		{operator, lockapi.SessionLocksRequest{SessionID: one.SessionID, ShowSession: true}, "a " + one.SessionID + ", b " + one.SessionID},
		{auditor, lockapi.SessionLocksRequest{SessionID: one.SessionID, Prefix: "b"}, "b " + lockstore.SessionID(one.SessionID).Masked()},
		{auditor, lockapi.SessionLocksRequest{SessionID: one.SessionID, Limit: 1}, "a " + lockstore.SessionID(one.SessionID).Masked()},
		{auditor, lockapi.SessionLocksRequest{SessionID: one.SessionID, Owner: "w/b"}, ""},
		{auditor, lockapi.SessionLocksRequest{SessionID: one.SessionID, Expired: true}, ""},
	} {
		var list lockapi.EntryList
		c.by.post(t, "/v1/sessions/locks", c.ask).into(t, &list)
		var got []string
		for _, entry := range list.Locks {
			got = append(got, entry.Key+" "+entry.SessionID)
		}
		if strings.Join(got, ", ") != c.want {
			t.Errorf("%+v lists %q, want %q", c.ask, got, c.want)
		}
	}
	for _, c := range []struct {
		by   caller
		ask  lockapi.SessionLocksRequest
		want int
	}{
		{auditor, lockapi.SessionLocksRequest{}, http.StatusBadRequest},
		{auditor, lockapi.SessionLocksRequest{SessionID: one.SessionID, ShowSession: true}, http.StatusForbidden},
		{worker, lockapi.SessionLocksRequest{SessionID: one.SessionID}, http.StatusForbidden},
	} {
		if a := c.by.post(t, "/v1/sessions/locks", c.ask); a.status != c.want {
			t.Errorf("%+v: %d %s, want %d", c.ask, a.status, a.body, c.want)
		}
	}
}

// Every operation refuses who has no credential, a wrong one, or too small a scope.
//
// Clauses: K-12.2
// Mutation: take a scope out of an operation, or give it another.
func TestScopes(t *testing.T) {
	t.Parallel()
	dbs := pgtest.Migrated(t, 16)
	service, err := lockserver.New(options(dbs.Lock.Config(t, "t_lockapp")))
	if err != nil {
		t.Fatal(err)
	}
	httpdtest.RefusesStrangers(t, service.Register)
}

// The same idempotency key gets the same session; with other content it is a
// conflict; another caller's key is another. Of the session less is left then.
//
// Clauses: K-2.10
// Mutation: leave the caller out of onceKey, the comparison out of await, or again.
func TestIdempotencyKey(t *testing.T) {
	t.Parallel()
	dbs := pgtest.Migrated(t, 16)
	file, keys := keys(t, map[string][]httpd.Scope{"a": {httpd.Acquire}, "b": {httpd.Acquire}})
	s := serve(t, options(dbs.Lock.Config(t, "t_lockapp")), file).ready(t)
	create := func(key, owner string) answer {
		return caller{s, key}.post(t, "/v1/sessions", lockapi.CreateSessionRequest{Owner: owner, TTLMS: 60_000}, lockapi.IdempotencyHeader, "retry-1")
	}
	var first, again, other lockapi.Session
	create(keys["a"], "w").into(t, &first)
	create(keys["a"], "w").into(t, &again)
	create(keys["b"], "w").into(t, &other)
	if first.SessionID != again.SessionID || first.SessionID == other.SessionID {
		t.Errorf("the sessions are %s, again %s, another caller's %s", first.SessionID[:8], again.SessionID[:8], other.SessionID[:8])
	}
	if again.RemainingMS >= first.RemainingMS {
		t.Errorf("%d ms were left at first, and again %d ms", first.RemainingMS, again.RemainingMS)
	}
	if a := create(keys["a"], "x"); a.status != http.StatusConflict || a.problem().Code != "idempotency_conflict" {
		t.Errorf("the key for another session: %d %s", a.status, a.body)
	}
}

// When the service goes away, waiters are told at once that nothing was granted,
// and what was asked for before is answered.
//
// Mutation: leave Stop out of the wait.
func TestWaitersAreToldOfTheEnd(t *testing.T) {
	t.Parallel()
	dbs := pgtest.Migrated(t, 16)
	s := serve(t, options(dbs.Lock.Config(t, "t_lockapp")), "").ready(t)
	c := caller{s, ""}
	c.acquire(t, "k", c.session(t, "alice"))
	bob := c.session(t, "bob")
	told := make(chan answer, 1)
	go func() {
		told <- c.post(t, "/v1/locks/acquire", lockapi.AcquireRequest{Key: "k", SessionID: bob.SessionID, TTLMS: 60_000, WaitMS: 300_000})
	}()
	c.waiters(t, "1")
	if err := s.stop(); err != nil {
		t.Fatal(err)
	}
	a := <-told
	if _, away := errors.AsType[*lockstore.UnreachableError](lockapi.Error(a.problem())); a.status != http.StatusServiceUnavailable || a.problem().Code != "draining" || !away {
		t.Errorf("a waiter was told %d %s", a.status, a.body)
	}
}

// A client that hangs up while it waits leaves the queue, and one that hangs up as
// it is granted gives the lock back.
//
// Mutation: wait without the request's context.
func TestClientThatHangsUp(t *testing.T) {
	t.Parallel()
	dbs := pgtest.Migrated(t, 16)
	s := serve(t, options(dbs.Lock.Config(t, "t_lockapp")), "").ready(t)
	c := caller{s, ""}
	grant := c.acquire(t, "k", c.session(t, "alice"))
	bob, carol := c.session(t, "bob"), c.session(t, "carol")
	ctx, hangUp := context.WithCancel(t.Context())
	gone := make(chan error, 1)
	go func() {
		response, err := c.send(ctx, t, http.MethodPost, "/v1/locks/acquire", lockapi.AcquireRequest{Key: "k", SessionID: bob.SessionID, TTLMS: 60_000, WaitMS: 300_000})
		if err == nil {
			response.Body.Close()
		}
		gone <- err
	}()
	c.waiters(t, "1")
	hangUp()
	if err := <-gone; err == nil {
		t.Error("it was answered")
	}
	c.waiters(t, "0")
	c.post(t, "/v1/locks/release", lockapi.ReleaseRequest{Key: "k"}, lockapi.TokenHeader, grant.TokenStr)
	if got := c.acquire(t, "k", carol); got.Owner != "carol" {
		t.Errorf("the next is %+v", got)
	}
}

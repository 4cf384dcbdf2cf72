package etcd_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/dlockctl/dlockctl/internal/etcdtest"
	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/lockstore/etcd"
)

// hooked has a test's own code stand between a store and the cluster.
func hooked(opts etcd.Options, do func(ctx context.Context, op clientv3.Op, next clientv3.KV) (clientv3.OpResponse, error)) etcd.Options {
	return etcd.Between(opts, func(kv clientv3.KV) clientv3.KV { return between{kv, do} })
}

// That a lease is gone does not tell that its session is over: it may hang on another by
// now. Its locks are taken from nobody, and it is shown alive (etcd#13915).
//
// Clauses: K-2.3, K-2.10, K-10.1
// Mutation: take what is left of the lease for what is left of the session in lifeLeft,
// and drop the comparison of the holder's life from the takeover, which by itself is a row
// of TestControls.
func TestSessionThatMovedIsNotOver(t *testing.T) {
	t.Parallel()
	opts, raw := options(t), etcdtest.Single(t).Client(t)
	holder := newClient(t, opts, "holder", time.Minute)
	token := holder.lock(t, "k")
	alive := opts.Prefix + "alive/" + string(holder.id)
	// Between the look at the session and the question about its lease, the session moves
	// to a longer one, and the one that was seen ends.
	var armed atomic.Bool
	ttl := time.Hour
	other := newClient(t, hooked(opts, func(ctx context.Context, op clientv3.Op, next clientv3.KV) (clientv3.OpResponse, error) {
		got, err := next.Do(ctx, op)
		_, then, _ := op.Txn()
		if err != nil || len(then) != 1 || string(then[0].KeyBytes()) != alive || !armed.CompareAndSwap(true, false) {
			return got, err
		}
		seen := got.Txn().Responses[0].GetResponseRange().Kvs[0].Lease
		if _, err := holder.Renew(ctx, "k", token, ttl); err != nil {
			t.Errorf("renew for longer: %v", err)
		}
		if _, err := raw.Revoke(ctx, clientv3.LeaseID(seen)); err != nil {
			t.Errorf("end the lease that was seen: %v", err)
		}
		return got, nil
	}), "other", time.Minute)
	armed.Store(true)
	_, err := other.Acquire(t.Context(), other.wants("k"))
	if held, is := errors.AsType[*lockstore.HeldError](err); !is || held.Token != token || armed.Load() {
		t.Errorf("a key whose holder lives: %v, want held with token %s", err, token)
	}
	if _, err := holder.Renew(t.Context(), "k", token, time.Minute); err != nil {
		t.Errorf("the holder, whose session lives: %v", err)
	}
	ttl = 2 * time.Hour
	armed.Store(true)
	if entry, err := other.Show(t.Context(), "k"); err != nil || entry.Expired || entry.Token != token || armed.Load() {
		t.Errorf("shown as %+v, %v, want held", entry, err)
	}
}

// A grant that is not shown is given back, though its caller is gone by then. One that
// cannot be given back stands as long as its session, and so it is not said to have failed.
//
// Clauses: K-1.4, K-2.9, K-10.1
// Mutation: give back under the caller's context in withheld, or leave the case of what
// could not be given back out of it.
func TestGrantThatIsWithheld(t *testing.T) {
	t.Parallel()
	for name, clusterGoes := range map[string]bool{"the caller goes": false, "the cluster goes": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			opts := options(t)
			ctx, leave := context.WithCancel(t.Context())
			defer leave()
			var store *etcd.Store
			var armed, gone atomic.Bool
			alice := newClient(t, hooked(opts, func(ctx context.Context, op clientv3.Op, next clientv3.KV) (clientv3.OpResponse, error) {
				if gone.Load() {
					return clientv3.OpResponse{}, rpctypes.ErrNoLeader
				}
				got, err := next.Do(ctx, op)
				if err == nil && isChange(op) && armed.CompareAndSwap(true, false) {
					etcd.Reconnected(store) // which has the grant looked at before it is shown
					if gone.Store(clusterGoes); !clusterGoes {
						leave()
					}
				}
				return got, err
			}), "alice", time.Hour)
			store = alice.Store
			alice.release(t, "k", alice.lock(t, "k"), false) // it has been compared
			armed.Store(true)
			grant, err := alice.Acquire(ctx, alice.wants("k"))
			if err == nil || armed.Load() {
				t.Fatalf("granted %+v", grant)
			}
			_, unknown := errors.AsType[*lockstore.UnknownOutcomeError](err)
			entry, showErr := open(t, opts).Show(t.Context(), "k")
			if stands := showErr == nil; stands != clusterGoes || unknown != clusterGoes {
				t.Errorf("told %v; what stands is %+v, %v", err, entry, showErr)
			}
		})
	}
}

// What a grant says of its end is not from before others renewed the session.
//
// Mutation: take what is known of the lease in ends, however old it is.
func TestGrantEndsAfterItBegan(t *testing.T) {
	t.Parallel()
	opts := options(t)
	other := open(t, opts)
	const ttl = 6 * time.Second
	alice := newClient(t, opts, "alice", ttl)
	known, err := alice.Session(t.Context(), alice.id)
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "what was known of the lease is over", func(ctx context.Context) (bool, error) {
		_, err := other.Heartbeat(ctx, alice.id, ttl)
		return time.Now().After(known.ExpiresAt.Time.Add(2 * time.Second)), err
	})
	grant, err := alice.Acquire(t.Context(), alice.wants("k"))
	if err != nil || grant.ExpiresAt.Before(grant.Sent) {
		t.Errorf("asked for at %s and granted until %s, %v", grant.Sent, grant.ExpiresAt, err)
	}
}

// A lease is not left behind that was made for a renewal which came too late, nor that of a
// session which an operator has ended.
//
// Mutation: keep what was made for a session that is not extended, in extend; or the lease
// of the session in forceRevoke's done.
func TestNoLeaseIsLeftBehind(t *testing.T) {
	t.Parallel()
	opts, raw := options(t), etcdtest.Single(t).Client(t)
	alice := newClient(t, opts, "alice", time.Minute)
	token := alice.lock(t, "k")
	if _, err := open(t, opts).Release(t.Context(), "k", token); err != nil {
		t.Fatal(err)
	}
	const unlike, ended = 7919 * time.Second, 7907 * time.Second // any other lease on this member
	if _, err := alice.Renew(t.Context(), "k", token, unlike); !errors.Is(err, lockstore.ErrLockLost) {
		t.Fatalf("renew what was released: %v", err)
	}
	bob := newClient(t, opts, "bob", ended)
	if outcome, err := open(t, opts).Revoke(t.Context(), lockstore.RevokeParams{
		Key: "b", Token: bob.lock(t, "b"), Operator: "erin", Reason: "stuck", EndSession: true,
	}); err != nil || !outcome.SessionEnded {
		t.Fatalf("end a session: %+v, %v", outcome, err)
	}
	leases, err := raw.Leases(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, lease := range leases.Leases {
		if left, err := raw.TimeToLive(t.Context(), lease.ID); err != nil || left.GrantedTTL == int64(unlike/time.Second) || left.GrantedTTL == int64(ended/time.Second) {
			t.Errorf("left behind: %+v, %v", left, err)
		}
	}
}

// The audit names whom etcd has let in, and nobody who only says who he is.
//
// Clauses: K-3.3, K-10.1
// Mutation: keep Username without a Password in Open.
func TestAuditNamesNobodyUnchecked(t *testing.T) {
	t.Parallel()
	opts := options(t)
	opts.Username = "frank"
	alice := newClient(t, opts, "alice", time.Minute)
	if _, err := alice.Revoke(t.Context(), lockstore.RevokeParams{Key: "k", Token: alice.lock(t, "k"), Operator: "erin", Reason: "stuck"}); err != nil {
		t.Fatal(err)
	}
	if rows, err := alice.Revocations(t.Context(), lockstore.RevocationFilter{}); err != nil || len(rows) != 1 || rows[0].LoginRole != "" {
		t.Errorf("the audit: %+v, %v, want one row without a login", rows, err)
	}
}

// A store that was closed answers that it is, and keeps nobody waiting.
//
// Clauses: K-2.11, K-10.1
// Mutation: leave the case of over out of compare.
func TestClosedStoreAnswers(t *testing.T) {
	t.Parallel()
	alice := newClient(t, options(t), "alice", time.Minute)
	alice.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	_, err := alice.Acquire(ctx, alice.wants("k"))
	if unreachable := (*lockstore.UnreachableError)(nil); !errors.As(err, &unreachable) || ctx.Err() != nil {
		t.Errorf("a closed store: %v", err)
	}
}

package postgres_test

import (
	"context"
	"errors"
	"io"
	"net"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/lockstore/postgres"
	"github.com/dlockctl/dlockctl/internal/pgtest"
)

// proxy stands between a store and its server, and can lose what one of them
// says.
type proxy struct {
	listener net.Listener
	server   string
	// loseAnswers and loseRequests cut the connection instead of passing on.
	loseAnswers, loseRequests atomic.Bool
}

func newProxy(t *testing.T, server string) *proxy {
	t.Helper()
	var lc net.ListenConfig
	listener, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return proxyOn(t, listener, server)
}

func proxyOn(t *testing.T, listener net.Listener, server string) *proxy {
	t.Helper()
	p := &proxy{listener: listener, server: server}
	done := make(chan struct{})
	ctx := t.Context()
	go func() {
		defer close(done)
		p.serve(ctx)
	}()
	t.Cleanup(func() { _ = listener.Close(); <-done })
	return p
}

func (p *proxy) serve(ctx context.Context) {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return // closed at the end of the test
		}
		server, err := (&net.Dialer{}).DialContext(ctx, "tcp", p.server)
		if err != nil {
			_ = client.Close()
			continue
		}
		go p.pass(client, server, &p.loseRequests)
		go p.pass(server, client, &p.loseAnswers)
	}
}

// pass copies until either side ends, or until it is to lose what it has read.
func (p *proxy) pass(from, to net.Conn, lose *atomic.Bool) {
	defer from.Close()
	defer to.Close()
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		if err != nil && !errors.Is(err, io.EOF) {
			return
		}
		if n > 0 && lose.Load() {
			return
		}
		if _, werr := to.Write(buf[:n]); err != nil || werr != nil {
			return
		}
	}
}

// throughProxy is a store that reaches lockdb by way of a proxy.
func throughProxy(t *testing.T, b bundle, as func(postgres.Options) postgres.Options) (*postgres.Store, *proxy) {
	t.Helper()
	p := newProxy(t, net.JoinHostPort("127.0.0.1", strconv.Itoa(b.dbs.Lock.Server.Port)))
	opts := options(t, b.dbs)
	opts.Config.Host = "127.0.0.1"
	opts.Config.Port = uint16(p.listener.Addr().(*net.TCPAddr).Port)
	opts.Config.Fallbacks = nil
	opts.MaxConns = 1
	return open(t, as(opts)), p
}

// eachWay runs test as a store works on its own session, and as it works behind
// a pooler.
func eachWay(t *testing.T, test func(t *testing.T, b bundle, as func(postgres.Options) postgres.Options)) {
	t.Helper()
	for name, as := range map[string]func(postgres.Options) postgres.Options{
		"direct": func(o postgres.Options) postgres.Options { return o },
		"pooled": postgres.Pooled,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, setup(t, 16), as)
		})
	}
}

// An acquire whose answer is lost after COMMIT was carried out is unknown, not
// failed and not granted; the same session re-enters, so nothing is orphaned. A
// release whose answer is lost is unknown and may be repeated.
//
// Clauses: K-1.4, K-2.7, K-2.9
// Mutation: classify an error that is no PgError as a plain failure.
func TestLostAnswerIsUnknown(t *testing.T) {
	t.Parallel()
	eachWay(t, func(t *testing.T, b bundle, as func(postgres.Options) postgres.Options) {
		store, p := throughProxy(t, b, as)
		session := b.session(t, "alice")
		params := lockstore.AcquireParams{Key: "k", Owner: "alice", Session: session, TTL: time.Hour}
		warmUp(t, store, params)

		p.loseAnswers.Store(true)
		grant, err := store.Acquire(t.Context(), params)
		if _, ok := errors.AsType[*lockstore.UnknownOutcomeError](err); !ok || grant.Token != 0 {
			t.Fatalf("acquire with its answer lost: %+v, %v, want unknown", grant, err)
		}
		p.loseAnswers.Store(false)
		// What was sent in one piece was carried out, though nobody was told.
		var first lockstore.Entry
		pgtest.Eventually(t, "the lost grant stands", func(ctx context.Context) (bool, error) {
			var err error
			first, err = b.store.Show(ctx, "k")
			if errors.Is(err, lockstore.ErrNotFound) {
				return false, nil
			}
			return true, err
		})
		again, err := store.Acquire(t.Context(), params)
		if err != nil || again.Token <= first.Token {
			t.Fatalf("retry under the same session: %+v, %v, want a token above %s", again, err, first.Token)
		}

		warmUp(t, store, params)
		p.loseAnswers.Store(true)
		if _, err := store.Release(t.Context(), "k", again.Token); !isUnknown(err) {
			t.Fatalf("release with its answer lost: %v, want unknown", err)
		}
		p.loseAnswers.Store(false)
		pgtest.Eventually(t, "the release is carried out", func(ctx context.Context) (bool, error) {
			_, err := b.store.Show(ctx, "k")
			return errors.Is(err, lockstore.ErrNotFound), nil
		})
		if released, err := store.Release(t.Context(), "k", again.Token); err != nil || !released.Stale {
			t.Errorf("release repeated: %+v, %v, want stale", released, err)
		}
	})
}

// warmUp connects and has the statements described, so that what is lost next
// is the answer to the statement itself.
func warmUp(t *testing.T, store *postgres.Store, params lockstore.AcquireParams) {
	t.Helper()
	params.Key = "warm"
	grant, err := store.Acquire(t.Context(), params)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.Release(t.Context(), params.Key, grant.Token); err != nil {
		t.Fatal(err)
	}
}

// What is cut off while the statements are still being described was never
// sent: unreachable, and nothing to wonder about.
//
// Clauses: K-2.9
// Mutation: drop the ErrPreprocessingBatch case of classify.
func TestCutBeforeSendingIsNotUnknown(t *testing.T) {
	t.Parallel()
	eachWay(t, func(t *testing.T, b bundle, as func(postgres.Options) postgres.Options) {
		store, p := throughProxy(t, b, as)
		session := b.session(t, "alice")
		p.loseRequests.Store(true)
		_, err := store.Acquire(t.Context(), lockstore.AcquireParams{Key: "k", Owner: "alice", Session: session, TTL: time.Hour})
		if _, ok := errors.AsType[*lockstore.UnreachableError](err); !ok {
			t.Errorf("acquire cut off while described: %v, want unreachable", err)
		}
		if _, err := b.store.Show(t.Context(), "k"); !errors.Is(err, lockstore.ErrNotFound) {
			t.Errorf("the key: %v, want not found", err)
		}
	})
}

// A request that was lost on the way is unknown as well: the store cannot tell.
//
// Clauses: K-2.9
// Mutation: classify an error that is no PgError as a plain failure.
func TestLostRequestIsUnknown(t *testing.T) {
	t.Parallel()
	eachWay(t, func(t *testing.T, b bundle, as func(postgres.Options) postgres.Options) {
		store, p := throughProxy(t, b, as)
		session := b.session(t, "alice")
		params := lockstore.AcquireParams{Key: "k", Owner: "alice", Session: session, TTL: time.Hour}
		warmUp(t, store, params)
		p.loseRequests.Store(true)
		_, err := store.Acquire(t.Context(), params)
		if !isUnknown(err) {
			t.Errorf("acquire with its request lost: %v, want unknown", err)
		}
		if _, err := b.store.Show(t.Context(), "k"); !errors.Is(err, lockstore.ErrNotFound) {
			t.Errorf("the key: %v, want not found", err)
		}
	})
}

// A grant whose COMMIT is refused is shown to nobody: the rows that came before
// it count for nothing.
//
// Clauses: K-1.4
// Mutation: return the grant before the COMMIT's answer is read.
func TestNoTokenBeforeCommit(t *testing.T) {
	t.Parallel()
	eachWay(t, func(t *testing.T, b bundle, as func(postgres.Options) postgres.Options) {
		store := open(t, as(options(t, b.dbs)))
		session := b.session(t, "alice")
		b.exec(t, `CREATE FUNCTION refuse_at_commit() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'refused at commit'; END $$`)
		b.exec(t, `CREATE CONSTRAINT TRIGGER refuse_at_commit AFTER INSERT ON lock_entry DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION refuse_at_commit()`)
		grant, err := store.Acquire(t.Context(), lockstore.AcquireParams{Key: "k", Owner: "alice", Session: session, TTL: time.Hour})
		if err == nil || isUnknown(err) || grant.Token != 0 {
			t.Errorf("a grant refused at COMMIT: %+v, %v, want a plain failure and no token", grant, err)
		}
		b.exec(t, `DROP TRIGGER refuse_at_commit ON lock_entry`)
		b.acquire(t, "k", "alice", session, time.Hour)
	})
}

func isUnknown(err error) bool {
	_, ok := errors.AsType[*lockstore.UnknownOutcomeError](err)
	return ok
}

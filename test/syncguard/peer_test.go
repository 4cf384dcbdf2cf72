//go:build peer

// Package syncguard_test runs this program's store beside the library itself, on the
// same rows. `make syncguard-peer SYNCGUARD=CHECKOUT` bundles the library and names the
// bundle in PEER_BUNDLE; it needs node and npm.
package syncguard_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"

	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/lockstore/syncguard"
	"github.com/dlockctl/dlockctl/internal/pgtest"
	"github.com/dlockctl/dlockctl/migrations"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// database has SyncGuard's tables as its shipped file makes them.
func database(t *testing.T) pgtest.DB {
	t.Helper()
	db := pgtest.Servers(t, 16).Lock.EmptyDB(t)
	for _, file := range []string{"syncguard/V1__create_locks_and_fence_counters.sql", "audit/syncguard/R__keep_audit.sql"} {
		ddl, err := migrations.FS.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := db.Conn(t, "t_owner").Exec(t.Context(), string(ddl)); err != nil {
			t.Fatal(err)
		}
	}
	return db
}

func store(t *testing.T, db pgtest.DB) *syncguard.Store {
	t.Helper()
	s, err := syncguard.Open(t.Context(), syncguard.Options{Config: db.Config(t, "t_owner"), MaxConns: 4})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// answer is what the library says: of a grant, of a lock it looked up, or why not.
type answer struct {
	OK                           bool
	LockID, Fence, Reason, Error string
	KeyHash, LockIDHash          string
	ExpiresAtMs, AcquiredAtMs    int64
}

// library is a Node process with the library in it.
type library struct {
	in  io.Writer
	out *bufio.Reader
}

func start(t *testing.T, db pgtest.DB) *library {
	t.Helper()
	bundle := os.Getenv("PEER_BUNDLE")
	if bundle == "" {
		t.Fatal("PEER_BUNDLE is not set: run make syncguard-peer SYNCGUARD=CHECKOUT")
	}
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), "node", bundle)
	cmd.Env = append(os.Environ(), "PEER_DSN="+db.DSN("t_owner"))
	cmd.Stderr = t.Output()
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(in.Close(), cmd.Wait()); err != nil {
			t.Errorf("the library's process: %v", err)
		}
	})
	return &library{in: in, out: bufio.NewReader(out)}
}

func (l *library) ask(op string, opts map[string]any) (answer, error) {
	opts["op"] = op
	line, err := json.Marshal(opts)
	if err != nil {
		return answer{}, err
	}
	if _, err := l.in.Write(append(line, '\n')); err != nil {
		return answer{}, err
	}
	line, err = l.out.ReadBytes('\n')
	if err != nil {
		return answer{}, fmt.Errorf("read the library's answer to %s: %w", op, err)
	}
	var a answer
	if err := json.Unmarshal(line, &a); err != nil {
		return answer{}, fmt.Errorf("read %s: %w", line, err)
	}
	if a.Error != "" {
		return a, fmt.Errorf("%s: %s", op, a.Error)
	}
	return a, nil
}

func (l *library) must(t *testing.T, op string, opts map[string]any) answer {
	t.Helper()
	a, err := l.ask(op, opts)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func isHeld(err error) bool {
	_, held := errors.AsType[*lockstore.HeldError](err)
	return held
}

// Each finds, refuses, prolongs and ends what the other has granted, whatever the key,
// and their fences are one sequence.
//
// Clauses: K-10.2
// Mutation: write fences of 14 digits, or lock ids of another alphabet.
func TestEachOthersGrants(t *testing.T) {
	t.Parallel()
	db := database(t)
	lib, own := start(t, db), store(t, db)
	for _, key := range []string{"account:42", "cafe\u0301", "\u212B", "a b'c\"d", "\u0130stanbul", "\U0001F512", "%$1\\"} {
		t.Logf("key %q", key)
		eachOther(t, lib, own, key)
	}
}

func eachOther(t *testing.T, lib *library, own *syncguard.Store, key string) {
	t.Helper()
	theirs := lib.must(t, "acquire", map[string]any{"key": key, "ttlMs": 60_000})
	entry, err := own.Show(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	looked := lib.must(t, "lookup", map[string]any{"key": key})
	if !theirs.OK || fmt.Sprintf("%015d", entry.Token) != theirs.Fence || entry.ExpiresAt.UnixMilli() != theirs.ExpiresAtMs || entry.KeyHash != looked.KeyHash || entry.LockIDHash != looked.LockIDHash {
		t.Errorf("shown %+v, the library granted %+v and looked up %+v", entry, theirs, looked)
	}
	if _, err := own.Acquire(t.Context(), lockstore.AcquireParams{Key: key, Owner: "peer", TTL: time.Minute}); !isHeld(err) {
		t.Errorf("acquired what the library holds: %v", err)
	}
	if _, err := own.Release(t.Context(), key, entry.Token); err != nil {
		t.Fatal(err)
	}
	if a := lib.must(t, "extend", map[string]any{"lockId": theirs.LockID, "ttlMs": 60_000}); a.OK {
		t.Errorf("the library extended what was released: %+v", a)
	}

	grant, err := own.Acquire(t.Context(), lockstore.AcquireParams{Key: key, Owner: "peer", TTL: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	if grant.Token != entry.Token+1 {
		t.Errorf("token %s after the library's %s", grant.Token, theirs.Fence)
	}
	if a := lib.must(t, "acquire", map[string]any{"key": key, "ttlMs": 1000}); a.OK || a.Reason != "locked" {
		t.Errorf("the library was granted what is held here: %+v", a)
	}
	if a := lib.must(t, "isLocked", map[string]any{"key": key}); !a.OK {
		t.Error("the library does not see the lock")
	}
	if a := lib.must(t, "extend", map[string]any{"lockId": grant.LockID, "ttlMs": 120_000}); !a.OK || a.ExpiresAtMs <= grant.ExpiresAt.UnixMilli() {
		t.Errorf("the library extended by this program's lock id: %+v", a)
	}
	if a := lib.must(t, "release", map[string]any{"lockId": grant.LockID}); !a.OK {
		t.Errorf("the library released by this program's lock id: %+v", a)
	}
	if _, err := own.Renew(t.Context(), key, grant.Token, time.Minute); !errors.Is(err, lockstore.ErrLockLost) {
		t.Errorf("renewed what the library has released: %v", err)
	}
	theirs = lib.must(t, "acquire", map[string]any{"key": key, "ttlMs": 60_000})
	if theirs.Fence != fmt.Sprintf("%015d", grant.Token+1) {
		t.Errorf("the library's fence %s after token %s", theirs.Fence, grant.Token)
	}
	if a := lib.must(t, "release", map[string]any{"lockId": theirs.LockID}); !a.OK {
		t.Errorf("the library released its own: %+v", a)
	}
}

// Six clients of the library and six of this program contend for three keys. While one
// holds a key, nobody else does: a plain read and a later write of one row lose nothing;
// and each grant's fence is above all that the row has seen.
//
// Clauses: K-10.2, K-1.2
// Mutation: hash something else than the key in queries/lock_key.sql.
func TestContendForOneKey(t *testing.T) {
	t.Parallel()
	db := database(t)
	if _, err := db.Conn(t, "t_owner").Exec(t.Context(), `CREATE TABLE seen (key text PRIMARY KEY, fence bigint NOT NULL, n bigint NOT NULL); INSERT INTO seen SELECT 'k' || i, 0, 0 FROM generate_series(0, 2) AS i`); err != nil {
		t.Fatal(err)
	}
	pool := db.Pool(t, "t_owner")
	const clients, turns = 6, 200
	var g errgroup.Group
	for i := range clients {
		lib, own := start(t, db), store(t, db)
		key := func(turn int) string { return fmt.Sprintf("k%d", (i+turn)%3) }
		g.Go(func() error {
			for turn := range turns {
				var got answer
				for !got.OK {
					var err error
					if got, err = lib.ask("acquire", map[string]any{"key": key(turn), "ttlMs": 60_000}); err != nil {
						return err
					}
				}
				fence, err := strconv.ParseInt(got.Fence, 10, 64)
				if err != nil {
					return err
				}
				if err := critical(t.Context(), pool, key(turn), fence); err != nil {
					return fmt.Errorf("under the library's fence %s: %w", got.Fence, err)
				}
				if a, err := lib.ask("release", map[string]any{"lockId": got.LockID}); err != nil || !a.OK {
					return fmt.Errorf("release: %+v, %w", a, err)
				}
			}
			return nil
		})
		g.Go(func() error {
			for turn := range turns {
				var grant lockstore.Grant
				for {
					var err error
					if grant, err = own.Acquire(t.Context(), lockstore.AcquireParams{Key: key(turn), Owner: "peer", TTL: time.Minute}); err == nil {
						break
					} else if !isHeld(err) {
						return err
					}
				}
				if err := critical(t.Context(), pool, grant.Key, int64(grant.Token)); err != nil {
					return fmt.Errorf("under token %s: %w", grant.Token, err)
				}
				if _, err := own.Release(t.Context(), grant.Key, grant.Token); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	var n, fences int64
	if err := pool.QueryRow(t.Context(), `SELECT (SELECT sum(n) FROM seen), (SELECT sum(fence) FROM syncguard_fence_counters)`).Scan(&n, &fences); err != nil {
		t.Fatal(err)
	}
	if n != 2*clients*turns || fences != n {
		t.Errorf("%d turns are written and %d fences drawn, of %d", n, fences, 2*clients*turns)
	}
}

// critical reads, then writes what it read and one more, in two transactions: two
// holders at once would lose a turn.
func critical(ctx context.Context, pool *pgxpool.Pool, key string, fence int64) error {
	var n int64
	if err := pool.QueryRow(ctx, `SELECT n FROM seen WHERE key = $1`, key).Scan(&n); err != nil {
		return err
	}
	tag, err := pool.Exec(ctx, `UPDATE seen SET n = $2, fence = $3 WHERE key = $1 AND fence < $3 AND n = $2 - 1`, key, n+1, fence)
	if err == nil && tag.RowsAffected() != 1 {
		err = fmt.Errorf("fence %d is not above what %q has seen, or another one wrote meanwhile", fence, key)
	}
	return err
}

package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/lockstore/mark"
	"github.com/dlockctl/dlockctl/internal/lockstore/postgres"
	"github.com/dlockctl/dlockctl/internal/pgtest"
)

// closedFor requires a refusal that names the sign and the command.
func closedFor(t *testing.T, what string, err error, sign, command string) {
	t.Helper()
	closed, ok := errors.AsType[*lockstore.GrantsClosedError](err)
	if !ok || !strings.Contains(closed.Reason, sign) || !strings.Contains(closed.Hint, command) {
		t.Errorf("%s: %#v, want grants closed for %q, with %q", what, err, sign, command)
	}
}

const plan = "dlockctl restore plan"

func marked(opts postgres.Options, dir string) postgres.Options {
	opts.MarkDir = dir
	return opts
}

// client is a store with a session.
type client struct {
	*postgres.Store
	session lockstore.SessionID
}

func newClient(t *testing.T, opts postgres.Options) client {
	t.Helper()
	store := open(t, opts)
	session, err := store.CreateSession(t.Context(), "alice", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	return client{store, session.ID}
}

func (c client) params(key string) lockstore.AcquireParams {
	return lockstore.AcquireParams{Key: key, Owner: "alice", Session: c.session, TTL: time.Hour}
}

// show acquires so many keys and returns their tokens, as a client is shown them.
func (c client) show(t *testing.T, n int) map[lockstore.Token]bool {
	t.Helper()
	tokens := map[lockstore.Token]bool{}
	for i := range n {
		grant, err := c.Acquire(t.Context(), c.params(fmt.Sprintf("%s-%d-%d", c.session, c.Shown(), i)))
		if err != nil {
			t.Fatal(err)
		}
		tokens[grant.Token] = true
	}
	return tokens
}

func (b bundle) setSequence(t *testing.T, to lockstore.Token) {
	t.Helper()
	b.exec(t, `SELECT setval('fencing_token_seq', $1)`, to)
}

// A token that is not above the highest shown when it was asked for is shown to
// nobody, and its grant is given back: of a single try, a batch, a wait and a
// fence. The sign stays when the source has passed what this process had seen. A
// store that has seen nothing shows it: the control.
//
// Clauses: K-7.6, K-1.3
// Mutation: drop the first comparison of (*detector).clear, or setBack from
// refusal; the test's second store, which has shown nothing, is the control.
func TestTokenIssuedAgain(t *testing.T) {
	t.Parallel()
	eachWay(t, func(t *testing.T, b bundle, as func(postgres.Options) postgres.Options) {
		operator := options(t, b.dbs)
		operator.Config = b.dbs.Lock.Config(t, "t_operator")
		ways := map[string]func(context.Context, client) error{
			"acquire": func(ctx context.Context, c client) error {
				_, err := c.Acquire(ctx, c.params("k"))
				return err
			},
			"batch": func(ctx context.Context, c client) error {
				_, err := c.AcquireBatch(ctx, []lockstore.AcquireParams{c.params("k"), c.params("l")})
				return err
			},
			"wait": func(ctx context.Context, c client) error {
				_, err := lockstore.Wait(ctx, c, lockstore.WaitParams{AcquireParams: c.params("k"), Max: time.Minute})
				return err
			},
			"fence": func(ctx context.Context, c client) error {
				held, err := c.List(ctx, lockstore.Filter{Owner: "alice", Limit: 1})
				if err != nil {
					return err
				}
				_, err = c.Revoke(ctx, lockstore.RevokeParams{
					Key: held[0].Key, Token: held[0].Token, Operator: "erin", Reason: "fence",
					FenceAccounts: []string{"10000000-0000-4000-8000-000000000001"},
				})
				return err
			},
		}
		base := lockstore.Token(0)
		for name, way := range ways {
			base += 1000
			b.setSequence(t, base)
			c := newClient(t, as(operator))
			c.show(t, 3)
			entries := b.count(t, "lock_entry")
			b.setSequence(t, base-200)
			closedFor(t, name, way(t.Context(), c), "was restored", plan)
			if left := b.count(t, "lock_entry"); left != entries {
				t.Errorf("%s: %d entries, and %d before: not given back", name, left, entries)
			}
			if fences := b.count(t, "operator_log"); fences != 0 {
				t.Errorf("%s: a fence was logged", name)
			}
			b.setSequence(t, base+500)
			closedFor(t, name+" once the source has passed it", way(t.Context(), c), "was restored", plan)

			// The journal keeps the very same numbers from being drawn here again.
			control := newClient(t, as(operator))
			b.setSequence(t, base-100)
			for token := range control.show(t, 1) {
				if token > c.Shown() {
					t.Errorf("%s: the control was shown %s, above %s", name, token, c.Shown())
				}
			}
		}
	})
}

// A number that the journal has already is a sign too, whoever drew it before.
//
// Clauses: K-7.6, K-1.3
// Mutation: drop the journal's case from classify or from compare.
func TestTokenInJournal(t *testing.T) {
	t.Parallel()
	eachWay(t, func(t *testing.T, b bundle, as func(postgres.Options) postgres.Options) {
		newClient(t, options(t, b.dbs)).show(t, 3)
		c := newClient(t, as(options(t, b.dbs)))
		b.setSequence(t, 2)
		_, err := c.Acquire(t.Context(), c.params("k"))
		closedFor(t, "acquire", err, "journal", plan)
		b.setSequence(t, 1000)
		_, err = c.AcquireBatch(t.Context(), []lockstore.AcquireParams{c.params("k"), c.params("l")})
		closedFor(t, "batch once the source has passed it", err, "journal", plan)
		d := newClient(t, as(options(t, b.dbs)))
		b.setSequence(t, 2)
		results, err := d.AcquireBatch(t.Context(), []lockstore.AcquireParams{d.params("k"), d.params("l")})
		if err != nil {
			t.Fatal(err)
		}
		for _, result := range results { // each by itself, as with a closed gate
			closedFor(t, "batch", result.Err, "journal", plan)
		}
		b.setSequence(t, 2)
		_, err = postgres.Open(t.Context(), as(options(t, b.dbs)))
		closedFor(t, "open", err, "journal", plan)
		if n := b.count(t, "lock_entry"); n != 3 {
			t.Errorf("%d entries of 3: not given back", n)
		}
	})
}

func (b bundle) count(t *testing.T, table string) (n int) {
	t.Helper()
	if err := b.super.QueryRow(t.Context(), `SELECT count(*) FROM `+pgx.Identifier{table}.Sanitize()).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// The mark is made once and lockdb says so; who is then not told where it is, or
// does not find it whole, grants nothing and draws no fence, and goes on releasing.
//
// Clauses: K-7.6
// Mutation: drop a case of (*detector).openMark, or create where kept is true.
func TestMarkIsKept(t *testing.T) {
	t.Parallel()
	eachWay(t, func(t *testing.T, b bundle, as func(postgres.Options) postgres.Options) {
		before := newClient(t, as(options(t, b.dbs)))
		before.show(t, 2)
		dir := t.TempDir()
		first := newClient(t, as(marked(options(t, b.dbs), dir)))
		var deployment string
		var kept bool
		if err := b.super.QueryRow(t.Context(), `SELECT deployment_id::text, kept FROM outside_mark`).Scan(&deployment, &kept); err != nil || !kept {
			t.Fatalf("kept %t, %v", kept, err)
		}
		m, err := mark.Open(dir, deployment)
		if err != nil {
			t.Fatal(err)
		}
		if state, err := m.Read(); err != nil || state.Issued != before.Shown() {
			t.Errorf("made with %+v, %v, want issued %s", state, err, before.Shown())
		}
		first.show(t, 2)
		first.Close()
		state, err := m.Read()
		if err != nil || state.Issued != first.Shown() || state.Ceiling < state.Issued {
			t.Errorf("after the last word: %+v, %v, want issued %s", state, err, first.Shown())
		}

		lost := "restore fast-forward --accept-missing outside_mark"
		damage := func() { replaceFile(t, m.Path(), `{"version": 1}`) }
		remove := func() { replaceFile(t, m.Path(), "") }
		for _, tt := range []struct {
			name, dir, sign, fix string
			do                   func()
		}{
			{"not told where", "", "not told where", "mark_dir", func() {}},
			{"no folder", filepath.Join(dir, "nowhere"), "nowhere", "mark_dir", func() {}},
			{"another folder", t.TempDir(), "missing", lost, func() {}},
			{"damaged", dir, "checksum", lost, damage},
			{"lost", dir, "missing", lost, remove},
		} {
			tt.do()
			opts := as(marked(options(t, b.dbs), tt.dir))
			_, err := postgres.Open(t.Context(), opts)
			refused(t, tt.name, err, tt.sign, tt.fix)

			opts.Config, opts.Purpose = b.dbs.Lock.Config(t, "t_operator"), postgres.Changing
			changing := newClient(t, opts)
			_, err = changing.Acquire(t.Context(), changing.params(tt.name))
			refused(t, tt.name+", acquire", err, tt.sign, tt.fix)
			held, err := changing.List(t.Context(), lockstore.Filter{Limit: 1})
			if err != nil || len(held) == 0 {
				t.Fatalf("%v, %v", held, err)
			}
			_, err = changing.Revoke(t.Context(), lockstore.RevokeParams{
				Key: held[0].Key, Token: held[0].Token, Operator: "erin", Reason: "fence",
				FenceAccounts: []string{"10000000-0000-4000-8000-000000000001"},
			})
			refused(t, tt.name+", fence", err, tt.sign, tt.fix)
			if released, err := changing.Release(t.Context(), held[0].Key, held[0].Token+1); err != nil || !released.Stale {
				t.Errorf("%s: release: %+v, %v", tt.name, released, err)
			}
		}
	})
}

// refused takes either of the two errors of a refusal at open.
func refused(t *testing.T, what string, err error, sign, fix string) {
	t.Helper()
	if unsafe, ok := errors.AsType[*lockstore.UnsafeError](err); ok {
		if unsafe.Clause != "K-7.6" || !strings.Contains(unsafe.Problem, sign) || !strings.Contains(unsafe.Fix, fix) {
			t.Errorf("%s: %+v, want %q and %q", what, unsafe, sign, fix)
		}
		return
	}
	closedFor(t, what, err, sign, fix)
}

func replaceFile(t *testing.T, path, text string) {
	t.Helper()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if text == "" {
		return
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// A grant above the ceiling is shown when the raise is on the disk; where it cannot
// be, it is given back, and grants go on when it can again.
//
// Clauses: K-7.6
// Mutation: drop Cover from (*detector).clear, or the release from (*Store).show.
func TestGrantAboveTheCeiling(t *testing.T) {
	t.Parallel()
	eachWay(t, func(t *testing.T, b bundle, as func(postgres.Options) postgres.Options) {
		dir := filepath.Join(t.TempDir(), "mark")
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		c := newClient(t, as(marked(options(t, b.dbs), dir)))
		c.show(t, 1)
		b.setSequence(t, 3*mark.Block)
		if err := os.Rename(dir, dir+".away"); err != nil {
			t.Fatal(err)
		}
		grant, err := c.Acquire(t.Context(), c.params("k"))
		closedFor(t, "without the folder", err, "mark", "")
		if grant.Token != 0 || b.count(t, "lock_entry") != 1 {
			t.Errorf("token %s was shown, or not given back", grant.Token)
		}
		if err := os.Rename(dir+".away", dir); err != nil {
			t.Fatal(err)
		}
		pgtest.Eventually(t, "grants go on", func(ctx context.Context) (bool, error) {
			_, err := c.Acquire(ctx, c.params("k"))
			return err == nil, nil
		})
	})
}

// What one store has shown another hears through the mark, in time for the next
// grant on a connection that it has had before.
//
// Clauses: K-7.6
// Mutation: drop Hear from (*Teller).tell, or Flush.
func TestOthersTokensCount(t *testing.T) {
	t.Parallel()
	eachWay(t, func(t *testing.T, b bundle, as func(postgres.Options) postgres.Options) {
		dir := t.TempDir()
		listener, speaker := newClient(t, as(marked(options(t, b.dbs), dir))), newClient(t, as(marked(options(t, b.dbs), dir)))
		listener.show(t, 1)
		low := listener.Shown()
		b.setSequence(t, 5000)
		speaker.show(t, 1)
		pgtest.Eventually(t, "it is heard", func(context.Context) (bool, error) { return listener.Shown() >= speaker.Shown(), nil })
		b.setSequence(t, low)
		_, err := listener.Acquire(t.Context(), listener.params("k"))
		closedFor(t, "after what another has shown", err, "the outside mark", plan)
	})
}

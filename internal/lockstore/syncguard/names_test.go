package syncguard_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/lockstore/syncguard"
	"github.com/dlockctl/dlockctl/internal/pgtest"
)

// Other tables and schemas are used as they are called, quoted as the library quotes
// its names, and do not see each other's locks.
//
// Clauses: K-10.2
// Mutation: leave the quotes out of Quoted.
func TestOtherNames(t *testing.T) {
	t.Parallel()
	eachMajor(t, func(t *testing.T, b bundle) {
		odd := syncguard.Options{Schema: `An "odd" schema`, LockTable: "MyLocks", FenceTable: "select", AuditTable: "_Audit9"}
		b.exec(t, `CREATE SCHEMA `+pgx.Identifier{odd.Schema}.Sanitize())
		b.exec(t, `CREATE SCHEMA other`)
		conn := b.db.Conn(t, "t_owner")
		if _, err := conn.Exec(t.Context(), `SET search_path = other`); err != nil {
			t.Fatal(err)
		}
		install(t, conn, syncguard.Options{})
		install(t, conn, odd)
		odd.Config = b.db.Config(t, "t_owner")
		bySearchPath := syncguard.Options{Config: b.db.Config(t, "t_owner")}
		bySearchPath.Config.RuntimeParams["search_path"] = "other"
		for _, store := range []*syncguard.Store{b.store, open(t, odd), open(t, bySearchPath)} {
			grant, err := store.Acquire(t.Context(), wants("k", time.Minute))
			if err != nil || grant.Token != 1 {
				t.Errorf("acquired %+v, %v, want the first fence of a table of its own", grant, err)
			}
			if _, err := store.Revoke(t.Context(), lockstore.RevokeParams{Key: "k", Token: 1, Operator: "erin", Reason: "why"}); err != nil {
				t.Error(err)
			}
			if _, err := store.Acquire(t.Context(), wants("k", time.Minute)); err != nil {
				t.Error(err)
			}
			if found, err := store.Revocations(t.Context(), lockstore.RevocationFilter{}); err != nil || len(found) != 1 {
				t.Errorf("its audit: %+v, %v", found, err)
			}
		}
		if n := one[int](t, b, `SELECT count(*) FROM "An ""odd"" schema"."MyLocks"`); n != 1 {
			t.Errorf("%d rows in the table of that name, want 1", n)
		}
	})
}

// Names that the library would not take, that PostgreSQL would cut off, or that are
// the same are refused before anything is sent.
//
// Clauses: K-10.2
// Mutation: drop the pattern, the length or the comparison of NamesOf.
func TestNamesRefused(t *testing.T) {
	t.Parallel()
	for want, opts := range map[string]syncguard.Options{
		`lock table "a b"`:                     {LockTable: "a b"},
		`"x\"; DROP TABLE y; --" is not`:       {LockTable: `x"; DROP TABLE y; --`},
		`fence table "9lives"`:                 {FenceTable: "9lives"},
		`"public.locks" is not a name`:         {LockTable: "public.locks"},
		"is longer than the 63":                {LockTable: strings.Repeat("l", 64)},
		`schema "` + strings.Repeat("s", 64):   {Schema: strings.Repeat("s", 64)},
		"need three names":                     {LockTable: "same", FenceTable: "same"},
		`"locks\n" is not a name`:              {LockTable: "locks\n"},
		`"syncguard_locks" need three names`:   {AuditTable: syncguard.DefaultLockTable},
		`schema "a\x00b" is not text that a`:   {Schema: "a\x00b"},
		`audit table "été" is not a name that`: {AuditTable: "été"},
	} {
		if _, err := syncguard.NamesOf(opts); !errors.Is(err, lockstore.ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want a refusal that says %s", err, want)
		}
	}
	defaults, err := syncguard.NamesOf(syncguard.Options{})
	if err != nil || defaults != (syncguard.Names{Lock: "syncguard_locks", Fence: "syncguard_fence_counters", Audit: "dlockctl_syncguard_audit"}) {
		t.Errorf("defaults %+v, %v", defaults, err)
	}
}

// A statement's names are replaced where they stand for themselves, the indexes
// included, and nowhere else.
//
// Mutation: replace without word boundaries.
func TestNamesInStatements(t *testing.T) {
	t.Parallel()
	names, err := syncguard.NamesOf(syncguard.Options{Schema: "s", LockTable: "L", FenceTable: "F"})
	if err != nil {
		t.Fatal(err)
	}
	got := names.In("CREATE UNIQUE INDEX idx_syncguard_locks_lock_id ON syncguard_locks; my_syncguard_locks, syncguard_fence_counters.fence, syncguard_locks2")
	if want := `CREATE UNIQUE INDEX "idx_L_lock_id" ON "s"."L"; my_syncguard_locks, "s"."F".fence, syncguard_locks2`; got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
}

// Tables that are missing, or not as SyncGuard makes them, are refused at Open with
// what to do: the twin that its setup made in lower case above all.
//
// Clauses: K-10.2
// Mutation: drop any case of checkTable, or compare names alone in check_table.sql.
func TestOpenRefusesOtherTables(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		sql          string
		opts         syncguard.Options
		problem, fix string
	}{
		"lower-case twin": {
			`ALTER TABLE syncguard_locks RENAME TO mylocks`,
			syncguard.Options{LockTable: "MyLocks"},
			`no table "MyLocks", but there is "mylocks"`, "name it mylocks",
		},
		"no tables": {`DROP TABLE syncguard_locks, syncguard_fence_counters`, syncguard.Options{}, `no table "syncguard_locks"`, "dlockctl migrate up --target syncguard"},
		"a fence that is a number": {
			`ALTER TABLE syncguard_locks ALTER COLUMN fence TYPE bigint USING 0`, syncguard.Options{}, `table "syncguard_locks" has no column fence text`, "add what is missing",
		},
		"unique in the end only": {
			`ALTER TABLE syncguard_fence_counters DROP CONSTRAINT syncguard_fence_counters_pkey, ADD CONSTRAINT "Pk" PRIMARY KEY (fence_key) DEFERRABLE`,
			syncguard.Options{},
			`the key "Pk" of table "syncguard_fence_counters" is DEFERRABLE`, `ALTER TABLE "syncguard_fence_counters" DROP CONSTRAINT "Pk", ADD PRIMARY KEY (fence_key)`,
		},
		"counters without key_debug": {
			`ALTER TABLE syncguard_fence_counters DROP COLUMN key_debug`, syncguard.Options{}, `has no column key_debug`, "add what is missing",
		},
		"key not unique": {
			`ALTER TABLE syncguard_locks DROP CONSTRAINT syncguard_locks_pkey`, syncguard.Options{}, `column key of table "syncguard_locks" is not unique`, `ADD PRIMARY KEY (key)`,
		},
		"unique for some rows only": {
			`ALTER TABLE syncguard_fence_counters DROP CONSTRAINT syncguard_fence_counters_pkey; CREATE UNIQUE INDEX ON syncguard_fence_counters (fence_key) WHERE fence > 0`,
			syncguard.Options{},
			`column fence_key of table "syncguard_fence_counters" is not unique`, "ADD PRIMARY KEY (fence_key)",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			eachMajor(t, func(t *testing.T, b bundle) {
				b.exec(t, c.sql)
				c := c
				c.opts.Config = b.db.Config(t, "t_owner")
				store, err := syncguard.Open(t.Context(), c.opts)
				if err == nil {
					store.Close()
				}
				unsafe, ok := errors.AsType[*lockstore.UnsafeError](err)
				if !ok || !strings.Contains(unsafe.Problem, c.problem) || !strings.Contains(unsafe.Fix, c.fix) {
					t.Errorf("%v (%+v), want %q and %q", err, unsafe, c.problem, c.fix)
				}
			})
		})
	}
}

// A server that does not answer is unreachable, and no password is shown.
//
// Mutation: return the pool's own error.
func TestOpenUnreachable(t *testing.T) {
	t.Parallel()
	config := pgtest.Servers(t, 16).Lock.EmptyDB(t).Config(t, "t_owner")
	config.Port, config.Password = 1, "s3cret-password"
	_, err := syncguard.Open(t.Context(), syncguard.Options{Config: config})
	if _, ok := errors.AsType[*lockstore.UnreachableError](err); !ok || strings.Contains(err.Error(), "s3cret") {
		t.Errorf("%v, want unreachable", err)
	}
}

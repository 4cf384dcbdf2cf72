package syncguard_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/lockstore/syncguard"
)

// planted is something of the tables' own, and what is said of it.
type planted struct {
	sql, want string
	breaks    bool
}

const (
	lockTable, fenceTable = "public.syncguard_locks: ", "public.syncguard_fence_counters: "
	swallow               = `CREATE FUNCTION swallow() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';`
)

func actsPlanted() []planted {
	return []planted{
		{`CREATE RULE keep AS ON DELETE TO syncguard_locks DO INSTEAD NOTHING`, lockTable + "rule keep rewrites every DELETE", true},
		{`CREATE RULE tell AS ON INSERT TO syncguard_fence_counters DO ALSO NOTIFY x`, fenceTable + "rule tell rewrites every INSERT", true},
		{`CREATE RULE tell AS ON UPDATE TO syncguard_locks DO ALSO NOTIFY x; ALTER TABLE syncguard_locks DISABLE RULE tell`, "", false},
		{`CREATE TABLE "Kid" () INHERITS (syncguard_locks)`, lockTable + `the rows of public."Kid", which inherits from it, count as its own, and no index keeps a key from standing in both`, true},
		{swallow + `CREATE TRIGGER quiet BEFORE INSERT OR UPDATE ON syncguard_locks FOR EACH ROW EXECUTE FUNCTION swallow()`, lockTable + "trigger quiet runs swallow before every INSERT, UPDATE", false},
		{swallow + `CREATE TRIGGER late AFTER DELETE ON syncguard_fence_counters EXECUTE FUNCTION swallow()`, fenceTable + "trigger late runs swallow after every DELETE", false},
		{swallow + `CREATE TRIGGER off AFTER DELETE ON syncguard_locks EXECUTE FUNCTION swallow(); ALTER TABLE syncguard_locks DISABLE TRIGGER off`, "", false},
		{swallow + `CREATE TRIGGER emptied BEFORE TRUNCATE ON syncguard_locks EXECUTE FUNCTION swallow()`, "", false},
		{`ALTER TABLE syncguard_locks ENABLE ROW LEVEL SECURITY`, lockTable + "row-level security hides rows from other logins than t_owner", false},
		{`ALTER TABLE syncguard_locks ENABLE ROW LEVEL SECURITY; ALTER TABLE syncguard_locks FORCE ROW LEVEL SECURITY`, lockTable + "row-level security hides rows from t_owner", true},
		{`ALTER TABLE syncguard_locks ENABLE ROW LEVEL SECURITY; CREATE POLICY everybody ON syncguard_locks USING (true)`, "", false},
		{
			`ALTER TABLE syncguard_locks ENABLE ROW LEVEL SECURITY; ALTER TABLE syncguard_locks FORCE ROW LEVEL SECURITY; CREATE POLICY us ON syncguard_locks TO t_owner USING (true) WITH CHECK (true)`,
			lockTable + "row-level security hides rows from other logins than t_owner", false,
		},
		{
			`ALTER TABLE syncguard_locks ENABLE ROW LEVEL SECURITY; ALTER TABLE syncguard_locks FORCE ROW LEVEL SECURITY;
				CREATE POLICY everybody ON syncguard_locks USING (true); CREATE POLICY few ON syncguard_locks AS RESTRICTIVE USING (key < 'b')`,
			lockTable + "row-level security hides rows from t_owner", true,
		},
		{
			`ALTER TABLE syncguard_locks ENABLE ROW LEVEL SECURITY; ALTER TABLE syncguard_locks FORCE ROW LEVEL SECURITY;
				CREATE POLICY everybody ON syncguard_locks USING (true); CREATE POLICY few ON syncguard_locks AS RESTRICTIVE TO t_auditor USING (key < 'b')`,
			lockTable + "row-level security hides rows from other logins than t_owner", false,
		},
		{
			`ALTER TABLE syncguard_locks ENABLE ROW LEVEL SECURITY; ALTER TABLE syncguard_locks FORCE ROW LEVEL SECURITY; CREATE POLICY r ON syncguard_locks FOR SELECT USING (true);
				CREATE POLICY a ON syncguard_locks FOR INSERT WITH CHECK (true); CREATE POLICY w ON syncguard_locks FOR UPDATE USING (true); CREATE POLICY d ON syncguard_locks FOR DELETE USING (true)`,
			"", false,
		},
		{`ALTER TABLE syncguard_locks RENAME TO was; CREATE TABLE syncguard_locks (LIKE was, PRIMARY KEY (key)) PARTITION BY HASH (key); CREATE TABLE part PARTITION OF syncguard_locks FOR VALUES WITH (MODULUS 1, REMAINDER 0)`, "", false},
		{`ALTER TABLE syncguard_locks ENABLE ROW LEVEL SECURITY; ALTER TABLE syncguard_locks FORCE ROW LEVEL SECURITY; CREATE POLICY seen ON syncguard_locks FOR SELECT USING (true)`, lockTable + "row-level security hides rows from t_owner", true},
	}
}

// What acts on the tables beside their statements is named, and the statement that is
// said to end it does. What rewrites statements, or hides rows from this very login,
// keeps the store from opening; what only might get in the way does not.
//
// Clauses: K-10.2
// Mutation: leave a part out of queries/acts.sql, or checkActs out of Open.
func TestWhatActsOnTheTables(t *testing.T) {
	t.Parallel()
	names, err := syncguard.NamesOf(syncguard.Options{})
	if err != nil {
		t.Fatal(err)
	}
	eachMajor(t, func(t *testing.T, b bundle) {
		for _, p := range actsPlanted() {
			b.exec(t, `BEGIN`)
			if _, err := b.conn.PgConn().Exec(t.Context(), p.sql).ReadAll(); err != nil {
				t.Fatalf("%s: %v", p.sql, err)
			}
			acts, err := syncguard.Acts(t.Context(), b.conn, names.Quoted(names.Lock), names.Quoted(names.Fence))
			if err != nil {
				t.Fatal(err)
			}
			var said, fixes, want []string
			for _, act := range acts {
				said, fixes = append(said, act.String()), append(fixes, act.Fix)
			}
			if p.want != "" {
				want = []string{p.want}
			}
			if diff := cmp.Diff(want, said); diff != "" {
				t.Errorf("%s (-want +got):\n%s", p.sql, diff)
			}
			refused, unsafe := errors.AsType[*lockstore.UnsafeError](syncguard.CheckActs(t.Context(), b.conn, names))
			if unsafe != p.breaks || unsafe && (refused.Problem != p.want || !slices.Contains(fixes, refused.Fix)) {
				t.Errorf("%s is refused: %t (%v), want %t", p.sql, unsafe, refused, p.breaks)
			}
			for _, fix := range fixes {
				b.exec(t, fix)
			}
			if acts, err := syncguard.Acts(t.Context(), b.conn, names.Quoted(names.Lock), names.Quoted(names.Fence)); err != nil || len(acts) > 0 {
				t.Errorf("%s: after %q: %+v, %v", p.sql, fixes, acts, err)
			}
			b.exec(t, `ROLLBACK`)
		}
	})
}

// The store does not open on tables whose rows are hidden from its login, and opens on
// them for a login from which nothing is hidden.
//
// Clauses: K-10.2
// Mutation: leave checkActs out of Open.
func TestHiddenRowsAreRefused(t *testing.T) {
	t.Parallel()
	b := setup(t, 16)
	b.acquire(t, "k", time.Hour)
	b.exec(t, `GRANT SELECT, INSERT, UPDATE, DELETE ON syncguard_locks, syncguard_fence_counters TO t_lockapp`)
	b.exec(t, `ALTER TABLE syncguard_locks ENABLE ROW LEVEL SECURITY`)
	open(t, options(t, b.db))
	_, err := syncguard.Open(t.Context(), syncguard.Options{Config: b.db.Config(t, "t_lockapp")})
	unsafe, ok := errors.AsType[*lockstore.UnsafeError](err)
	if !ok || unsafe.Fix != `ALTER TABLE public.syncguard_locks DISABLE ROW LEVEL SECURITY` {
		t.Fatalf("open where the lock is hidden: %v (%+v)", err, unsafe)
	}
	b.exec(t, unsafe.Fix)
	open(t, syncguard.Options{Config: b.db.Config(t, "t_lockapp")})
}

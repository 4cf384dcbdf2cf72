package rewind_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgerrcode"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/lockstore/mark"
	"github.com/dlockctl/dlockctl/internal/lockstore/postgres"
	"github.com/dlockctl/dlockctl/internal/paystore"
	"github.com/dlockctl/dlockctl/internal/paystore/floor"
	"github.com/dlockctl/dlockctl/internal/pgtx"
	"github.com/dlockctl/dlockctl/internal/restore"
)

// life is a lockdb's, up to its end, with four who hold a lock then.
type life struct {
	*world
	// keeper had it already at the moment that comes back.
	keeper holder
	// acked has the rail's answer and has not posted; sent is about to ask the rail;
	// idle has a token, the last one of all, that no database but lockdb ever saw.
	acked, sent, idle holder
}

// The accounts of the four; nobody ever pays from the last.
var keepers, ackeds, sents, idles, others, nobodys = account(3), account(4), account(8), account(7), account(1), account(2)

// begins is what a backup knows of.
func (w *world) begins(t *testing.T, s *service) *life {
	t.Helper()
	s.works(t, "worker", others, 3)
	return &life{world: w, keeper: s.holds(t, "keeper", keepers)}
}

// goesOn is what is lost: enough tokens that no jump over a crash makes up for them.
func (l *life) goesOn(t *testing.T, s *service) {
	t.Helper()
	s.works(t, "worker", others, 2)
	for range 60 {
		s.releases(t, s.holds(t, "busy", others))
	}
	l.acked = s.holds(t, "acked", ackeds)
	s.takesUp(t, &l.acked)
	s.goes(t, l.acked, settles)
	l.sent = s.holds(t, "sent", sents)
	s.takesUp(t, &l.sent)
	s.goes(t, l.sent, submits)
	l.idle = s.holds(t, "idle", idles)
	s.takesUp(t, &l.idle)
	s.close()
}

// closed fails unless lockdb grants nobody anything, whoever asks and however.
func (l *life) closed(t *testing.T, lockdb place) {
	t.Helper()
	l.withheld(t, lockdb)
	lockdb.brief(t, func(conn *pgx.Conn) {
		closedTo(t, conn, "verbatim C1", verbatim(t))
		closedTo(t, conn, "a takeover by UPDATE", `UPDATE lock_entry SET owner_id = $2, session_id = $3 WHERE lock_key = $1 OR $4 > 0`)
	})
}

// withheld fails unless the store refuses to be opened for grants, and to grant.
func (l *life) withheld(t *testing.T, lockdb place) {
	t.Helper()
	if store, err := l.openLocks(t, lockdb, postgres.Granting); !isClosed(err) {
		t.Errorf("opened to grant: %v; want it closed", err)
		if err == nil {
			store.Close()
		}
	}
	store, err := l.openLocks(t, lockdb, postgres.Changing)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	s := &service{world: l.world, locks: store}
	_, err = s.acquire(t.Context(), "newcomer", others)
	if shut, ok := errors.AsType[*lockstore.GrantsClosedError](err); !ok || !strings.Contains(shut.Hint, "dlockctl restore") {
		t.Errorf("a grant was answered %v; want a refusal with the command to run", err)
	}
}

// verbatim is C1's acquire, as any other program has it.
func verbatim(t *testing.T) string {
	t.Helper()
	return statement(t, "lockstore/postgres", "acquire", "key", "owner_id", "session_id", "ttl_seconds")
}

// closedTo fails unless the gate refuses the statement. Nothing of it stays.
func closedTo(t *testing.T, conn *pgx.Conn, what, sql string) {
	t.Helper()
	tx, err := conn.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer undo(t, tx)
	session := uuid.NewString()
	if _, err := tx.Exec(t.Context(), `INSERT INTO lock_session (session_id, owner_id, expires_at)
		VALUES ($1, 'other', now() + interval '1 hour')`, session); err != nil {
		t.Fatal(err)
	}
	_, err = tx.Exec(t.Context(), sql, "account:"+others, "other", session, 60.0)
	if refused, ok := errors.AsType[*pgconn.PgError](err); !ok || refused.Code != pgerrcode.ObjectNotInPrerequisiteState || refused.ConstraintName != "lock_gate" {
		t.Errorf("%s was answered %v; want the gate's refusal", what, err)
	}
}

func isClosed(err error) bool {
	_, ok := errors.AsType[*lockstore.GrantsClosedError](err)
	return ok
}

// noteHere is the gate's guard taken out: this instance and timeline are noted as if
// an operator had fast-forwarded.
const noteHere = `UPDATE lock_gate SET system_identifier = (SELECT c.system_identifier FROM pg_control_system() c),
	timeline_id = ('x' || substr(pg_walfile_name(pg_current_wal_insert_lsn()), 1, 8))::bit(32)::int`

// damage is what becomes of a lockdb that grants without a fast-forward: the last
// token comes again, and its first holder pays while the second has the lock, who is
// then fenced out.
func (l *life) damage(t *testing.T, lockdb place) {
	t.Helper()
	s := l.serve(t, lockdb)
	var second holder
	for {
		second = s.holds(t, "newcomer", idles)
		if second.token >= l.idle.token {
			break
		}
		s.releases(t, second)
		if (l.idle.token-second.token)%2 == 1 {
			// A grant takes two numbers, and somebody's refused try one (K-2.8).
			lockdb.exec(t, `SELECT nextval('fencing_token_seq')`)
		}
	}
	if second.token != l.idle.token || !second.again {
		t.Fatalf("the newcomer has token %s, shown before: %v; want %s once more", second.token, second.again, l.idle.token)
	}
	s.goes(t, l.idle, posts)
	fence := ask[int64](t, l.paydb, `SELECT fence FROM account WHERE account_id = $1`, idles)
	if got := l.rail.count(l.idle.key); got != 1 || fence != int64(l.idle.token) {
		t.Errorf("the holder from before: the rail counts %d, the account's fence is %d; want it accepted by both", got, fence)
	}
	s.takesUp(t, &second)
	if at, err := s.pay(t.Context(), second, posts); !fencedBy(err, paystore.ResourceAccount) {
		t.Errorf("the holder of the lock, at the stage %q: %v; want it fenced out by the one from before", at, err)
	}
}

func fencedBy(err error, resources ...paystore.Resource) bool {
	fenced, ok := errors.AsType[*paystore.FencedError](err)
	return ok && slices.Contains(resources, fenced.Resource)
}

// stores opens both databases as an operator does.
func (w *world) stores(t *testing.T, lockdb place) restore.Stores {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	lock, err := postgres.OpenRewinder(t.Context(), postgres.RewindOptions{
		Options: postgres.Options{Config: lockdb.config(t, "t_operator"), Purpose: postgres.Changing, LockTimeout: 20 * time.Second},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { lock.Close(ctx) })
	pay, err := floor.Open(t.Context(), floor.Options{
		Options: paystore.Options{Config: w.paydb.config(t, "t_operator"), Purpose: paystore.Changing, LockTimeout: 20 * time.Second},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { pay.Close(ctx) })
	stores := restore.Stores{Lock: lock, Pay: pay}
	if w.markDir != "" {
		deployment, err := lock.Deployment(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if stores.Mark, err = mark.Open(w.markDir, deployment.ID); err != nil {
			t.Fatal(err)
		}
	}
	return stores
}

func options() restore.Options {
	return restore.Options{Operator: "erin", Reason: "the primary is lost"}
}

// forward fast-forwards, sees that the plan said why, and that nothing is left to do.
func (l *life) forward(t *testing.T, stores restore.Stores, signs ...string) lockstore.Token {
	t.Helper()
	result, err := restore.FastForward(t.Context(), stores, options())
	if err != nil || result.Outcome != restore.Advanced || !result.GateOpen {
		t.Fatalf("fast-forward: %s, open %v, %q, %v", result.Outcome, result.GateOpen, result.Why, err)
	}
	for _, id := range signs {
		if !slices.ContainsFunc(result.Plan.Signs, func(s restore.Sign) bool { return s.ID == id }) {
			t.Errorf("the plan does not show the sign %s: %+v", id, result.Plan.Signs)
		}
	}
	if result.To <= l.highest {
		t.Errorf("the target is %s, and token %s was shown", result.To, l.highest)
	}
	if v, err := restore.Verify(t.Context(), stores, options()); err != nil || !v.Safe {
		t.Errorf("verify: %+v, %v", v.Findings, err)
	}
	if again, err := restore.FastForward(t.Context(), stores, options()); err != nil || again.Outcome != restore.Safe {
		t.Errorf("once more: %s %q, %v", again.Outcome, again.Why, err)
	}
	return result.To
}

// stale fails unless everybody from before is refused, by whatever it does next.
func (l *life) stale(t *testing.T, s *service, target lockstore.Token) {
	t.Helper()
	ctx := t.Context()
	anywhere := []paystore.Resource{paystore.ResourceFloor, paystore.ResourceAccount, paystore.ResourceRail, paystore.ResourcePayout}
	s.takesUp(t, &l.keeper)
	for _, h := range []holder{l.keeper, l.idle} {
		if at, err := s.pay(ctx, h, posts); at != claims || !fencedBy(err, paystore.ResourceFloor) {
			t.Errorf("%s with token %s, at the stage %q: %v; want it refused by the floor", h.name, h.token, at, err)
		}
	}
	if _, err := s.money.Post(ctx, l.acked.payout, l.acked.presents()); !fencedBy(err, anywhere...) {
		t.Errorf("%s posts under token %s: %v", l.acked.name, l.acked.token, err)
	}
	if err := s.send(ctx, l.sent); !fencedBy(err, anywhere...) {
		t.Errorf("%s asks the rail under token %s: %v", l.sent.name, l.sent.token, err)
	}
	for _, h := range []holder{l.keeper, l.acked, l.sent, l.idle} {
		if _, err := s.locks.Renew(ctx, h.lock(), h.token, time.Hour); !errors.Is(err, lockstore.ErrLockLost) {
			t.Errorf("%s renews token %s: %v; want ErrLockLost", h.name, h.token, err)
		}
	}
	l.paydb.brief(t, func(conn *pgx.Conn) { l.enforced(t, conn, target) })
}

// enforced runs (a) and (d) by themselves, on an account that only the floor guards:
// every token that anybody remembers changes no row, nor does the target.
func (l *life) enforced(t *testing.T, conn *pgx.Conn, target lockstore.Token) {
	t.Helper()
	debit := statement(t, "paystore/posting", "debit", "amount_minor", "token", "account_id", "currency")
	high := statement(t, "paystore/rail", "mark", "account_id", "token")
	accepted := func(token lockstore.Token) [2]int64 {
		return [2]int64{
			rows(t, conn, debit, 1, int64(token), nobodys, "EUR"),
			rows(t, conn, high, nobodys, int64(token)),
		}
	}
	for _, token := range append(l.tokens(), target) {
		if token > target {
			continue // of the new life already
		}
		if got := accepted(token); got != [2]int64{} {
			t.Errorf("token %s: the account took %d, the rail's mark %d", token, got[0], got[1])
		}
	}
	if got := accepted(target + 1); got != [2]int64{1, 1} {
		t.Errorf("token %s, the first of a new life: the account took %d, the rail's mark %d", target+1, got[0], got[1])
	}
}

// rows runs a statement, undoes it, and tells how many rows it changed.
func rows(t *testing.T, conn *pgx.Conn, sql string, args ...any) int64 {
	t.Helper()
	tx, err := conn.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer undo(t, tx)
	tag, err := tx.Exec(t.Context(), sql, args...)
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return tag.RowsAffected()
}

func undo(t *testing.T, tx pgx.Tx) {
	t.Helper()
	if err := tx.Rollback(context.WithoutCancel(t.Context())); err != nil {
		t.Error(err)
	}
}

// statement is one of a store's own.
func statement(t *testing.T, store, name string, params ...string) string {
	t.Helper()
	files, ok := os.DirFS("../../internal/" + store).(fs.ReadFileFS)
	if !ok {
		t.Fatal("a folder is no file system to read from")
	}
	return pgtx.Statement(files, name, params...)
}

// resumes lets new clients in, many at once: no token comes again, none lies at or
// below the target, and what was begun is finished, each payment once.
func (l *life) resumes(t *testing.T, s *service, target lockstore.Token) {
	t.Helper()
	fresh := func(h holder) {
		if h.token <= target || h.again {
			t.Errorf("%s got token %s, shown before: %v; the target was %s", h.name, h.token, h.again, target)
		}
	}
	for _, old := range []holder{l.acked, l.sent, l.idle} {
		h := s.holds(t, "successor", old.account)
		fresh(h)
		h.payout, h.key = old.payout, old.key
		s.goes(t, h, posts)
		if state := ask[paystore.State](t, l.paydb, `SELECT state FROM payout WHERE payout_id = $1`, h.payout); state != paystore.Posted {
			t.Errorf("the payout of %s is %s", old.name, state)
		}
	}
	var clients sync.WaitGroup
	for i := range 4 {
		clients.Go(func() {
			for j := range 10 {
				h, err := s.acquire(t.Context(), "client", fmt.Sprint("a key of ", i, j%2))
				if err == nil {
					fresh(h)
					_, err = s.locks.Release(t.Context(), h.lock(), h.token)
				}
				if err != nil {
					t.Errorf("a client: %v", err)
					return
				}
			}
		})
	}
	clients.Wait()
	l.rail.once(t)
}

// rescued is the life after a fast-forward.
func (l *life) rescued(t *testing.T, lockdb place, signs ...string) {
	t.Helper()
	target := l.forward(t, l.stores(t, lockdb), signs...)
	s := l.serve(t, lockdb)
	l.stale(t, s, target)
	l.resumes(t, s, target)
}

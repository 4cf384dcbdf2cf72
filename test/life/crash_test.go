package life_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/dlockctl/dlockctl/internal/paystore"
	"github.com/dlockctl/dlockctl/internal/paystore/rail"
)

// A client dies before each statement that it sends, and after the server has carried
// it out (for a COMMIT, and for what stands alone: after it was committed): its
// connections are cut and all it knew is lost. Then its sessions are gone, a holder
// with a higher token finishes, and the dead one comes back once more. The number of
// points is that of the statements of a run without faults, twice; pgx's own hook
// counts them too, so that the wire forgets none.
//
// Clauses: K-4.2, K-4.3, K-4.7, K-4.11, K-5.1, K-5.2, K-5.3
// Mutation: those of TestCrashesTurnRed; forward an attempt that take finds in flight,
// or one whose COMMIT is unknown without reading it back.
func TestEveryCrash(t *testing.T) {
	t.Parallel()
	for _, s := range scenarios() {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			c := newCrashes(t, s)
			statements := c.whole(t)
			points := 0
			for at := range statements {
				for _, where := range []side{before, after} {
					points++
					for _, problem := range c.point(t, statements, at+1, where) {
						t.Errorf("dead %s statement %d, %s: %s", where, at+1, brief(statements[at]), problem)
					}
				}
			}
			if want := 2 * len(statements); points != want || c.deaths != want {
				t.Errorf("%d points and %d deaths, want %d of each", points, c.deaths, want)
			}
			if c.lost != s.lost {
				t.Errorf("%d payouts were attempted and never forwarded, want %d", c.lost, s.lost)
			}
			t.Logf("%d statements, %d points", len(statements), points)
		})
	}
}

// crashes is a scenario that is played again and again, each time with a payout of
// its own, in one paydb.
type crashes struct {
	world
	scenario
	heir   stores
	last   paystore.Token
	deaths int
	// lost counts payouts whose attempt was committed and not forwarded.
	lost int
	// told are the problems that were reported: what one death leaves stays.
	told map[string]bool
	// through and around play mutations of the client; may be nil.
	through func(*wire)
	around  func(rail.Rail) rail.Rail
}

// order is one play of a scenario.
type order struct {
	payoutID, accountID, key string
	// earlier, token and later are those of who had the lock before the client, of the
	// client, and of who comes after it; drawn is nobody's grant.
	earlier, token, drawn, later paystore.Token
}

func newCrashes(t *testing.T, s scenario) *crashes {
	t.Helper()
	w := newWorld(t, 16)
	return &crashes{world: w, scenario: s, heir: w.open(t, nil), told: map[string]bool{}}
}

func (c *crashes) order() order {
	c.last += 4
	id := uuid.NewString()
	return order{id, payer, "key-" + id, c.last - 3, c.last - 2, c.last - 1, c.last}
}

// hand is who calls the two services: the client, or the heir.
func (c *crashes) hand(s stores) (h hand, leave func()) {
	proxy := c.proxy(s.attempts, rail.Options{})
	return hand{Store: store(s.money), db: s.money, proxy: proxy}, proxy.Close
}

// client is a process of its own behind a wire of its own.
func (c *crashes) client(t *testing.T, tracer pgx.QueryTracer) (h hand, w *wire) {
	t.Helper()
	w = newWire(t, c.dbs.Pay.Server)
	if c.through != nil {
		c.through(w)
	}
	s := c.open(t, func(config *pgx.ConnConfig) *pgx.ConnConfig {
		config = w.config(config)
		config.Tracer = tracer
		return config
	})
	h = hand{Store: store(s.money), db: s.money}
	var behind rail.Rail = c.rail
	if c.around != nil {
		behind, h.forward = c.around(c.rail), c.rail
	}
	// A dead client's proxy goes on trying to record an answer for so long, in vain.
	const persist = 5 * time.Second
	h.proxy = rail.New(s.attempts, behind, rail.Options{Timeout: deadline, Persist: persist})
	t.Cleanup(func() { w.die(); h.proxy.Close() })
	return h, w
}

// whole is the scenario without a fault: its statements.
func (c *crashes) whole(t *testing.T) []string {
	t.Helper()
	o := c.order()
	c.ready(t, o)
	hook := &hook{}
	h, w := c.client(t, hook)
	w.count(0, before)
	hook.sent.Store(0)
	if err := c.work(t.Context(), h, o); err != nil {
		t.Fatalf("without a fault: %v", err)
	}
	statements, _ := w.counted()
	if hooked := int(hook.sent.Load()); len(statements) != hooked || hooked == 0 {
		t.Fatalf("the wire saw %d statements, the hook %d:\n%s", len(statements), hooked, strings.Join(statements, "\n--\n"))
	}
	problems, err := c.problems(t.Context())
	if err != nil || len(problems) > 0 {
		t.Fatalf("without a fault: %v, %v", problems, err)
	}
	return statements
}

func (c *crashes) ready(t *testing.T, o order) {
	t.Helper()
	h, leave := c.hand(c.heir)
	defer leave()
	if err := c.prepare(t.Context(), c.world, h, o); err != nil {
		t.Fatalf("prepare: %v", err)
	}
}

// point is one death, and what is wrong after it.
func (c *crashes) point(t *testing.T, statements []string, at int, where side) (problems []string) {
	t.Helper()
	o := c.order()
	c.ready(t, o)
	h, w := c.client(t, nil)
	w.count(at, where)
	err := c.live(t, h, w, o)
	passed, died := w.counted()
	w.die()
	switch {
	case !died || err == nil:
		return []string{fmt.Sprintf("it did not die: %v", err)}
	case len(passed) != at || passed[at-1] != statements[at-1]:
		return []string{fmt.Sprintf("it sent %q", passed)}
	}
	c.deaths++
	if err := c.buried(t.Context(), w); err != nil {
		return []string{err.Error()}
	}
	problems, err = c.problems(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return c.untold(append(problems, c.goOn(t, o)...))
}

func (c *crashes) untold(problems []string) (news []string) {
	for _, p := range problems {
		if !c.told[p] {
			c.told[p] = true
			news = append(news, p)
		}
	}
	return news
}

// live is the client's life: what it still does when its connections are cut, it does
// to nobody.
func (c *crashes) live(t *testing.T, h hand, w *wire, o order) error {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	var rest sync.WaitGroup
	rest.Go(func() { ended <- c.work(ctx, h, o) })
	t.Cleanup(rest.Wait)
	defer cancel()
	select {
	case err := <-ended:
		return err
	case <-w.died:
		return errDead
	}
}

var errDead = errors.New("dead")

// buried waits until the server has noticed, and rolled back what was open.
func (c *crashes) buried(ctx context.Context, w *wire) error {
	return eventually(ctx, "the dead client's sessions end", func(ctx context.Context) (gone bool, err error) {
		err = c.super.QueryRow(ctx, `SELECT count(*) = 0 FROM pg_stat_activity WHERE application_name = $1`, w.name()).Scan(&gone)
		return gone, err
	})
}

// goOn lets the heir finish, and the dead one come back.
func (c *crashes) goOn(t *testing.T, o order) (problems []string) {
	t.Helper()
	h, leave := c.hand(c.heir)
	defer leave()
	if err := c.finish(t.Context(), c.world, h, o); err != nil {
		return []string{fmt.Sprintf("the heir: %v", err)}
	}
	finished, err := c.read(t.Context(), o)
	if err != nil {
		return []string{err.Error()}
	}
	problems = append(problems, c.ended(o, finished)...)
	// It has noticed nothing; whatever it is answered, it changes nothing.
	if c.back != nil {
		c.back(t.Context(), h, o)
	} else {
		_ = c.work(t.Context(), h, o)
	}
	again, err := c.read(t.Context(), o)
	if err != nil {
		return append(problems, err.Error())
	}
	if diff := cmp.Diff(finished, again); diff != "" {
		problems = append(problems, "the dead client came back and changed (-before +after):\n"+diff)
	}
	more, err := c.problems(t.Context())
	if err != nil {
		problems = append(problems, err.Error())
	}
	return append(problems, more...)
}

// ended is whether the payout ended as its evidence allows: once it was attempted, as
// the rail has it; what was never forwarded is never paid.
func (c *crashes) ended(o order, got standing) (problems []string) {
	want := c.end
	if want == paystore.Posted && got.Attempts > 0 && c.rail.requests(o.key) == 0 && !c.paidBefore {
		c.lost++
		want = paystore.Failed
	}
	if got.State != want {
		problems = append(problems, fmt.Sprintf("it ended %s, want %s", got.State, want))
	}
	if n := c.resolutions; n >= 0 && got.Resolutions != n && want == c.end {
		problems = append(problems, fmt.Sprintf("%d resolutions, want %d", got.Resolutions, n))
	}
	if got.Raises != c.raises {
		problems = append(problems, fmt.Sprintf("%d raises are recorded, want %d", got.Raises, c.raises))
	}
	return problems
}

// standing is what is kept of an order.
type standing struct {
	State                         paystore.State
	Claim, Fence, Mark            paystore.Token
	Balance                       paystore.Minor
	Attempts, Legs, Resolutions   int
	Raises, Claims, Submits, Rail int
}

func (c *crashes) read(ctx context.Context, o order) (s standing, err error) {
	err = c.super.QueryRow(ctx, `
		SELECT p.state, coalesce(p.claim_token, 0), a.fence, coalesce(h.highest_token, 0), a.balance_minor,
		       (SELECT count(*) FROM rail_submission s WHERE s.payout_id = p.payout_id AND s.outcome IS DISTINCT FROM 'FENCED'),
		       (SELECT count(*) FROM ledger_entry l WHERE l.payout_id = p.payout_id),
		       (SELECT count(*) FROM payout_resolution r WHERE r.payout_id = p.payout_id),
		       (SELECT count(*) FROM account_fence_raise r WHERE r.account_id = p.account_id AND r.raised_to = $2),
		       (SELECT count(*) FROM payout_claim l WHERE l.payout_id = p.payout_id), p.attempt_count
		  FROM payout p JOIN account a USING (account_id) LEFT JOIN rail_high_water h USING (account_id) WHERE p.payout_id = $1`, o.payoutID, o.drawn).
		Scan(&s.State, &s.Claim, &s.Fence, &s.Mark, &s.Balance, &s.Attempts, &s.Legs, &s.Resolutions, &s.Raises, &s.Claims, &s.Submits)
	s.Rail = c.rail.requests(o.key)
	return s, err
}

// hook is pgx's own count of what is sent.
type hook struct{ sent atomic.Int64 }

func (h *hook) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	h.sent.Add(1)
	return ctx
}

func (h *hook) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

func (h *hook) TraceBatchStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceBatchStartData) context.Context {
	h.sent.Add(int64(data.Batch.Len()))
	return ctx
}

func (h *hook) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {}

func (h *hook) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData) {}

// brief is the beginning of a statement.
func brief(sql string) string {
	sql = strings.Join(strings.Fields(sql), " ")
	return sql[:min(len(sql), 60)]
}

// problems is INV-02 and INV-03 over everything: what is never to be seen, whoever
// died when.
func (w world) problems(ctx context.Context) (problems []string, err error) {
	for what, sql := range map[string]string{
		"balance": `
			SELECT a.account_id::text FROM account a JOIN opening_balance o USING (account_id)
			 WHERE a.balance_minor <> o.amount_minor
			       + coalesce((SELECT sum(CASE l.direction WHEN 'CREDIT' THEN l.amount_minor ELSE -l.amount_minor END) FROM ledger_entry l WHERE l.account_id = a.account_id), 0)`,
		"leg set": `
			SELECT p.payout_id::text FROM payout p LEFT JOIN ledger_entry l USING (payout_id)
			 GROUP BY p.payout_id
			HAVING count(l.entry_id) <> CASE p.state WHEN 'POSTED' THEN 2 ELSE 0 END
			    OR coalesce(sum(CASE l.direction WHEN 'CREDIT' THEN l.amount_minor ELSE -l.amount_minor END), 0) <> 0
			    OR bool_or(l.fence <> p.claim_token OR l.amount_minor <> p.amount_minor)`,
		"attempts": `
			SELECT payout_id::text FROM rail_submission WHERE outcome IS DISTINCT FROM 'FENCED' GROUP BY payout_id HAVING count(*) > 1`,
		"fence": `
			SELECT a.account_id::text FROM account a
			 WHERE a.fence < (SELECT max(l.fence) FROM ledger_entry l WHERE l.account_id = a.account_id AND l.direction = 'DEBIT')`,
		"mark": `
			SELECT s.payout_id::text FROM rail_submission s JOIN payout p USING (payout_id) LEFT JOIN rail_high_water h USING (account_id)
			 WHERE s.outcome IS DISTINCT FROM 'FENCED' AND s.presented_token > coalesce(h.highest_token, 0)`,
	} {
		rows, err := w.super.Query(ctx, sql)
		if err != nil {
			return nil, errors.Join(errors.New(what), err)
		}
		ids, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			return nil, errors.Join(errors.New(what), err)
		}
		for _, id := range ids {
			problems = append(problems, "the "+what+" of "+id)
		}
	}
	for _, key := range w.rail.twice() {
		problems = append(problems, "the rail received more than one request for "+key)
	}
	return problems, nil
}

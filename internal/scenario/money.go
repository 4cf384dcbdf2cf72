package scenario

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/paystore"
	"github.com/dlockctl/dlockctl/internal/paystore/posting"
	"github.com/dlockctl/dlockctl/internal/paystore/rail"
	"github.com/dlockctl/dlockctl/internal/reconcile"
)

const (
	payoutMinor paystore.Minor = 1500
	// corruption is what somebody adds to a leg by hand.
	corruption paystore.Minor = 7
)

// money is the second half of the story: the lock protects a payout, the holder
// that stalled comes back with its old token, and a cent that is wrong has a name.
type money struct {
	posting *posting.Store
	rail    *rail.Proxy
	at      *countingRail
	account string
	// payout is the one that both workers have in hand, next the account's second.
	payout, next string
	stale        paystore.Token
}

// countingRail acknowledges every payment, and counts the requests it received.
type countingRail struct{ received atomic.Int64 }

func (r *countingRail) Submit(_ context.Context, req rail.Request) (rail.Answer, error) {
	r.received.Add(1)
	return rail.Answer{Outcome: paystore.OutcomeAcked, Reference: "DEMO-" + req.Key}, nil
}

func (r *countingRail) Status(_ context.Context, key string) (rail.Answer, error) {
	return rail.Answer{Outcome: rail.NotFound, Text: key + " is not asked about in this story"}, nil
}

func (t *takeover) payout(ctx context.Context) error {
	t.chapter("A payout under the lock, and a worker that stalls before the rail")
	if err := t.openMoney(ctx); err != nil {
		return err
	}
	m := &t.money
	for _, id := range []*string{&m.payout, &m.next} {
		p, _, err := m.posting.Create(ctx, posting.CreateParams{
			AccountID: m.account, AmountMinor: payoutMinor, Currency: t.currency, IdempotencyKey: "demo-" + uuid.NewString(),
		})
		if err != nil {
			return err
		}
		*id = p.PayoutID
	}
	t.step("%s acquires %s for %s, claims payout %s of %s minor units, and stalls before it asks the rail", first, t.key, shortLease, m.payout, payoutMinor)
	token, err := t.hold(ctx, t.a, first, t.sessionA, shortLease)
	if err != nil {
		return err
	}
	m.stale = token
	if err := m.submit(ctx, m.payout, first, token); err != nil {
		return err
	}
	if err := t.lapse(ctx); err != nil {
		return err
	}
	t.step("the lease is over; %s acquires, takes the payout over, pays it at the rail and posts it", second)
	if token, err = t.hold(ctx, t.b, second, t.sessionB, longLease); err != nil {
		return err
	}
	if err := m.pay(ctx, m.payout, second, token); err != nil {
		return err
	}
	t.current = lockstore.Token(token)
	var legs string
	var left paystore.Minor
	err = t.Pay.QueryRow(ctx, `SELECT string_agg(direction || ' ' || amount_minor || ' under ' || fence, ', ' ORDER BY direction DESC),
		(SELECT o.amount_minor - a.balance_minor FROM account a JOIN opening_balance o USING (account_id) WHERE account_id = $2)
		FROM ledger_entry WHERE payout_id = $1`, m.payout, m.account).Scan(&legs, &left)
	if err != nil {
		return fmt.Errorf("read back the ledger: %w", err)
	}
	want := fmt.Sprintf("DEBIT %s under %s, CREDIT %s under %s", payoutMinor, token, payoutMinor, token)
	t.prove(proof{"paid_once", "K-4.7", "one debit and one credit, under the second's token, and the balance moved by as much", t.current, second},
		legs == want && left == payoutMinor && m.at.received.Load() == 1,
		"ledger_entry: %s; %s left the account; requests at the rail: %d", legs, left, m.at.received.Load())
	return nil
}

func (t *takeover) stalePayout(ctx context.Context) error {
	m := &t.money
	t.chapter("The first comes back, and is refused at the rail and at the account")
	t.step("%s submits the payout to the rail with token %s", first, m.stale)
	_, err := m.rail.Submit(ctx, m.payout, m.stale)
	refused, err := fencedAt(err, paystore.ResourceRail)
	if err != nil {
		return err
	}
	t.prove(proof{"rail_fenced", "K-4.1", "the rail's mark refuses the older token, and the rail is not asked again", lockstore.Token(m.stale), first}, refused != nil && m.at.received.Load() == 1,
		"%v; requests at the rail: %d", orGranted(asError(refused)), m.at.received.Load())

	t.step("%s claims the account's next payout, and would post it with token %s", first, m.stale)
	if _, err := m.posting.Claim(ctx, m.next, first, m.stale); err != nil {
		return err
	}
	refused, err = fencedAt(m.posting.CheckFunds(ctx, m.next, m.stale), paystore.ResourceAccount)
	if err != nil {
		return err
	}
	t.prove(proof{"account_fenced", "K-4.2", "the account's fence refuses the older token", lockstore.Token(m.stale), first}, refused != nil, "%v", orGranted(asError(refused)))

	t.step("%s re-enters for a new token, takes that payout over and finishes it", second)
	token, err := t.hold(ctx, t.b, second, t.sessionB, longLease)
	if err != nil {
		return err
	}
	if _, err := m.posting.Claim(ctx, m.next, second, token); err != nil {
		return err
	}
	if err := m.pay(ctx, m.next, second, token); err != nil {
		return err
	}
	var posted int
	if err := t.Pay.QueryRow(ctx, `SELECT count(*) FROM payout WHERE account_id = $1 AND state = 'POSTED'`, m.account).Scan(&posted); err != nil {
		return fmt.Errorf("read back the payouts: %w", err)
	}
	t.prove(proof{"both_posted", "K-5.2", "what the first left behind is finished by the second", lockstore.Token(token), second}, posted == 2 && m.at.received.Load() == 2,
		"%d payouts POSTED, each asked of the rail once", posted)
	_, err = t.b.Release(ctx, t.key, lockstore.Token(token))
	return err
}

// reconcile shows that all agrees, that a leg changed by hand is found with the
// token and the holder who authored it, and that all agrees again.
func (t *takeover) reconcile(ctx context.Context) error {
	t.chapter("Reconcile: all agrees, until somebody changes a leg by hand")
	report, err := t.compareAll(ctx)
	if err != nil {
		return err
	}
	t.expect("reconciled", "K-8.1", "money and locks agree", report.Outcome == reconcile.Clean,
		"%s over %d rules, %d findings, nothing left out: %t", report.Outcome, len(report.Coverage), len(report.Findings), report.Complete)

	t.step("somebody with the owner's rights adds %s to the debit of payout %s", corruption, t.money.payout)
	if err := t.tamper(ctx, corruption); err != nil {
		return err
	}
	report, err = t.compareAll(ctx)
	if err != nil {
		return errors.Join(err, t.tamper(ctx, -corruption))
	}
	i := slices.IndexFunc(report.Findings, func(f reconcile.Finding) bool { return f.PayoutID == t.money.payout })
	var found reconcile.Finding
	if i >= 0 {
		found = report.Findings[i]
	}
	who := found.Attribution
	t.expect("break_named", "K-8.2", "the break is found, with the token that authored the leg and its holder",
		report.Outcome == reconcile.Breaks && lockstore.Token(who.Token) == t.current && who.Holder == second,
		"%s: %s %s; token %d, held by %q (%s)", report.Outcome, orNobody(found.Class), found.What, who.Token, who.Holder, who.Confidence)

	t.step("the leg is put back as it was")
	if err := t.tamper(ctx, -corruption); err != nil {
		return err
	}
	if report, err = t.compareAll(ctx); err != nil {
		return err
	}
	t.expect("reconciled_again", "K-8.1", "money and locks agree again", report.Outcome == reconcile.Clean, "%s, %d findings", report.Outcome, len(report.Findings))
	return nil
}

func (t *takeover) compareAll(ctx context.Context) (reconcile.Report, error) {
	return reconcile.Run(ctx, reconcile.Options{Pay: t.Pay.Config(), Lock: t.Lock.Config()})
}

// tamper does what only an owner can: the append-only guard is off for one
// statement.
func (t *takeover) tamper(ctx context.Context, by paystore.Minor) error {
	return pgx.BeginFunc(ctx, t.Owner, func(tx pgx.Tx) error {
		for _, sql := range []string{
			`SET LOCAL ROLE dlock_owner`,
			`ALTER TABLE ledger_entry DISABLE TRIGGER ledger_entry_append_only`,
			`UPDATE ledger_entry SET amount_minor = amount_minor + ` + by.String() + ` WHERE direction = 'DEBIT' AND payout_id = '` + t.money.payout + `'`,
			`ALTER TABLE ledger_entry ENABLE ALWAYS TRIGGER ledger_entry_append_only`,
		} {
			if _, err := tx.Exec(ctx, sql); err != nil {
				return fmt.Errorf("change a leg by hand: %w", err)
			}
		}
		return nil
	})
}

func (t *takeover) openMoney(ctx context.Context) error {
	post, err := t.OpenPosting(ctx)
	if err != nil {
		return err
	}
	t.dbs = append(t.dbs, post)
	atRail, err := t.OpenRail(ctx)
	if err != nil {
		return err
	}
	t.dbs = append(t.dbs, atRail)
	counting := &countingRail{}
	t.money = money{
		posting: posting.New(post, posting.Options{}), at: counting, rail: rail.New(atRail, counting, rail.Options{}), account: t.key[len("account:"):],
	}
	err = t.Pay.QueryRow(ctx, `SELECT currency FROM account WHERE account_id = $1`, t.money.account).Scan(&t.currency)
	if err != nil {
		return fmt.Errorf("read the account's currency: %w", err)
	}
	return nil
}

// hold acquires the account's lock, or re-enters it for a new token.
func (t *takeover) hold(ctx context.Context, store lockstore.Store, owner string, session lockstore.SessionID, ttl time.Duration) (paystore.Token, error) {
	grant, err := store.Acquire(ctx, lockstore.AcquireParams{Key: t.key, Owner: owner, Session: session, TTL: ttl})
	return paystore.Token(grant.Token), err
}

// submit claims the payout and takes it to the rail's door.
func (m *money) submit(ctx context.Context, id, holder string, token paystore.Token) error {
	if _, err := m.posting.Claim(ctx, id, holder, token); err != nil {
		return err
	}
	if err := m.posting.CheckFunds(ctx, id, token); err != nil {
		return err
	}
	_, err := m.posting.Submit(ctx, id, token)
	return err
}

// pay takes the payout over in the state it is in, and carries it to POSTED.
func (m *money) pay(ctx context.Context, id, holder string, token paystore.Token) error {
	p, err := m.posting.Claim(ctx, id, holder, token)
	if err == nil && p.State == paystore.Claimed {
		err = m.submit(ctx, id, holder, token)
	}
	if err != nil {
		return err
	}
	if _, err := m.rail.Submit(ctx, id, token); err != nil {
		return err
	}
	if _, err := m.posting.Settle(ctx, id, token); err != nil {
		return err
	}
	_, err = m.posting.Post(ctx, id, token)
	return err
}

// fencedAt returns the refusal of a resource, nil when there was none, and any
// other error.
func fencedAt(err error, resource paystore.Resource) (*paystore.FencedError, error) {
	fenced, refused := errors.AsType[*paystore.FencedError](err)
	if refused && fenced.Resource == resource {
		return fenced, nil
	}
	return nil, err
}

// asError keeps a nil refusal a nil error.
func asError(refused *paystore.FencedError) error {
	if refused == nil {
		return nil
	}
	return refused
}

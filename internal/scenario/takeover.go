package scenario

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgerrcode"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/dlockctl/dlockctl/internal/instance"
	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/paystore"
	"github.com/dlockctl/dlockctl/internal/reconcile"
)

const (
	first, second, operator = "worker-a", "worker-b", "erin@ops"
	reason                  = "worker-b hangs in the rail call, see incident 4711"
	// shortLease is waited out, and must outlast the second worker's way to a refusal,
	// its first look at both databases included, on a busy machine too.
	shortLease = 3 * time.Second
	longLease  = 30 * time.Second
	sessionTTL = 5 * time.Minute
)

// takeover is the story of two workers and one lock: the first stalls, the
// second takes over with a higher token, the first is refused, an operator
// revokes. Then the lock protects a payout, and the same is told with money.
type takeover struct {
	play
	key                string
	a, b               lockstore.Store
	sessionA, sessionB lockstore.SessionID
	// stalled is the first worker's token, current the second's.
	stalled, current lockstore.Token

	money    money
	currency string
	dbs      []*paystore.DB
}

// Takeover plays the story and returns its outcomes, those that are not what
// they must be included. It needs migrated databases and a seeded account.
func Takeover(ctx context.Context, cast Cast) []Outcome {
	t := &takeover{play: play{Cast: cast}}
	defer t.leave()
	return t.run(ctx, t.meet, t.contend, t.stall, t.comeBack, t.revoke, t.crowd, t.payout, t.stalePayout, t.reconcile, t.rewind)
}

func (t *takeover) leave() {
	for _, store := range []lockstore.Store{t.a, t.b} {
		if store != nil {
			store.Close()
		}
	}
	if t.money.rail != nil {
		t.money.rail.Close()
	}
	for _, db := range t.dbs {
		db.Close()
	}
}

func (t *takeover) meet(ctx context.Context) error {
	t.chapter("Two databases on two PostgreSQL instances")
	lock, err := instance.Read(ctx, t.Lock)
	if err != nil {
		return fmt.Errorf("lockdb: %w", err)
	}
	pay, err := instance.Read(ctx, t.Pay)
	if err != nil {
		return fmt.Errorf("paydb: %w", err)
	}
	t.expect("two_instances", "K-6.1", "locks and money stand on separate instances", lock.SystemIdentifier != pay.SystemIdentifier,
		"lockdb is system %d, paydb is system %d, PostgreSQL %s", lock.SystemIdentifier, pay.SystemIdentifier, lock.VersionText)

	report, err := reconcile.Run(ctx, reconcile.Options{Pay: t.Pay.Config(), Scope: reconcile.Scope{Rules: []string{"balance_drift", "balance_unanchored"}}})
	if err != nil {
		return err
	}
	t.expect("accounts_balance", "K-8.1", "each account's balance is its opening plus its legs", report.Outcome == reconcile.Clean,
		"%d accounts checked, %d breaks", report.Coverage[0].Checked, len(report.Findings))

	if err := t.findAccount(ctx); err != nil {
		return err
	}
	return t.openClients(ctx)
}

// findAccount takes a seeded account, and its key, for the story.
func (t *takeover) findAccount(ctx context.Context) error {
	var account string
	err := t.Pay.QueryRow(ctx, `SELECT account_id::text FROM account WHERE account_id NOT IN (SELECT account_id FROM clearing_account) ORDER BY account_id LIMIT 1`).Scan(&account)
	if err != nil {
		return fmt.Errorf("find a seeded account: %w", err)
	}
	t.key = paystore.LockKey(account)
	return nil
}

func (t *takeover) openClients(ctx context.Context) (err error) {
	if t.a, err = t.Open(ctx); err != nil {
		return err
	}
	if t.b, err = t.Open(ctx); err != nil {
		return err
	}
	sessionA, err := t.a.CreateSession(ctx, first, sessionTTL)
	if err != nil {
		return err
	}
	sessionB, err := t.b.CreateSession(ctx, second, sessionTTL)
	t.sessionA, t.sessionB = sessionA.ID, sessionB.ID
	return err
}

func (t *takeover) contend(ctx context.Context) error {
	t.chapter("Two workers want " + t.key)
	t.step("%s acquires it for %s", first, shortLease)
	grant, err := t.a.Acquire(ctx, lockstore.AcquireParams{Key: t.key, Owner: first, Session: t.sessionA, TTL: shortLease})
	if err != nil {
		return err
	}
	t.stalled = grant.Token
	owner, token, err := t.holder(ctx)
	if err != nil {
		return err
	}
	t.prove(proof{"granted", "K-1.4", first + " holds the key, with the token it was shown", grant.Token, first}, owner == first && token == grant.Token,
		"lock_entry: %s with token %s", owner, token)

	t.step("%s tries at the same time", second)
	_, err = t.b.Acquire(ctx, lockstore.AcquireParams{Key: t.key, Owner: second, Session: t.sessionB, TTL: longLease})
	held, contended := errors.AsType[*lockstore.HeldError](err)
	if !contended && err != nil {
		return err
	}
	if owner, token, err = t.holder(ctx); err != nil {
		return err
	}
	saw := "it was granted"
	if contended {
		saw = "refused: " + held.Error()
	}
	t.prove(proof{"contended", "K-2.8", second + " is refused, and the holder is untouched", grant.Token, first}, contended && owner == first && token == grant.Token,
		"%s; lock_entry: %s with token %s", saw, owner, token)
	return nil
}

func (t *takeover) stall(ctx context.Context) error {
	t.chapter("The first stalls past its lease")
	t.step("%s does not renew; lockdb's clock decides when the lease is over", first)
	if err := t.lapse(ctx); err != nil {
		return err
	}
	t.step("%s tries again", second)
	grant, err := t.b.Acquire(ctx, lockstore.AcquireParams{Key: t.key, Owner: second, Session: t.sessionB, TTL: longLease})
	if err != nil {
		return err
	}
	t.current = grant.Token
	owner, token, err := t.holder(ctx)
	if err != nil {
		return err
	}
	t.prove(proof{"taken_over", "K-1.3", second + " takes over with a higher token", token, second}, owner == second && token == grant.Token && token > t.stalled,
		"lock_entry: %s with token %s, after %s", owner, token, t.stalled)
	ended, err := t.ended(ctx, t.stalled)
	if err != nil {
		return err
	}
	t.prove(proof{"journalled", "K-11", "the journal says how the first grant ended", t.stalled, first}, ended == "taken_over", "lock_grant: token %s ended %q", t.stalled, ended)
	return nil
}

func (t *takeover) comeBack(ctx context.Context) error {
	t.chapter("The first comes back, and is refused")
	t.step("%s renews with token %s", first, t.stalled)
	_, err := t.a.Renew(ctx, t.key, t.stalled, longLease)
	if err != nil && !errors.Is(err, lockstore.ErrLockLost) {
		return err
	}
	t.prove(proof{"renew_refused", "K-2.6", "a lost lease is not renewed", t.stalled, first}, err != nil, "renew: %v", orGranted(err))

	t.step("%s releases with token %s", first, t.stalled)
	released, err := t.a.Release(ctx, t.key, t.stalled)
	if err != nil {
		return err
	}
	owner, token, err := t.holder(ctx)
	if err != nil {
		return err
	}
	t.prove(proof{"release_stale", "K-2.7", "a late release touches nobody's grant but its own", t.stalled, first}, released.Stale && owner == second && token == t.current,
		"stale=%t; lock_entry: %s with token %s", released.Stale, orNobody(owner), token)
	return nil
}

func (t *takeover) revoke(ctx context.Context) error {
	t.chapter("An operator revokes")
	t.step("%s revokes the grant seen a minute ago, token %s", operator, t.stalled)
	moved, err := t.b.Revoke(ctx, lockstore.RevokeParams{Key: t.key, Token: t.stalled, Operator: operator, Reason: reason})
	if err != nil {
		return err
	}
	owner, token, err := t.holder(ctx)
	if err != nil {
		return err
	}
	t.expect("revoke_compares", "K-3.1", "a newer holder is not revoked by mistake", moved.Outcome == lockstore.TokenMoved && owner == second && token == t.current,
		"%s; lock_entry: %s with token %s", moved.Outcome, orNobody(owner), token)

	t.step("%s looks again and revokes token %s: %q", operator, t.current, reason)
	outcome, err := t.b.Revoke(ctx, lockstore.RevokeParams{Key: t.key, Token: t.current, Operator: operator, Reason: reason})
	if err != nil {
		return err
	}
	if owner, _, err = t.holder(ctx); err != nil {
		return err
	}
	t.expect("revoked", "K-3.1", "the grant is gone", outcome.Outcome == lockstore.Revoked && owner == "", "%s; lock_entry: %s", outcome.Outcome, orNobody(owner))
	return t.audit(ctx, outcome.AuditID)
}

func (t *takeover) audit(ctx context.Context, id int64) error {
	var rows int
	var key, owner, who, why, login string
	var token lockstore.Token
	err := t.Lock.QueryRow(ctx, `SELECT count(*) OVER (), lock_key, prev_owner, prev_token, operator, reason, coalesce(login_role, '')
		FROM lock_revocation WHERE lock_key = $1 ORDER BY (id = $2) DESC LIMIT 1`, t.key, id).Scan(&rows, &key, &owner, &token, &who, &why, &login)
	if err != nil {
		return fmt.Errorf("read the audit row: %w", err)
	}
	t.expect("audit_row", "K-3.3", "one audit row says who revoked whom, and why",
		rows == 1 && owner == second && token == t.current && who == operator && why == reason && login != "",
		"lock_revocation %d of %d: %s (login %s) revoked %s token %s: %s", id, rows, who, login, owner, token, why)

	t.step("somebody tries to take the audit row away")
	_, err = t.Lock.Exec(ctx, `DELETE FROM lock_revocation`)
	refused := hasCode(err, pgerrcode.InsufficientPrivilege)
	if err != nil && !refused {
		return fmt.Errorf("try to delete the audit: %w", err)
	}
	t.expect("audit_kept", "K-3.3", "the audit cannot be changed", refused, "DELETE: %v", orGranted(err))
	return nil
}

// holder reads back who holds the key; "" and 0 for nobody.
func (t *takeover) holder(ctx context.Context) (owner string, token lockstore.Token, err error) {
	err = t.Lock.QueryRow(ctx, `SELECT coalesce(max(owner_id), ''), coalesce(max(fencing_token), 0) FROM lock_entry WHERE lock_key = $1`, t.key).Scan(&owner, &token)
	if err != nil {
		return "", 0, fmt.Errorf("read back lock_entry: %w", err)
	}
	return owner, token, nil
}

func (t *takeover) ended(ctx context.Context, token lockstore.Token) (ended string, err error) {
	err = t.Lock.QueryRow(ctx, `SELECT coalesce(max(ended), '') FROM lock_grant WHERE fencing_token = $1`, token).Scan(&ended)
	if err != nil {
		return "", fmt.Errorf("read back lock_grant: %w", err)
	}
	return ended, nil
}

// lapse waits until lockdb's own clock says that the lease is over.
func (t *takeover) lapse(ctx context.Context) error {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		var lapsed bool
		err := t.Lock.QueryRow(ctx, `SELECT expires_at <= now() FROM lock_entry WHERE lock_key = $1`, t.key).Scan(&lapsed)
		if err != nil {
			return fmt.Errorf("wait for the lease to lapse: %w", err)
		}
		if lapsed {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for the lease to lapse: %w", ctx.Err())
		case <-tick.C:
		}
	}
}

func orNobody(owner string) string {
	if owner == "" {
		return "nobody"
	}
	return owner
}

func orGranted(err error) string {
	if err == nil {
		return "it was granted"
	}
	return err.Error()
}

func hasCode(err error, code string) bool {
	pgErr, ok := errors.AsType[*pgconn.PgError](err)
	return ok && pgErr.Code == code
}

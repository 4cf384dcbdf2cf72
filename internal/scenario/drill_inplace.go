package scenario

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/paystore"
	"github.com/dlockctl/dlockctl/internal/pgtx"
)

//go:embed queries/*.sql
var queryFiles embed.FS

const (
	// namespace keeps the drill's keys apart from everybody's.
	namespace = "drill:"
	// XTS is the code that ISO 4217 keeps for tests.
	testCurrency = "XTS"
	// tidyWithin bounds what is tidied up after a failure or a signal.
	tidyWithin = 5 * time.Second
)

// errUndone ends the transaction on paydb, which is never committed.
var errUndone = errors.New("undone")

// DrillStaleHolderInPlace plays a holder that stalls on databases where others work.
// The lock is real, under a key of its own. Account, debit and rail mark are those of
// one transaction on paydb that is rolled back: a ledger is append-only, and what
// enforces the fence is in the statements and the triggers, which run all the same.
// No rail is asked. What stays is the journal of the lock's grants. It needs an
// Owner that may SET ROLE dlock_owner.
func DrillStaleHolderInPlace(ctx context.Context, cast Cast) []DrillStep {
	id := uuid.NewString()
	d := &inPlace{takeover: takeover{play: play{Cast: cast}, key: namespace + paystore.LockKey(id)}, account: id}
	defer d.leave()
	defer d.tidy(ctx)
	return report(d.run(ctx, d.openClients, d.contend, d.stall, d.comeBack, d.enforced, d.nothingLeft))
}

type inPlace struct {
	takeover
	account string
	// tidied is set when all was given back.
	tidied bool
}

// enforced lets both tokens at the account and at the rail's mark.
func (d *inPlace) enforced(ctx context.Context) error {
	d.chapter("An account that is rolled back: the first is refused at the account and at the rail")
	d.step("in one transaction of paydb: account %s, %s, which %s debits and %s after it", d.account, testCurrency, second, first)
	var debits, marks [2]int64
	err := pgx.BeginFunc(ctx, d.Owner, func(tx pgx.Tx) error {
		for _, sql := range []string{`SET LOCAL ROLE dlock_owner`, `SET LOCAL lock_timeout = '2s'`} {
			if _, err := tx.Exec(ctx, sql); err != nil {
				return err
			}
		}
		if _, err := tx.Exec(ctx, statement("account", "account_id"), d.account); err != nil {
			return err
		}
		for i, token := range []lockstore.Token{d.current, d.stalled} {
			debited, err := tx.Exec(ctx, statement("debit", "amount_minor", "token", "account_id", "currency"), 1, token, d.account, testCurrency)
			if err != nil {
				return err
			}
			marked, err := tx.Exec(ctx, statement("mark", "account_id", "token"), d.account, token)
			if err != nil {
				return err
			}
			debits[i], marks[i] = debited.RowsAffected(), marked.RowsAffected()
		}
		return errUndone
	})
	if !errors.Is(err, errUndone) {
		return fmt.Errorf("try the fence of paydb: %w", err)
	}
	d.prove(proof{"accepted", "K-4.1", "account and rail take the token of the one that holds the lock", d.current, second}, debits[0] == 1 && marks[0] == 1,
		"the debit changed %d rows, the mark %d", debits[0], marks[0])
	d.prove(proof{"rail_fenced", "K-4.1", "the rail's mark refuses the older token", d.stalled, first}, marks[1] == 0, "the mark changed %d rows", marks[1])
	d.prove(proof{"account_fenced", "K-4.2", "the account's fence refuses the older token", d.stalled, first}, debits[1] == 0, "the debit changed %d rows", debits[1])
	return nil
}

func statement(name string, params ...string) string {
	return pgtx.Statement(queryFiles, name, params...)
}

// nothingLeft gives everything back, and looks.
func (d *inPlace) nothingLeft(ctx context.Context) error {
	d.step("%s releases %s, and both end their sessions", second, d.key)
	if err := d.giveBack(ctx); err != nil {
		return err
	}
	var locks, sessions, journal, accounts, marks int
	err := d.Lock.QueryRow(ctx, `SELECT (SELECT count(*) FROM lock_entry WHERE lock_key = $1),
		(SELECT count(*) FROM lock_session WHERE session_id = ANY($2::uuid[])), (SELECT count(*) FROM lock_grant WHERE lock_key = $1)`,
		d.key, []string{string(d.sessionA), string(d.sessionB)}).Scan(&locks, &sessions, &journal)
	if err != nil {
		return fmt.Errorf("look what is left in lockdb: %w", err)
	}
	err = d.Pay.QueryRow(ctx, `SELECT (SELECT count(*) FROM account WHERE account_id = $1), (SELECT count(*) FROM rail_high_water WHERE account_id = $1)`,
		d.account).Scan(&accounts, &marks)
	if err != nil {
		return fmt.Errorf("look what is left in paydb: %w", err)
	}
	d.prove(proof{"nothing_left", "K-11", "nothing is left but the journal of the grants, which is append-only", 0, ""},
		locks+sessions+accounts+marks == 0 && journal == 2, "locks: %d; sessions: %d; accounts: %d; marks: %d; the journal keeps %d grants of %s",
		locks, sessions, accounts, marks, journal, d.key)
	return nil
}

// giveBack ends the lock and both sessions.
func (d *inPlace) giveBack(ctx context.Context) error {
	if d.current != 0 {
		if _, err := d.b.Release(ctx, d.key, d.current); err != nil {
			return err
		}
	}
	for _, session := range []lockstore.SessionID{d.sessionA, d.sessionB} {
		if session == "" {
			continue
		}
		if _, err := d.b.EndSession(ctx, session); err != nil {
			return err
		}
	}
	d.tidied = true
	return nil
}

// tidy is giveBack where the story broke off before it. What it cannot end lapses.
func (d *inPlace) tidy(ctx context.Context) {
	if d.b == nil || d.tidied {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), tidyWithin)
	defer cancel()
	_ = d.giveBack(ctx) // the report has said already what went wrong
}

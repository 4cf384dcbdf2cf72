package reconcile

import (
	"context"
	_ "embed"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
)

var (
	//go:embed rules/walk_pay.sql
	walkPayQuery string
	//go:embed rules/walk_lock.sql
	walkLockQuery string
	//go:embed rules/walk_detail.sql
	walkDetailQuery string
)

// walkTokens decides the classes that need both databases' word on a token. It reads
// every use of a token in paydb beside all that lockdb knows of it, both in the order
// of tokens, and keeps the suspects only.
func walkTokens(ctx context.Context, rd reading, found *sink) error {
	j := judge{last: rd.lastToken, lastKnown: rd.lastKnown, skew: clockSkew}
	if err := j.walk(ctx, rd); err != nil {
		return err
	}
	found.checked(j.tokens)
	return tell(ctx, rd.pay, &j, found)
}

func (j *judge) walk(ctx context.Context, rd reading) error {
	// Both are sorted at the same time, on two servers.
	var (
		lock    pgx.Rows
		lockErr error
		asked   sync.WaitGroup
	)
	asked.Go(func() { lock, lockErr = rd.lock.Query(ctx, walkLockQuery) }) //nolint:sqlclosecheck // closed below
	pay, err := rd.pay.Query(ctx, walkPayQuery, rd.args(nil))
	asked.Wait()
	if err == nil {
		defer pay.Close()
	}
	if lockErr == nil {
		defer lock.Close()
	}
	if err != nil {
		return fmt.Errorf("list the tokens used in paydb: %w", err)
	}
	if lockErr != nil {
		return fmt.Errorf("list the tokens known to lockdb: %w", lockErr)
	}
	return mergeTokens(uses(pay), facts(lock), j.visit)
}

func uses(rows pgx.Rows) cursor[tokenUse] {
	return func() (u tokenUse, ok bool, err error) {
		if !rows.Next() {
			return u, false, rows.Err()
		}
		var (
			account *[16]byte
			last    *time.Time
		)
		err = rows.Scan(&u.token, &account, &u.kinds, &u.twoNames, &u.debits, &last)
		if account != nil {
			u.account, u.known = *account, true
		}
		if last != nil {
			u.last = *last
		}
		return u, err == nil, err
	}
}

func facts(rows pgx.Rows) cursor[tokenFact] {
	return func() (f tokenFact, ok bool, err error) {
		if !rows.Next() {
			return f, false, rows.Err()
		}
		err = rows.Scan(&f.token, &f.kind, &f.key, &f.owner, &f.operator, &f.at, &f.copied)
		return f, err == nil, err
	}
}

// told is what paydb says of a suspect when it is asked again.
type told struct {
	currency string
	// posted counts those of the payouts that have legs of the token.
	payouts, posted                 int64
	some                            []string
	amount                          string
	claims, attempts, legs          int64
	first, last                     *time.Time
	names                           []string
	accountChanged, highWaterChange *time.Time
}

// tellAtOnce bounds the suspects of one question, and so what they ask of the server.
const tellAtOnce = 20_000

// tell asks paydb what the suspects wrote, and reports them.
func tell(ctx context.Context, pay pgx.Tx, j *judge, found *sink) error {
	for from := 0; from < len(j.found); from += tellAtOnce {
		some := j.found[from:min(from+tellAtOnce, len(j.found))]
		if err := j.tellSome(ctx, pay, some, found); err != nil {
			return err
		}
	}
	return nil
}

func (j *judge) tellSome(ctx context.Context, pay pgx.Tx, suspects []suspicion, found *sink) error {
	tokens, payers := make([]int64, len(suspects)), make([]*string, len(suspects))
	for i, s := range suspects {
		tokens[i] = s.token
		if s.known {
			id := s.account.String()
			payers[i] = &id
		}
	}
	rows, err := pay.Query(ctx, walkDetailQuery, pgx.NamedArgs{"tokens": tokens, "payers": payers})
	if err != nil {
		return fmt.Errorf("read what the suspected tokens wrote: %w", err)
	}
	var (
		place int64
		t     told
	)
	_, err = pgx.ForEachRow(rows, []any{
		&place, &t.currency, &t.payouts, &t.posted, &t.some, &t.amount, &t.claims, &t.attempts, &t.legs,
		&t.first, &t.last, &t.names, &t.accountChanged, &t.highWaterChange,
	}, func() error {
		suspect := suspects[place-1]
		if suspect.class == postedTwiceClass && t.posted < 2 {
			return nil // two DEBIT legs of one payout, which A08 tells
		}
		row, err := j.row(suspect, t)
		if err != nil {
			return err
		}
		return found.add(row)
	})
	if err != nil {
		return fmt.Errorf("read what the suspected tokens wrote: %w", err)
	}
	return nil
}

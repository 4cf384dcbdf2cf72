package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/dlockctl/dlockctl/internal/pgtx"
)

const (
	// payoutWorkers is how many accounts are worked on at once: payout-executor's
	// default, and as many connections of the bare statements.
	payoutWorkers = 8
	// payoutAccounts is how many accounts have payouts, payoutsEach how many each: more
	// than anybody gets through.
	payoutAccounts = 64
	payoutsEach    = 100
)

// paying measures payouts from PENDING to POSTED, each with the rail's
// acknowledgement.
type paying struct {
	*bench

	programs *programs
	ready    bool
}

// group lets the services and the bare statements take turns.
func (p *paying) group(rounds int) group {
	return group{name: "payouts", rounds: rounds, prepare: p.prepare, contenders: []contender{
		{series: []series{{"payouts-sql", "the transactions of a payout, bare SQL, 8 workers", "payouts/s", ""}}, measure: p.bare},
		{series: []series{{"payouts", "payouts through executor and services, 8 workers", "payouts/s", "payouts-sql"}}, measure: p.services},
	}}
}

func (p *paying) prepare(ctx context.Context) error {
	return p.programs.build(ctx, program{root, "./cmd/dlockctl", "dlockctl"})
}

// makePayouts makes the accounts once, and new payouts for each measurement.
func (p *paying) makePayouts(ctx context.Context, pay *pgx.Conn) error {
	if !p.ready {
		const accounts = `
WITH made AS (
  INSERT INTO account (account_id, currency, balance_minor)
  SELECT ('00000000-0000-4000-8000-' || lpad(n::text, 12, '0'))::uuid, 'EUR', CASE WHEN n > $1 THEN 0 ELSE 1000000000 END
    FROM generate_series(1, $1::int + 4) n
  RETURNING account_id, balance_minor
), opened AS (
  INSERT INTO opening_balance (account_id, amount_minor, as_of, recorded_by, reason)
  SELECT account_id, balance_minor, now(), 'bench', 'made for a benchmark' FROM made
)
SELECT account_id::text FROM made WHERE balance_minor = 0`
		rows, err := pay.Query(ctx, accounts, payoutAccounts)
		if err != nil {
			return fmt.Errorf("make the accounts: %w", err)
		}
		clearing, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			return fmt.Errorf("make the accounts: %w", err)
		}
		for shard, id := range clearing {
			if _, err := pay.Exec(ctx, `INSERT INTO clearing_account (account_id, currency, shard) VALUES ($1, 'EUR', $2)`, id, shard); err != nil {
				return fmt.Errorf("name the clearing accounts: %w", err)
			}
		}
		p.ready = true
	}
	const payouts = `
INSERT INTO payout (payout_id, account_id, amount_minor, currency, idempotency_key)
SELECT id, account_id, 100, 'EUR', id::text
  FROM (SELECT gen_random_uuid() AS id, account_id FROM account a CROSS JOIN generate_series(1, $1)
         WHERE NOT EXISTS (SELECT FROM clearing_account c WHERE c.account_id = a.account_id)) made`
	if _, err := pay.Exec(ctx, payouts, payoutsEach); err != nil {
		return fmt.Errorf("make the payouts: %w", err)
	}
	return nil
}

// giveUp ends what nobody got to, so that the next contender finds its own alone.
func giveUp(ctx context.Context, pay *pgx.Conn) error {
	if _, err := pay.Exec(ctx, `UPDATE payout SET state = 'FAILED', updated_at = now() WHERE state = 'PENDING'`); err != nil {
		return fmt.Errorf("give up what is left: %w", err)
	}
	return nil
}

// services is how many payouts the services post in a second: all of them processes of
// the released program, over HTTP, with rail-sim for the rail.
func (p *paying) services(ctx context.Context) (values []float64, err error) {
	err = connected(ctx, p.dbs.payDSN, func(pay *pgx.Conn) error {
		if err := p.makePayouts(ctx, pay); err != nil {
			return err
		}
		perSecond, err := p.postedPerSecond(ctx, pay)
		values = []float64{perSecond}
		return errors.Join(err, giveUp(ctx, pay))
	})
	return values, err
}

func (p *paying) postedPerSecond(ctx context.Context, pay *pgx.Conn) (perSecond float64, err error) {
	cmd := exec.CommandContext(ctx, p.programs.path("dlockctl"), "serve", "all", "--any-port", "--profile", "bench-pay")
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + p.programs.dir, "DLOCKCTL_LOCK_DSN=" + p.dbs.lockDSN,
		"DLOCKCTL_PAY_DSN=" + p.dbs.payDSN + "&options=-c%20role%3Dpayapp_resource", "DLOCKCTL_RAIL_DSN=" + p.dbs.payDSN + "&options=-c%20role%3Dpayapp_rail",
		"DLOCKCTL_CONFIG=" + filepath.Join(p.programs.dir, "payouts.yaml"),
	}
	if err := os.WriteFile(filepath.Join(p.programs.dir, "payouts.yaml"), []byte("profiles: {bench-pay: {}}\n"), 0o600); err != nil {
		return 0, fmt.Errorf("write the configuration: %w", err)
	}
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) } // it stops its services
	if err := cmd.Start(); err != nil {
		return 0, fmt.Errorf("start the services: %w", err)
	}
	defer func() {
		stopped := cmd.Process.Signal(syscall.SIGTERM)
		if ended, ok := errors.AsType[*exec.ExitError](cmd.Wait()); ok && ended.ExitCode() != 143 {
			err = errors.Join(err, stopped, fmt.Errorf("the services ended: %w", ended))
		}
	}()
	before, err := posted(ctx, pay, payoutWorkers, -1)
	if err != nil {
		return 0, err
	}
	start := time.Now()
	select {
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	case <-time.After(p.window):
	}
	after, err := posted(ctx, pay, 0, before)
	return float64(after-before) / time.Since(start).Seconds(), err
}

// posted waits until so many payouts more are POSTED than when it was called, a second
// at least unless none are waited for, and returns how many are.
func posted(ctx context.Context, pay *pgx.Conn, more int, last int64) (n int64, err error) {
	deadline := time.Now().Add(time.Minute)
	for first := int64(-1); ; {
		if err := pay.QueryRow(ctx, `SELECT count(*) FROM payout WHERE state = 'POSTED'`).Scan(&n); err != nil {
			return 0, fmt.Errorf("count what is posted: %w", err)
		}
		if first < 0 {
			first = n
		}
		switch {
		case more == 0 && n == last:
			return 0, errors.New("the services posted nothing within the window")
		case more == 0 || n >= first+int64(more):
			return n, nil
		case time.Now().After(deadline):
			return 0, errors.New("the services posted nothing within a minute")
		}
		select {
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		case <-time.After(warmUp):
		}
	}
}

// payoutStatements are the statements of a payout's transactions, as the stores keep
// them, each with its parameters in order.
type payoutStatements struct {
	acquire, claim, submit, mark, attempt, answer, move string
	lock, debit, leg, post, credit                      string
}

func (p *paying) payoutStatements() payoutStatements {
	text := func(dir, name string, params ...string) string {
		return pgtx.Statement(os.DirFS(filepath.Join(root, "internal", dir)).(fs.ReadFileFS), name, params...) //nolint:forcetypeassert // os.DirFS says so
	}
	posting := func(name string, params ...string) string { return text("paystore/posting", name, params...) }
	rail := func(name string, params ...string) string { return text("paystore/rail", name, params...) }
	return payoutStatements{
		acquire: text("lockstore/postgres", "acquire", "key", "owner_id", "session_id", "ttl_seconds"),
		claim:   posting("claim", "payout_id", "holder", "token"),
		submit:  posting("submit", "payout_id", "token"),
		mark:    rail("mark", "account_id", "token"),
		attempt: rail("attempt", "submission_id", "payout_id", "idempotency_key", "token"),
		answer:  rail("answer", "submission_id", "outcome", "rail_reference"),
		move:    posting("move", "payout_id", "from", "to", "token"),
		lock:    posting("lock_payout", "payout_id"),
		debit:   posting("debit", "account_id", "currency", "amount_minor", "token"),
		leg:     posting("leg", "entry_id", "payout_id", "account_id", "direction", "amount_minor", "token"),
		post:    posting("post", "payout_id", "token"),
		credit:  posting("credit", "account_id", "currency", "amount_minor"),
	}
}

// bare is how many payouts the same transactions post in a second: each worker has an
// account, and a connection for each of the roles. Nothing is read that decides
// nothing, nothing goes over HTTP, and no rail is asked.
func (p *paying) bare(ctx context.Context) (values []float64, err error) {
	err = connected(ctx, p.dbs.payDSN, func(pay *pgx.Conn) error {
		if err := p.makePayouts(ctx, pay); err != nil {
			return err
		}
		workers := make([]*payer, payoutWorkers)
		defer func() {
			for _, w := range workers {
				w.close(context.WithoutCancel(ctx))
			}
		}()
		for i := range workers {
			if workers[i], err = p.newPayer(ctx, pay, i+1); err != nil {
				return err
			}
		}
		all := subject{pair: func(ctx context.Context, worker int) error { return workers[worker].pay(ctx) }}
		if _, err := load(ctx, all, payoutWorkers, warmUp); err != nil {
			return err
		}
		perSecond, err := load(ctx, all, payoutWorkers, p.window)
		values = []float64{perSecond}
		return errors.Join(err, giveUp(ctx, pay))
	})
	return values, err
}

package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"github.com/dlockctl/dlockctl/internal/reconcile"
)

// ruleStatement is a statement of internal/reconcile/rules as a run sent it.
type ruleStatement struct {
	onLock bool
	sql    string
	args   []any
}

// recorder keeps the first of each statement that a connection sends, and the settings
// that it reads with.
type recorder struct {
	onLock   bool
	keep     map[string]bool
	mu       *sync.Mutex
	kept     *[]ruleStatement
	settings *string
}

// TraceQueryStart is called before the driver sends a query.
func (r recorder) TraceQueryStart(ctx context.Context, _ *pgx.Conn, q pgx.TraceQueryStartData) context.Context {
	r.mu.Lock()
	defer r.mu.Unlock()
	// The second look asks again, about the suspects alone.
	if text := strings.TrimSpace(q.SQL); r.keep[text] {
		delete(r.keep, text)
		*r.kept = append(*r.kept, ruleStatement{r.onLock, q.SQL, q.Args})
	} else if *r.settings == "" && strings.HasPrefix(text, "SET LOCAL ") {
		*r.settings = text
	}
	return ctx
}

// TraceQueryEnd does nothing.
func (recorder) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// record makes one run, which must find what was planted, and keeps the statements of
// the rules that it sent, with their arguments: the reference cannot fall behind.
func (w *world) record(ctx context.Context) error {
	texts, err := ruleTexts()
	if err != nil {
		return err
	}
	w.rules, w.settings = nil, ""
	var mu sync.Mutex
	config := func(dsn string, onLock bool) (*pgx.ConnConfig, error) {
		config, err := pgx.ParseConfig(dsn)
		if err != nil {
			return nil, fmt.Errorf("read the DSN: %w", err)
		}
		config.Tracer = recorder{onLock, texts, &mu, &w.rules, &w.settings}
		return config, nil
	}
	pay, err := config(w.payDSN, false)
	if err != nil {
		return err
	}
	lock, err := config(w.lockDSN, true)
	if err != nil {
		return err
	}
	report, err := reconcile.Run(ctx, reconcile.Options{Pay: pay, Lock: lock, MaxDuration: time.Hour})
	if err != nil {
		return err
	}
	if err := checkReport(report, w.faults); err != nil {
		return fmt.Errorf("the first run on %s: %w", w.name, err)
	}
	if len(w.rules) < 10 || w.settings == "" {
		return fmt.Errorf("the run sent %d statements of the rules only, and %q: they are not told apart any more", len(w.rules), w.settings)
	}
	return nil
}

func ruleTexts() (map[string]bool, error) {
	paths, err := filepath.Glob(filepath.Join(root, "internal", "reconcile", "rules", "*.sql"))
	if err != nil {
		return nil, fmt.Errorf("look for the rules: %w", err)
	}
	texts := map[string]bool{}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("read the rules: %w; run it in test/bench, as `make bench` does", err)
		}
		// The questions about single suspects are no part of the reference.
		if !strings.HasSuffix(path, "_detail.sql") {
			texts[strings.TrimSpace(string(text))] = true
		}
	}
	return texts, nil
}

// bare sends the same statements over as many connections as a run has, in one
// snapshot each, and throws the rows away.
func (w *world) bare(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	onPay, onLock := make(chan ruleStatement, len(w.rules)), make(chan ruleStatement, len(w.rules))
	for _, s := range w.rules {
		if s.onLock {
			onLock <- s
		} else {
			onPay <- s
		}
	}
	close(onPay)
	close(onLock)
	for range reconcile.DefaultWorkers {
		group.Go(func() error { return w.throwAway(ctx, w.payDSN, onPay) })
	}
	group.Go(func() error { return w.throwAway(ctx, w.lockDSN, onLock) })
	return group.Wait()
}

func (w *world) throwAway(ctx context.Context, dsn string, statements <-chan ruleStatement) error {
	return w.reading(ctx, dsn, func(tx pgx.Tx) error {
		for s := range statements {
			if err := exhaust(ctx, tx, s); err != nil {
				return err
			}
		}
		return nil
	})
}

// reading lends a transaction such as a run reads in, with its settings.
func (w *world) reading(ctx context.Context, dsn string, fn func(pgx.Tx) error) error {
	return connected(ctx, dsn, func(conn *pgx.Conn) error {
		tx, err := conn.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly})
		if err != nil {
			return fmt.Errorf("begin: %w", err)
		}
		if _, err := tx.Exec(ctx, w.settings); err != nil {
			return fmt.Errorf("set what a run sets: %w", err)
		}
		if err := fn(tx); err != nil {
			return err
		}
		return tx.Rollback(ctx)
	})
}

func exhaust(ctx context.Context, tx pgx.Tx, s ruleStatement) error {
	rows, err := tx.Query(ctx, s.sql, append([]any{pgx.QueryExecModeDescribeExec}, s.args...)...)
	if err != nil {
		return fmt.Errorf("a rule's statement: %w", err)
	}
	for rows.Next() {
	}
	rows.Close()
	return rows.Err()
}

// aggregate is what the balance rule comes down to, in one statement: it counts the
// accounts whose balance is not what their legs say.
func (w *world) aggregate(ctx context.Context) error {
	const drifting = `SELECT count(*)
  FROM account a
  LEFT JOIN opening_balance o USING (account_id)
  LEFT JOIN (SELECT account_id, sum(CASE direction WHEN 'CREDIT' THEN amount_minor ELSE -amount_minor END) AS net
               FROM ledger_entry GROUP BY account_id) l USING (account_id)
 WHERE a.balance_minor <> coalesce(o.amount_minor, 0) + coalesce(l.net, 0)`
	return w.reading(ctx, w.payDSN, func(tx pgx.Tx) error {
		var accounts int
		if err := tx.QueryRow(ctx, drifting).Scan(&accounts); err != nil {
			return fmt.Errorf("sum the legs: %w", err)
		}
		if accounts != perClass {
			return fmt.Errorf("%d accounts drift, and %d were planted", accounts, perClass)
		}
		return nil
	})
}

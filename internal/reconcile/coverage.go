package reconcile

import (
	"context"
	"embed"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
)

var (
	//go:embed queries/count_*.sql
	countFiles embed.FS
	//go:embed queries/scope_currencies.sql
	scopeCurrenciesQuery string
)

// population is what classes are checked over.
type population struct{ name, database string }

// populations are counted by the file of their name; "objects" and the rest by those
// who look at them.
var populations = []population{
	{"legs", payDB},
	{"payouts", payDB},
	{"attempts", payDB},
	{"claims", payDB},
	{"accounts", payDB},
	{"tokens", lockDB},
	{"locks", lockDB},
	{"revocations", lockDB},
}

// tables are those that the rules read, for the rights.
var tables = map[string][]string{
	payDB: {
		"account", "payout", "ledger_entry", "rail_submission", "rail_high_water", "clearing_account", "opening_balance",
		"payout_claim", "payout_resolution", "account_fence_raise", "fence_floor", "pay_gate", "flyway_schema_history",
	},
	lockDB: {
		"lock_session", "lock_entry", "lock_revocation", "lock_grant", "lock_gate", "operator_log", "fencing_token_seq", "flyway_schema_history",
	},
}

func (r *run) count(ctx context.Context, p population) {
	text, err := countFiles.ReadFile("queries/count_" + p.name + ".sql")
	var n int64
	if err == nil {
		err = r.snapshotOf(p.database).with(ctx, func(tx pgx.Tx) error {
			return tx.QueryRow(ctx, string(text), r.reading().args(nil)).Scan(&n)
		})
	}
	if err != nil {
		r.book.missClasses(r.broken(ctx, p.name, err), r.book.over(p.name)...)
		return
	}
	r.book.setCount(p.name, n)
}

// heldCurrencies notes the currencies asked for that no account holds: of them nothing
// was found out.
func (r *run) heldCurrencies(ctx context.Context) {
	if len(r.o.Scope.Currencies) < 2 { // a single one leaves no account in scope
		return
	}
	err := r.pay.with(ctx, func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, scopeCurrenciesQuery, r.reading().args(nil))
		if err != nil {
			return err
		}
		none, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if len(none) > 0 {
			r.book.miss(cause{subject: "currencies", reason: "no account in scope holds " + strings.Join(none, ", ")})
		}
		return err
	})
	if err != nil {
		r.book.miss(r.broken(ctx, "currencies", err))
	}
}

func (r *run) snapshotOf(database string) *snapshot {
	if database == lockDB {
		return r.lock
	}
	return r.pay
}

// rights names each table that this login may not read, or not all of (K-12.1). A run
// of some rules only is told by those of them that fail.
func (r *run) rights(ctx context.Context) {
	if len(r.o.Scope.Rules) > 0 {
		return
	}
	for database, names := range tables {
		s := r.snapshotOf(database)
		if s == nil {
			continue
		}
		var name, problem string
		err := s.with(ctx, func(tx pgx.Tx) error {
			rows, err := tx.Query(ctx, rightsQuery, pgx.NamedArgs{"tables": names})
			if err != nil {
				return err
			}
			_, err = pgx.ForEachRow(rows, []any{&name, &problem}, func() error {
				if problem != "" {
					r.book.distrust(database+"."+name, fmt.Sprintf("%s (%s)", problem, database))
				}
				return nil
			})
			if err != nil {
				return fmt.Errorf("ask for rights: %w", err)
			}
			return nil
		})
		if err != nil {
			r.book.miss(r.broken(ctx, "rights", err))
		}
	}
}

// expectRows notes what is empty and should not be: a rule that found nothing among
// no rows has found nothing out.
func (r *run) expectRows() {
	b := r.book
	empty := func(subject, reason string, args ...any) {
		b.miss(cause{subject: subject, reason: fmt.Sprintf(reason, args...)})
	}
	scope := r.o.Scope
	accounts, known := b.counts["accounts"]
	switch {
	case !known:
	case accounts == 0 && len(scope.Accounts)+len(scope.Currencies) > 0:
		empty("accounts", "no account is in scope")
	case accounts == 0:
		empty("accounts", "paydb has no accounts")
	case accounts < int64(len(scope.Accounts)):
		empty("accounts", "%d of the %d accounts in scope do not exist, or not in the currencies asked for",
			int64(len(scope.Accounts))-accounts, len(scope.Accounts))
	}
	tokens, known := b.counts["tokens"]
	if known && tokens == 0 && b.counts["claims"] > 0 {
		empty("tokens", "the journal of grants is empty, and payouts were claimed")
	}
}

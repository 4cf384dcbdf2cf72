package reconcile

import (
	"context"
	"embed"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
)

//go:embed rules/*.sql
var ruleFiles embed.FS

// Row is one suspicion of a family, in the order of the columns that its query
// returns. Texts are "" where there is nothing to say.
type Row struct {
	Class, AccountID, PayoutID, Subject string
	Currency                            string
	// Amount is a decimal number of minor units.
	Amount string
	At     *time.Time
	// Suspects are the tokens that the rule points at, the first one first.
	Suspects []int64
	// Pending is true within the class's grace: work in flight explains it.
	Pending bool
	What    string
	Details json.RawMessage
}

func (r *Row) fields() []any {
	return []any{
		&r.Class, &r.AccountID, &r.PayoutID, &r.Subject, &r.Currency, &r.Amount,
		&r.At, &r.Suspects, &r.Pending, &r.What, &r.Details,
	}
}

// rereading says how a family is narrowed when its suspects are read again.
type rereading int

const (
	// whole reads everything again: always right, and the slowest.
	whole rereading = iota
	// byAccount and byPayout narrow @accounts or @payouts to the suspects. Every row
	// of the family then carries that id, and no other account's or payout's rows
	// decide about it.
	byAccount
	byPayout
	// byReference narrows @references to the subjects of the suspects.
	byReference
	// byOwn is byAccount, but first without the legs that other payers' payouts put on
	// the accounts (@own): those alone are not found by an index.
	byOwn
	// never is for what cannot have changed: a family that reads lockdb alone, whose
	// snapshot is the later one already.
	never
)

// family is the classes that one scan decides.
type family struct {
	// name is that of its file in rules, without .sql, or of its check.
	name string
	// classes are all that it may find.
	classes []string
	reads   Reads
	// check is for what a query cannot say; nil: the file is run.
	check func(ctx context.Context, rd reading, found *sink) error
	// args are added to those that every query has.
	args pgx.NamedArgs
	// aboveLast are those classes that compare with the last token issued. Where that
	// is not known they are skipped, and said to be.
	aboveLast []string
	// ofNoAccount are those classes whose findings belong to no account. They are left
	// out where only some accounts are looked at, and said to be.
	ofNoAccount []string
	reread      rereading
	// sealed is true for what compares transactions with those of a seal.
	sealed bool
	// weight is how long it takes beside others, 1 for 0: progress guesses by it.
	weight int
}

func (f family) needsLock() bool { return f.reads == ReadsLock || f.reads == ReadsBoth }

// families lists them all.
func families(o Options) []family {
	return slices.Concat(
		ledgerFamilies(), fenceFamilies(), railFamilies(), systemFamilies(),
		previousFamilies(o.Previous), statementFamilies(o.Statement),
	)
}

func (f family) text() (string, error) {
	text, err := ruleFiles.ReadFile("rules/" + f.name + ".sql")
	if err != nil {
		return "", fmt.Errorf("read the rules of %s: %w", f.name, err)
	}
	return string(text), nil
}

// reading is what a family reads: a snapshot of paydb, one of lockdb that is younger,
// and the part of them that is asked for.
type reading struct {
	// pay is nil for a family that reads lockdb alone, lock for one that reads paydb
	// alone. Both are read-only, and may be used until the check returns.
	pay, lock pgx.Tx
	// accounts, payouts, currencies and references of the rail narrow it; nil means all.
	accounts, payouts, currencies, references []string
	// lastToken is the last token issued, read after both snapshots, if lastKnown.
	lastToken int64
	lastKnown bool
	// own leaves out the legs that other payers' payouts put on the accounts.
	own bool
}

// clockSkew is how much the clocks of two servers, or of a server before and after a
// fail-over, may differ without being a break.
const clockSkew = 5 * time.Second

// args are the named arguments of every query.
func (rd reading) args(more pgx.NamedArgs) pgx.NamedArgs {
	args := pgx.NamedArgs{
		"accounts": rd.accounts, "payouts": rd.payouts, "currency": rd.currencies, "references": rd.references,
		"skew": clockSkew, "last_token": nil, "own": rd.own,
	}
	if rd.lastKnown {
		args["last_token"] = rd.lastToken
	}
	for name, value := range more {
		args[name] = value
	}
	return args
}

// sink takes what a family finds.
type sink struct {
	put func(Row) error
	// count is the size of the population where the family knows it better than the
	// tables do; nil: those are counted.
	count *int64
}

// add reports one suspicion.
func (s *sink) add(r Row) error { return s.put(r) }

// checked says how many of its population the family has looked at.
func (s *sink) checked(n int64) { s.count = &n }

// run reads the family once.
func (f family) run(ctx context.Context, rd reading, found *sink) error {
	if f.check != nil {
		return f.check(ctx, rd, found)
	}
	text, err := f.text()
	if err != nil {
		return err
	}
	tx := rd.pay
	if f.reads == ReadsLock {
		tx = rd.lock
	}
	return eachRow(ctx, tx, text, rd.args(f.args), found.add)
}

// eachRow streams the rows of a query that keeps the contract of families.
func eachRow(ctx context.Context, tx pgx.Tx, text string, args pgx.NamedArgs, do func(Row) error) error {
	rows, err := tx.Query(ctx, text, args)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var r Row
		if err := rows.Scan(r.fields()...); err != nil {
			return err
		}
		if err := do(r); err != nil {
			return err
		}
	}
	return rows.Err()
}

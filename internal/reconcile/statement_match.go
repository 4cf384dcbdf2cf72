package reconcile

import (
	"context"
	_ "embed" // the two queries
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
)

var (
	//go:embed queries/statement_known.sql
	statementKnownQuery string
	//go:embed queries/statement_acked.sql
	statementAckedQuery string
)

// statementBatch is how many lines are looked up at once.
const statementBatch = 5000

// statementEdge is how near to an end of the statement a payment may be listed on the
// one before or after.
const statementEdge = time.Hour

// known is what paydb has for a line.
type known struct {
	line                         int32
	payout, account, state       string
	amount                       int64
	currency                     string
	submission, outcome, railRef string
	token                        *int64
	// resolved tells that it was resolved as paid (K-5.3).
	resolved bool
	// twice tells that another line of the statement has its key or its reference.
	twice bool
}

func (s *Statement) match(ctx context.Context, rd reading, found *sink) error {
	found.checked(int64(s.count))
	index := s.index()
	twice := map[int32]bool{}
	for part := range slices.Chunk(index.repeated(), statementBatch) {
		for _, r := range part {
			twice[r.first.number], twice[r.again.number] = true, true
		}
		if err := tellRepeated(ctx, rd, found, part); err != nil {
			return err
		}
	}
	for part := range slices.Chunk(s.paid, statementBatch) {
		if err := matchLines(ctx, rd, found, part, twice); err != nil {
			return err
		}
	}
	return s.matchAcked(ctx, rd, found, index)
}

// matchLines looks from the statement into paydb. Of the lines that stand twice S04
// tells that the reference is another's.
func matchLines(ctx context.Context, rd reading, found *sink, part []paidLine, twice map[int32]bool) error {
	have, err := lookUp(ctx, rd, part)
	if err != nil {
		return err
	}
	for _, l := range part {
		k, is := have[l.number]
		k.twice = twice[l.number]
		row, broken := l.compare(k, is)
		// Paid in another currency, it concerns those who ask for either.
		if !broken || !rd.within(row.AccountID, row.Currency) && !(is && rd.within(k.account, k.currency)) {
			continue
		}
		if err := found.add(row); err != nil {
			return err
		}
	}
	return nil
}

// compare says what is wrong with a line, if anything is.
func (l paidLine) compare(k known, is bool) (Row, bool) {
	row := Row{
		AccountID: k.account, PayoutID: k.payout, Subject: l.name(), Currency: l.code(), Amount: strconv.FormatInt(l.amount, 10), At: l.time(),
		Details: l.details(k),
	}
	if k.token != nil {
		row.Suspects = []int64{*k.token}
	}
	paid := fmt.Sprintf("the rail lists %d minor units of %s as paid, %s (line %d)", l.amount, l.code(), l.named(), l.number)
	switch {
	case !is:
		row.Class, row.What = "S01", paid+", and paydb has no such payout"
	case k.amount != l.amount || k.currency != l.code():
		row.Class, row.What = "S03", fmt.Sprintf("%s, and payout %s is for %d minor units of %s", paid, k.payout, k.amount, k.currency)
	case !k.twice && l.key != "" && l.reference != "" && k.railRef != "" && l.reference != k.railRef:
		row.Class, row.What = "S03", fmt.Sprintf("%s, and the attempt of payout %s has the reference %q", paid, k.payout, k.railRef)
	case k.outcome != "ACKED" && (!k.resolved || k.outcome == "REJECTED"):
		row.Class, row.What = "S05", fmt.Sprintf("%s, and payout %s is %s with %s here", paid, k.payout, k.state, attempted(k.outcome, k.submission))
	default:
		return Row{}, false
	}
	return row, true
}

func attempted(outcome, submission string) string {
	switch {
	case submission == "":
		return "no attempt"
	case outcome == "":
		return "an attempt in flight"
	default:
		return "its attempt " + outcome
	}
}

func (l paidLine) name() string {
	if l.key != "" {
		return l.key
	}
	return l.reference
}

func (l paidLine) named() string {
	switch {
	case l.key == "":
		return fmt.Sprintf("reference %q", l.reference)
	case l.reference == "":
		return fmt.Sprintf("key %q", l.key)
	default:
		return fmt.Sprintf("key %q, reference %q", l.key, l.reference)
	}
}

func (l paidLine) code() string { return string(l.currency[:]) }

func (l paidLine) time() *time.Time {
	if l.micros == 0 {
		return nil
	}
	at := time.UnixMicro(l.micros).UTC()
	return &at
}

func (l paidLine) details(k known) json.RawMessage {
	// Strings and numbers cannot fail to encode.
	text, _ := json.Marshal(map[string]any{
		"line": l.number, "key": l.key, "reference": l.reference, "amount_minor": l.amount, "currency": l.code(),
		"payout_state": k.state, "attempt_outcome": k.outcome, "attempt_reference": k.railRef,
	})
	return text
}

// lookUp finds the payouts of lines, by the key, or else by the rail's reference.
func lookUp(ctx context.Context, rd reading, part []paidLine) (map[int32]known, error) {
	lines, keys, references := make([]int32, len(part)), make([]string, len(part)), make([]string, len(part))
	for i, l := range part {
		lines[i], keys[i], references[i] = l.number, l.key, l.reference
	}
	rows, err := rd.pay.Query(ctx, statementKnownQuery, pgx.NamedArgs{"lines": lines, "keys": keys, "references": references})
	if err != nil {
		return nil, err
	}
	have := map[int32]known{}
	var k known
	_, err = pgx.ForEachRow(rows, []any{
		&k.line, &k.payout, &k.account, &k.state, &k.amount, &k.currency, &k.submission, &k.outcome, &k.railRef, &k.token, &k.resolved,
	}, func() error {
		have[k.line] = k
		return nil
	})
	return have, rowByRow(err)
}

// tellRepeated reports payments that stand twice.
func tellRepeated(ctx context.Context, rd reading, found *sink, part []repetition) error {
	lines := make([]paidLine, len(part))
	for i, r := range part {
		lines[i] = r.again
	}
	have, err := lookUp(ctx, rd, lines)
	if err != nil {
		return err
	}
	for _, r := range part {
		k := have[r.again.number]
		if !rd.within(k.account, r.again.code()) {
			continue
		}
		row := Row{
			Class: "S04", AccountID: k.account, PayoutID: k.payout, Subject: r.again.name(), Currency: r.again.code(),
			Amount: strconv.FormatInt(r.again.amount, 10), At: r.again.time(), Details: r.again.details(k),
			What: fmt.Sprintf("the rail lists %s twice, on lines %d and %d: it was paid twice, or the list is wrong", r.again.shared(r.first), r.first.number, r.again.number),
		}
		if k.token != nil {
			row.Suspects = []int64{*k.token}
		}
		if err := found.add(row); err != nil {
			return err
		}
	}
	return nil
}

// shared names what two lines have in common.
func (l paidLine) shared(first paidLine) string {
	if l.key != "" && l.key == first.key {
		return fmt.Sprintf("key %q", l.key)
	}
	return fmt.Sprintf("reference %q", l.reference)
}

// matchAcked looks from paydb into the statement: what was acknowledged while it ran
// stands on it.
func (s *Statement) matchAcked(ctx context.Context, rd reading, found *sink, index statementIndex) error {
	rows, err := rd.pay.Query(ctx, statementAckedQuery, rd.args(pgx.NamedArgs{"from": orNull(s.from), "until": orNull(s.until)}))
	if err != nil {
		return err
	}
	var r Row
	var key, reference string
	var token int64
	var submitted time.Time
	var acked bool
	_, err = pgx.ForEachRow(rows, []any{&r.AccountID, &r.PayoutID, &r.Subject, &r.Currency, &r.Amount, &key, &reference, &token, &submitted, &acked}, func() error {
		if index.lists(key, reference) {
			return nil
		}
		row := r
		row.Class, row.At, row.Suspects = "S02", &submitted, []int64{token}
		row.Pending = s.near(submitted)
		how := map[bool]string{true: "acknowledged", false: "resolved as paid"}[acked]
		row.What = fmt.Sprintf("payout %s was %s here (key %q, reference %q), and the rail's statement does not list it", row.PayoutID, how, key, reference)
		return found.add(row)
	})
	return rowByRow(err)
}

// near tells that a payment may be listed on the statement before or after.
func (s *Statement) near(at time.Time) bool {
	return !s.from.IsZero() && (at.Before(s.from.Add(statementEdge)) || at.After(s.until.Add(-statementEdge)))
}

func orNull(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

// within tells that a row is in the run's scope.
func (rd reading) within(account, currency string) bool {
	return (rd.accounts == nil || slices.Contains(rd.accounts, account)) && (rd.currencies == nil || slices.Contains(rd.currencies, currency))
}

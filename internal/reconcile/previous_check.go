package reconcile

import (
	"context"
	_ "embed" // the queries
	"encoding/json"
	"fmt"
	"math/big"
	"strconv"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

var (
	//go:embed queries/since_touched.sql
	sinceTouchedQuery string
	//go:embed queries/previous_states.sql
	previousStatesQuery string
	//go:embed queries/since_edited.sql
	sinceEditedQuery string
)

// mostTouched is how many payouts a run since a seal picks one by one; with more it
// reads them all, which is faster.
const mostTouched = 200_000

// openings compares what each account opened with: A03.
func (p *Previous) openings(ctx context.Context, rd reading, found *sink) error {
	rows, err := rd.pay.Query(ctx, sealAccountsQuery)
	if err != nil {
		return err
	}
	var a sealAccount
	_, err = pgx.ForEachRow(rows, []any{&a.AccountID, &a.Currency, &a.Opening, &a.Recorded}, func() error {
		id, err := uuid.Parse(a.AccountID)
		if err != nil {
			return fmt.Errorf("read an account's id: %w", err)
		}
		then, known := p.accounts[id]
		if !known || then.minor == a.Opening && then.currency == a.Currency || !rd.within(a.AccountID, a.Currency) {
			return nil
		}
		return found.add(p.openingRow(a, then))
	})
	return rowByRow(err)
}

func (p *Previous) openingRow(now sealAccount, then opening) Row {
	row := Row{Class: "A03", AccountID: now.AccountID, Currency: now.Currency, Amount: difference(now.Opening, then.minor)}
	how := map[bool]string{true: "recorded", false: "implied by its balance and its legs"}
	row.What = fmt.Sprintf("it opened with %s %s (%s), and the run of %s knew %s %s (%s)",
		now.Opening, now.Currency, how[now.Recorded], p.At.UTC().Format(time.DateTime), then.minor, then.currency, how[then.recorded])
	// Strings cannot fail to encode.
	row.Details, _ = json.Marshal(map[string]string{"opening_minor": now.Opening, "sealed_opening_minor": then.minor, "sealed_run": p.RunID})
	return row
}

// rowByRow says what was being done. The engine says of which family.
func rowByRow(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("read row by row: %w", err)
}

// difference of two decimal numbers, "" where one is none.
func difference(a, b string) string {
	x, okX := new(big.Int).SetString(a, 10)
	y, okY := new(big.Int).SetString(b, 10)
	if !okX || !okY {
		return ""
	}
	return x.Sub(x, y).String()
}

// finalStates looks for payouts that were final in another state: C14.
func (p *Previous) finalStates(ctx context.Context, rd reading, found *sink) error {
	rows, err := rd.pay.Query(ctx, previousStatesQuery, rd.args(nil))
	if err != nil {
		return err
	}
	var r Row
	var state string
	var token *int64
	prints := make([]int64, 3)
	_, err = pgx.ForEachRow(rows, []any{&r.AccountID, &r.PayoutID, &r.Currency, &r.Amount, &r.At, &state, &token, &prints[0], &prints[1], &prints[2]}, func() error {
		for i, was := range []string{"POSTED", "FAILED", "ABANDONED"} {
			if was == state || !p.wasFinal(prints[i]) {
				continue
			}
			row := r
			row.Class = "C14"
			row.What = fmt.Sprintf("it is %s, and was %s for good in the run of %s", state, was, p.At.UTC().Format(time.DateTime))
			if token != nil {
				row.Suspects = []int64{*token}
			}
			return found.add(row)
		}
		return nil
	})
	return rowByRow(err)
}

// highest compares the highest tokens: D01, D04.
func (p *Previous) highest(ctx context.Context, rd reading, found *sink) error {
	var snapshot string
	var fence, mark, claim int64
	if err := rd.pay.QueryRow(ctx, sealFactsQuery).Scan(&snapshot, &fence, &mark, &claim); err != nil {
		return err
	}
	found.checked(2)
	if rd.lastKnown && p.LastToken > rd.lastToken {
		err := found.add(Row{Class: "D01", Subject: "fencing_token_seq", What: fmt.Sprintf(
			"the last token issued is %d, and was %d in the run of %s: lockdb was restored, or its sequence set back", rd.lastToken, p.LastToken, p.At.UTC().Format(time.DateTime))})
		if err != nil {
			return err
		}
	}
	for _, h := range []struct {
		name      string
		now, then int64
	}{{"fence", fence, p.HighestFence}, {"mark", mark, p.HighestMark}, {"claim", claim, p.HighestClaim}} {
		if h.now >= h.then {
			continue
		}
		err := found.add(Row{Class: "D04", Subject: h.name, Suspects: []int64{h.then}, What: fmt.Sprintf(
			"the highest %s is %d, and was %d in the run of %s: paydb was restored, or rows of it are gone", h.name, h.now, h.then, p.At.UTC().Format(time.DateTime))})
		if err != nil {
			return err
		}
	}
	return nil
}

// sealedLegs looks for legs of before the seal that are not as they were: D10. Those
// that were rewritten leave a trace and are named; of the others, which are gone or
// were changed without one, a bucket is digested each time.
func (p *Previous) sealedLegs(ctx context.Context, rd reading, found *sink) error {
	sealed, err := parseSnapshot(p.Snapshot)
	if err != nil {
		return err
	}
	args := rd.args(sealed.args())
	args["sealed_at"] = p.At
	rows, err := rd.pay.Query(ctx, sinceEditedQuery, args)
	if err != nil {
		return err
	}
	var r Row
	var token int64
	var direction string
	var at time.Time
	_, err = pgx.ForEachRow(rows, []any{&r.AccountID, &r.PayoutID, &r.Subject, &r.Currency, &r.Amount, &at, &token, &direction}, func() error {
		row := r
		row.Class, row.At, row.Suspects = "D10", &at, []int64{token}
		row.What = fmt.Sprintf("the %s of %s under token %d, of %s, was written anew after the run of %s sealed it",
			direction, row.Amount, token, at.UTC().Format(time.DateTime), p.At.UTC().Format(time.DateTime))
		return found.add(row)
	})
	if err != nil || rd.accounts != nil || rd.currencies != nil {
		return rowByRow(err) // a bucket is of all accounts
	}
	return p.bucketAgain(ctx, rd, found)
}

func (p *Previous) bucketAgain(ctx context.Context, rd reading, found *sink) error {
	i := p.Runs % SealBuckets
	now, err := digestLegs(ctx, rd.pay, p.Snapshot, &i)
	if err != nil {
		return err
	}
	if now[i] == p.Buckets[i] {
		return nil
	}
	return found.add(Row{Class: "D10", Subject: "bucket " + strconv.Itoa(i), What: fmt.Sprintf(
		"of the sealed legs in bucket %d of %d there were %d, and are %d as they were: one was removed or changed",
		i, SealBuckets, p.Buckets[i].Legs, now[i].Legs)})
}

// comparable tells that the seal was taken of this very database, in this life of it,
// so that transaction numbers mean the same. A standby has no timeline to tell, nor can
// its snapshot say which transactions were in progress.
func (p *Previous) comparable(now Snapshot) bool {
	return p.SystemIdentifier == now.SystemIdentifier && p.Database == now.Database && p.Timeline == now.Timeline && p.Timeline != 0
}

// touched are the payouts that a run since the seal looks at; nil for all.
func (p *Previous) touched(ctx context.Context, tx pgx.Tx) ([]string, error) {
	sealed, err := parseSnapshot(p.Snapshot)
	if err != nil {
		return nil, err
	}
	args := sealed.args()
	args["most"] = mostTouched + 1
	rows, err := tx.Query(ctx, sinceTouchedQuery, args)
	if err != nil {
		return nil, fmt.Errorf("find what was written since the seal: %w", err)
	}
	payouts, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, fmt.Errorf("find what was written since the seal: %w", err)
	}
	if len(payouts) > mostTouched {
		return nil, nil
	}
	return orEmpty(payouts), nil
}

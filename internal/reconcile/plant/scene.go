package plant

import (
	"context"
	"fmt"
	"iter"

	"github.com/jackc/pgx/v5"
)

var sceneColumns = []string{
	"n", "account", "currency", "clearing", "spare", "foreign_currency", "foreign_clearing",
	"p1", "p2", "p3", "t1", "t2", "t3", "at3", "by3", "other_by", "other", "other_p3", "other_t3", "f1", "f2", "forged", "x1", "x2", "x3",
}

// forgedToken is below 2^53, and far above every token that is issued.
const forgedToken = int64(1) << 52

// scenes takes so many accounts out of the world, with a neighbour each, and issues
// two tokens for each.
func (w *World) scenes(count int) ([]row, error) {
	var rows []row
	for len(rows) < count {
		h, account := w.history, w.staged
		if account+1 >= h.Accounts {
			return nil, fmt.Errorf("no account is left for a fault: %d accounts are too few, make the world larger", h.Accounts)
		}
		w.staged += 2
		if !h.raised(account) && !h.raised(account+1) {
			rows = append(rows, w.scene(account))
		}
	}
	return rows, nil
}

func (w *World) scene(account int) row {
	h := w.history
	last := h.nth(account, h.payoutsOf(account)-1)
	before := []int{last - 2*h.Accounts, last - h.Accounts}
	next := h.nth(account+1, h.payoutsOf(account+1)-1)
	p := h.past(last)
	by, other := h.hands(last)
	currency, foreign := h.currency(account), h.currency(account+1)
	w.last += 2
	made := func(k int) any { return h.scattered(drawScene, 3*account+k) }
	return row{
		account, h.accountID(account), currencies[currency], clearingID(currency, p.shard), clearingID(currency, (p.shard+1)%shards),
		currencies[foreign], clearingID(foreign, p.shard),
		h.past(before[0]).id, h.past(before[1]).id, p.id, h.token(before[0]), h.token(before[1]), h.token(last), p.created, by, other,
		h.accountID(account + 1), h.past(next).id, h.token(next), w.last - 1, w.last, forgedToken + int64(account), made(0), made(1), made(2),
	}
}

// stage makes the table that the faults read, and the functions they are made of.
func stage(ctx context.Context, tx pgx.Tx, helpers string, scenes []row) error {
	for _, name := range []string{"scene", helpers} {
		if _, err := tx.Exec(ctx, script(name)); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return table{"scene", sceneColumns, values(scenes)}.copyTo(ctx, tx)
}

func values(rows []row) iter.Seq[row] {
	return func(yield func(row) bool) {
		for _, r := range rows {
			if !yield(r) {
				return
			}
		}
	}
}

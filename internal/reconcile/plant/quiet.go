package plant

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
)

// trigger is one of the migrations' triggers.
type trigger struct{ Table, Name, Enabled string }

// quietly runs fn in a transaction in which no trigger fires and no foreign key is
// looked at, and leaves every trigger enabled as it was: the replica role alone
// does not silence those that are ENABLE ALWAYS.
func quietly(ctx context.Context, conn *pgx.Conn, fn func(context.Context, pgx.Tx) error) error {
	return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "SET LOCAL session_replication_role = replica"); err != nil {
			return fmt.Errorf("write as a replica: %w", err)
		}
		before, err := triggers(ctx, tx)
		if err != nil {
			return err
		}
		var off []string
		for _, t := range before {
			off = append(off, t.alter("DISABLE"))
		}
		if err := execAll(ctx, tx, off); err != nil {
			return err
		}
		if err := fn(ctx, tx); err != nil {
			return err
		}
		return restore(ctx, tx, before)
	})
}

func triggers(ctx context.Context, tx pgx.Tx) ([]trigger, error) {
	rows, err := tx.Query(ctx, script("triggers"))
	if err != nil {
		return nil, fmt.Errorf("list the triggers: %w", err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[trigger])
	if err != nil {
		return nil, fmt.Errorf("list the triggers: %w", err)
	}
	return list, nil
}

func (t trigger) alter(how string) string {
	return fmt.Sprintf("ALTER TABLE ONLY %s %s TRIGGER %s", t.Table, how, t.Name)
}

// execAll sends the statements at once: there are about a hundred.
func execAll(ctx context.Context, tx pgx.Tx, statements []string) error {
	if _, err := tx.Exec(ctx, strings.Join(statements, ";\n")); err != nil {
		return fmt.Errorf("switch the triggers: %w", err)
	}
	return nil
}

// restore leaves alone what fn dropped or enabled in another way: that is the fault.
func restore(ctx context.Context, tx pgx.Tx, before []trigger) error {
	now, err := triggers(ctx, tx)
	if err != nil {
		return err
	}
	silent := map[trigger]bool{}
	for _, t := range now {
		silent[t] = t.Enabled == "D"
	}
	how := map[string]string{"O": "ENABLE", "A": "ENABLE ALWAYS", "R": "ENABLE REPLICA"}
	var on []string
	for _, t := range before {
		if how[t.Enabled] != "" && silent[trigger{t.Table, t.Name, "D"}] {
			on = append(on, t.alter(how[t.Enabled]))
		}
	}
	return execAll(ctx, tx, on)
}

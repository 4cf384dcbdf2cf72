package flyway

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// Alignment is a row whose description and checksum Repair sets to the file's.
type Alignment struct {
	Row         Row    `json:"row"` // as it was
	Description string `json:"description"`
	Checksum    int32  `json:"checksum"`
}

// RepairPlan lists every change of Repair, in the order in which it makes them.
type RepairPlan struct {
	Schema   string      `json:"schema"`
	Remove   []Row       `json:"remove"`   // failed rows to delete
	Delete   []Row       `json:"delete"`   // missing migrations to mark deleted, as the DELETE rows to write
	Align    []Alignment `json:"align"`    // rows to bring in line with their files
	Leftover []string    `json:"leftover"` // invalid indexes that failed files left behind; Repair does not drop them
	Applied  bool        `json:"applied"`  // false for a dry run, and when there was nothing to do
}

// Empty reports whether there is nothing to repair.
func (p RepairPlan) Empty() bool { return len(p.Remove)+len(p.Delete)+len(p.Align) == 0 }

// Repair does to the history what Flyway's repair does: it removes failed rows, marks
// missing migrations deleted, and accepts edited files; future rows stay. Unlike
// Flyway's it holds the lock, and with dryRun it only says what it would do. It
// touches no other object.
//
// It returns a *HistoryError when a row cannot be read as history, a *LockError, a
// *PoolerError or ErrStandby.
func (m *Migrator) Repair(ctx context.Context, dryRun bool) (RepairPlan, error) {
	if err := m.writable(ctx); err != nil {
		return RepairPlan{}, err
	}
	tx, err := m.acquire(ctx)
	if err != nil {
		return RepairPlan{}, err
	}
	defer m.rollback(ctx, tx)
	if err := m.setUp(ctx, tx, true); err != nil {
		return RepairPlan{}, err
	}
	rows, err := m.table.rows(ctx, tx)
	if err != nil {
		return RepairPlan{}, err
	}
	repair := planRepair(m.catalogue, rows)
	repair.Schema = m.table.schema
	if corrupt := analyse(m.catalogue, rows).corrupt; len(corrupt) > 0 {
		return repair, &HistoryError{Table: m.table.quoted(), Findings: corrupt}
	}
	if repair.Leftover, err = m.leftovers(ctx, repair.Remove); err != nil {
		return repair, err
	}
	if dryRun || repair.Empty() {
		return repair, nil
	}
	if err := m.applyRepair(ctx, tx, repair); err != nil {
		return repair, err
	}
	if err := tx.Commit(ctx); err != nil {
		return repair, fmt.Errorf("repair %s: %w", m.table.quoted(), err)
	}
	repair.Applied = true
	return repair, nil
}

// planRepair follows Flyway's order: failed rows go first, and only what the
// history looks like without them is compared with the files.
func planRepair(c *Catalogue, rows []Row) RepairPlan {
	repair := RepairPlan{Remove: []Row{}, Delete: []Row{}, Align: []Alignment{}, Leftover: []string{}}
	var kept []Row
	for _, row := range rows {
		if row.Success {
			kept = append(kept, row)
		} else {
			repair.Remove = append(repair.Remove, row)
		}
	}
	rank := nextRank(kept)
	for _, it := range analyse(c, kept).items {
		switch {
		case it.applied == nil || it.applied.synthetic():
		case it.state == StateMissing:
			mark := *it.applied
			mark.InstalledRank, mark.Type, mark.ExecutionTime = rank, typeDelete, 0
			repair.Delete = append(repair.Delete, mark)
			rank++
		case it.local != nil && !it.local.Repeatable() && (!sameChecksum(it) || it.local.Description != it.applied.Description):
			repair.Align = append(repair.Align, Alignment{Row: *it.applied, Description: it.local.Description, Checksum: it.local.Checksum})
		}
	}
	return repair
}

func (m *Migrator) applyRepair(ctx context.Context, tx pgx.Tx, repair RepairPlan) error {
	for _, row := range repair.Remove {
		if err := m.change(ctx, tx, row, `DELETE FROM `+m.table.quoted()+` WHERE "installed_rank" = $1 AND NOT "success"`,
			row.InstalledRank); err != nil {
			return err
		}
	}
	for _, row := range repair.Delete {
		if err := m.table.insert(ctx, tx, row); err != nil {
			return err
		}
	}
	for _, a := range repair.Align {
		if err := m.change(ctx, tx, a.Row, `UPDATE `+m.table.quoted()+` SET "description" = $2, "checksum" = $3 WHERE "installed_rank" = $1`,
			a.Row.InstalledRank, a.Description, a.Checksum); err != nil {
			return err
		}
	}
	return nil
}

// change runs a statement that must concern exactly one row.
func (m *Migrator) change(ctx context.Context, tx pgx.Tx, row Row, sql string, args ...any) error {
	tag, err := tx.Exec(ctx, sql, args...)
	if err != nil {
		return fmt.Errorf("repair row %d of %s: %w", row.InstalledRank, m.table.quoted(), err)
	}
	if tag.RowsAffected() != 1 {
		return fmt.Errorf("repair row %d of %s: %d rows changed instead of one", row.InstalledRank, m.table.quoted(), tag.RowsAffected())
	}
	return nil
}

// leftovers names the invalid indexes of the files whose failed rows are removed.
func (m *Migrator) leftovers(ctx context.Context, failed []Row) ([]string, error) {
	left := []string{}
	for _, row := range failed {
		for _, mig := range m.catalogue.migrations {
			if mig.Script != row.Script {
				continue
			}
			invalid, err := m.invalidIndexes(ctx, mig)
			if err != nil {
				return left, err
			}
			left = append(left, invalid...)
		}
	}
	return left, nil
}

package reconcile

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/dlockctl/dlockctl/internal/flyway"
	"github.com/dlockctl/dlockctl/migrations"
)

// historyOf compares the schema history with the migrations that the rules were
// written for (D07).
func historyOf(database string) func(context.Context, reading, *sink) error {
	return func(ctx context.Context, rd reading, found *sink) error {
		tx := rd.pay
		if database == lockDB {
			tx = rd.lock
		}
		rows, err := flyway.Applied(ctx, tx, "")
		if err != nil {
			return err
		}
		report := func(subject, what string) error {
			return found.add(Row{Class: historyClass, Subject: database + "." + subject, What: database + ": " + what})
		}
		if len(rows) == 0 {
			return report("history", "there is no schema history, so nothing says what the tables are")
		}
		// Repeatables are seeds, which are no schema (K-9.4).
		seeded := slices.ContainsFunc(rows, func(r flyway.Row) bool { return r.Version == "" })
		catalogue, err := loadMigrations(database, seeded)
		if err != nil {
			return err
		}
		_, disagreements, err := flyway.Compare(ctx, tx, catalogue, "")
		if err != nil {
			return err
		}
		for _, d := range disagreements {
			// A changed seed is no other schema.
			if d.Kind == flyway.KindOutdated {
				continue
			}
			if err := report(string(d.Kind)+" "+d.Script, d.Message); err != nil {
				return err
			}
		}
		return nil
	}
}

func loadMigrations(database string, seeded bool) (*flyway.Catalogue, error) {
	locations := []flyway.Location{{FS: migrations.FS, Dir: database}}
	if seeded && database == payDB {
		locations = append(locations, flyway.Location{FS: migrations.FS, Dir: "seed/" + database})
	}
	catalogue, err := flyway.Load(locations...)
	if err != nil {
		return nil, fmt.Errorf("read the migrations of %s: %w", database, err)
	}
	return catalogue, nil
}

// compareClocks asks both databases for their time (D06). Each answer was true at some
// moment between question and answer, and only what that cannot explain is skew.
func compareClocks(ctx context.Context, rd reading, found *sink) error {
	payLow, payHigh, err := clockOffset(ctx, rd.pay)
	if err != nil {
		return err
	}
	lockLow, lockHigh, err := clockOffset(ctx, rd.lock)
	if err != nil {
		return err
	}
	if skew := max(lockLow-payHigh, payLow-lockHigh); skew > clockSkew {
		ahead := payDB
		if lockLow > payHigh {
			ahead = lockDB
		}
		return found.add(Row{
			Class: "D06", Subject: "clocks",
			What: fmt.Sprintf("the clock of %s is at least %s ahead of the other's: leases and times of the two cannot be compared", ahead, skew.Round(time.Millisecond)),
		})
	}
	return nil
}

// clockOffset bounds how far the database's clock is ahead of this machine's.
func clockOffset(ctx context.Context, tx pgx.Tx) (low, high time.Duration, err error) {
	var there time.Time
	asked := time.Now()
	if err := tx.QueryRow(ctx, "SELECT clock_timestamp()").Scan(&there); err != nil {
		return 0, 0, fmt.Errorf("ask for the time: %w", err)
	}
	answered := time.Now()
	return there.Sub(answered), there.Sub(asked), nil
}

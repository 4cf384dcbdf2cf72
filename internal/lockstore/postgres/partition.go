package postgres

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/dlockctl/dlockctl/internal/instance"
	"github.com/dlockctl/dlockctl/internal/lockstore"
)

var _ lockstore.JournalPruner = (*Store)(nil)

// PruneJournal drops the journal's oldest partitions, lowest first, as far as
// the params allow (K-11), each in a transaction of its own with its record in
// the operator log. It needs the right to become dlock_owner. A DROP waits behind
// every reader, and every acquire behind it: past the lock timeout it gives up
// with *BlockedError. What it returns beside an error was dropped.
func (s *Store) PruneJournal(ctx context.Context, params lockstore.JournalPruneParams) (lockstore.JournalPrune, error) {
	pruned := lockstore.JournalPrune{Dropped: []lockstore.JournalPartition{}}
	if err := params.Valid(); err != nil {
		return pruned, err
	}
	partitions, err := s.journalPartitions(ctx)
	if err != nil {
		return pruned, err
	}
	var above lockstore.Token
	for _, p := range partitions {
		why, err := s.keep(ctx, &p, above, params)
		if err != nil {
			return pruned, err
		}
		if why != "" {
			pruned.Kept, pruned.Why = &p, why
			return pruned, nil
		}
		if !params.DryRun {
			if err := s.dropPartition(ctx, p, params); err != nil {
				return pruned, err
			}
		}
		pruned.Dropped, above = append(pruned.Dropped, p), p.To
	}
	return pruned, nil
}

func (s *Store) journalPartitions(ctx context.Context) ([]lockstore.JournalPartition, error) {
	var partitions []lockstore.JournalPartition
	err := s.read(ctx, "list the partitions of the grant journal", journalPartitionsQuery, nil, func(rows pgx.Rows) error {
		return scanRows(rows, func() error {
			var p lockstore.JournalPartition
			err := rows.Scan(&p.Name, &p.From, &p.To)
			partitions = append(partitions, p)
			return err
		})
	})
	return partitions, err
}

// keep says why a partition stays, "" when it may go, and fills in what it
// holds. above is where the last one ended that goes. Whatever is read here only becomes truer with time: below the token
// last issued, no grant begins any more.
func (s *Store) keep(ctx context.Context, p *lockstore.JournalPartition, above lockstore.Token, params lockstore.JournalPruneParams) (string, error) {
	doing := "look at the grant journal's partition " + p.Name
	var issued, inDefault lockstore.Token
	err := s.read(ctx, doing, journalStateQuery, []any{above, p.From}, func(rows pgx.Rows) error {
		return scanRows(rows, func() error { return rows.Scan(&issued, &inDefault) })
	})
	if err != nil {
		return "", err
	}
	var standing int64
	var old bool
	err = s.read(ctx, doing, journalActivityQuery, []any{params.OlderThan.Seconds(), p.From, p.To}, func(rows pgx.Rows) error {
		return scanRows(rows, func() error { return rows.Scan(&p.Grants, timeTo(&p.LastActivity), &standing, &old) })
	})
	switch {
	case err != nil:
		return "", err
	case issued < p.To:
		return fmt.Sprintf("tokens of its range are still issued: the last one is %s", issued), nil
	case params.Below != 0 && params.Below < p.To:
		return fmt.Sprintf("a payout that is not final was claimed under token %s", params.Below), nil
	case standing > 0:
		return fmt.Sprintf("%d of its grants have not ended", standing), nil
	case !old:
		return fmt.Sprintf("its last grant or end, at %s, is younger than %s", p.LastActivity, params.OlderThan), nil
	case inDefault != 0:
		return fmt.Sprintf("DEFAULT holds the older token %s, and the journal would have a gap", inDefault), nil
	}
	return "", nil
}

// dropPartition drops one partition as its owner. DEFAULT is locked before the
// parent, as lock_grant_extend does.
func (s *Store) dropPartition(ctx context.Context, p lockstore.JournalPartition, params lockstore.JournalPruneParams) error {
	doing := "drop the grant journal's partition " + p.Name
	details, err := json.Marshal(p)
	if err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	return s.transaction(ctx, doing, "", func(tx pgx.Tx) error {
		for _, sql := range []string{
			"SET LOCAL ROLE " + instance.OwnerRole,
			"LOCK TABLE lock_grant_default IN ACCESS EXCLUSIVE MODE",
			"LOCK TABLE lock_grant IN ACCESS EXCLUSIVE MODE",
		} {
			if _, err := tx.Exec(ctx, sql); err != nil {
				return err
			}
		}
		// A grant whose transaction was under way during the look stands now.
		var standing bool
		if err := tx.QueryRow(ctx, journalStandingQuery, p.From, p.To).Scan(&standing); err != nil {
			return err
		}
		if standing {
			return fmt.Errorf("a grant of partition %s stands after all; look again", p.Name)
		}
		// The name is the server's own spelling of it, quoted where it must be.
		if _, err := tx.Exec(ctx, "DROP TABLE "+p.Name); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, logActionQuery, lockstore.ActionPruneJournal, params.Operator, params.Reason, nil, details)
		return err
	})
}

package lockstore

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// JournalPruner is a Store whose grant journal grows and can be pruned. It is an
// interface of its own, since most backends have nothing of the kind.
type JournalPruner interface {
	// PruneJournal drops what of the grant journal is old and no longer needed.
	// What it returns was dropped, also beside an error.
	PruneJournal(ctx context.Context, params JournalPruneParams) (JournalPrune, error)
}

// MinJournalAge is the youngest that the journal is pruned: above the longest
// lease, so that no transaction of a grant in it is still under way.
const MinJournalAge = 48 * time.Hour

// ActionPruneJournal is the operator log's action of a partition that was
// dropped from the grant journal.
const ActionPruneJournal = "prune_journal"

// JournalPruneParams say which of the grant journal's oldest partitions may go.
type JournalPruneParams struct {
	// OlderThan is how long ago the last grant in a partition must have ended.
	OlderThan time.Duration
	// Below bounds the tokens that may go: the lowest claim of a payout that is
	// not final, whose attribution needs the journal (K-11). 0 is no bound.
	Below    Token
	Operator string
	Reason   string
	// DryRun tells what would go, and drops nothing.
	DryRun bool
}

// Valid refuses, wrapping ErrInvalid, an age below MinJournalAge, and a change that
// nobody answers for.
func (p JournalPruneParams) Valid() error {
	if p.OlderThan < MinJournalAge {
		return fmt.Errorf("%w: a journal of the last %s is not pruned; give an age of at least %s", ErrInvalid, p.OlderThan, MinJournalAge)
	}
	if p.Below != 0 {
		if err := ValidToken(p.Below); err != nil {
			return err
		}
	}
	if p.DryRun {
		return nil
	}
	return errors.Join(ValidOperator(p.Operator), ValidReason(p.Reason))
}

// JournalPartition is a range of the grant journal, From up to but without To.
type JournalPartition struct {
	Name string `json:"partition"`
	From Token  `json:"from_token"`
	To   Token  `json:"to_token"`
	// Grants counts the rows; LastActivity is the last grant or end among them.
	Grants       int64 `json:"grants"`
	LastActivity Time  `json:"last_activity,omitzero"`
}

// JournalPrune is what PruneJournal did, or would do.
type JournalPrune struct {
	Dropped []JournalPartition `json:"dropped"`
	// Kept is the first partition that stays, and Why; those above it stay too,
	// so that what the journal holds has no gap.
	Kept *JournalPartition `json:"kept,omitempty"`
	Why  string            `json:"why,omitempty"`
}

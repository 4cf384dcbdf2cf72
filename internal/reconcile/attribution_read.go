package reconcile

import (
	"context"
	_ "embed"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

var (
	//go:embed queries/attribution_payouts.sql
	attributionPayoutsQuery string
	//go:embed queries/attribution_drift.sql
	attributionDriftQuery string
	//go:embed queries/attribution_names.sql
	attributionNamesQuery string
	//go:embed queries/attribution_lock.sql
	attributionLockQuery string
)

// payoutFacts is what stands of a payout.
type payoutFacts struct {
	payer, state, claimedBy string
	// claim is the token on its row, 0 for none; fence the payer's.
	claim, fence int64
	// fences are the tokens of its legs.
	fences []int64
	// together tells that its legs and its last change are of one moment, as one
	// transaction leaves them; legsAt is that of the last leg.
	together bool
	legsAt   *time.Time
	// late tells that its legs were written by a later transaction than a leg of a higher
	// token on the payer's account.
	late bool
	// claims are the names of all that ever claimed it.
	claims   map[int64]string
	attempts map[string]attemptFacts
}

type attemptFacts struct {
	token int64
	// inOrder tells that it was answered after it was made, that the payout changed after
	// it, or with it, and that a transaction before wrote a higher token's attempt.
	inOrder bool
}

// driftCandidate is a posting that would explain a drift to the minor unit.
type driftCandidate struct {
	payout, payer string
	token         int64
	how           string
}

// The ways in which a posting explains a drift.
const (
	driftLost      = "lost"      // its leg stands, the balance does not know it
	driftTwice     = "twice"     // the balance knows its leg twice
	driftEdited    = "edited"    // its leg is not of the payout's amount
	driftUnwritten = "unwritten" // the balance knows it, and no leg stands
	// driftClearing is no posting: the account is a clearing account.
	driftClearing = "clearing"
)

// lockFact is one thing that lockdb says of a token.
type lockFact struct {
	source, key, owner string
	at                 *time.Time
	ended              string
	endedAt            *time.Time
	operator, reason   string
}

// The sources of a holder's name.
const (
	fromJournal    = "lock_grant"
	fromEntry      = "lock_entry"
	fromRevocation = "lock_revocation"
	fromLog        = "operator_log"
	fromClaim      = "payout_claim"
	fromAttempt    = "rail_submission"
)

func (e *evidence) readPayouts(ctx context.Context, pay pgx.Tx, findings []Finding) error {
	e.payouts = map[string]payoutFacts{}
	ids := payoutsOf(findings)
	if len(ids) == 0 {
		return nil
	}
	rows, err := pay.Query(ctx, attributionPayoutsQuery, pgx.NamedArgs{"payouts": ids})
	if err != nil {
		return fmt.Errorf("read the payouts of the findings: %w", err)
	}
	var (
		id                string
		p                 payoutFacts
		claims, presented []int64
		names, attempts   []string
		before            []bool
	)
	_, err = pgx.ForEachRow(rows, []any{
		&id, &p.payer, &p.state, &p.claim, &p.claimedBy, &p.fence, &p.fences, &p.together, &p.legsAt, &p.late, &claims, &names, &attempts, &presented, &before,
	}, func() error {
		one := p
		one.claims, one.attempts = map[int64]string{}, map[string]attemptFacts{}
		for i, token := range claims {
			one.claims[token] = names[i]
		}
		for i, attempt := range attempts {
			one.attempts[attempt] = attemptFacts{presented[i], before[i]}
		}
		e.payouts[id] = one
		p, claims, names, attempts, presented, before = payoutFacts{}, nil, nil, nil, nil, nil
		return nil
	})
	if err != nil {
		return fmt.Errorf("read the payouts of the findings: %w", err)
	}
	return nil
}

// payoutsOf are the payouts that the findings name, each once.
func payoutsOf(findings []Finding) []string {
	var ids []string
	seen := map[string]bool{"": true}
	for _, f := range findings {
		for _, id := range append(detailPayouts(f), f.PayoutID) {
			if !seen[id] {
				seen[id] = true
				ids = append(ids, id)
			}
		}
	}
	return ids
}

func (e *evidence) readDrifts(ctx context.Context, pay pgx.Tx, findings []Finding) error {
	e.drifts, e.clearing = map[string][]driftCandidate{}, map[string]bool{}
	var accounts, drifts []string
	for _, f := range findings {
		if f.Class == driftClass {
			accounts, drifts = append(accounts, f.AccountID), append(drifts, f.AmountMinor)
		}
	}
	if len(accounts) == 0 {
		return nil
	}
	rows, err := pay.Query(ctx, attributionDriftQuery, pgx.NamedArgs{"drift_accounts": accounts, "drifts": drifts})
	if err != nil {
		return fmt.Errorf("look for postings that explain a drift: %w", err)
	}
	var (
		place int64
		c     driftCandidate
	)
	_, err = pgx.ForEachRow(rows, []any{&place, &c.payout, &c.payer, &c.token, &c.how}, func() error {
		account := accounts[place-1]
		if c.how == driftClearing {
			e.clearing[account] = true
			return nil
		}
		e.drifts[account] = append(e.drifts[account], c)
		return nil
	})
	if err != nil {
		return fmt.Errorf("look for postings that explain a drift: %w", err)
	}
	return nil
}

func (e *evidence) readNames(ctx context.Context, pay pgx.Tx, wanted map[tokenAt]bool) error {
	e.names = map[tokenAt][]string{}
	var (
		tokens []int64
		payers []string
		asked  []tokenAt
	)
	for at := range wanted {
		tokens, payers, asked = append(tokens, at.token), append(payers, at.account), append(asked, at)
	}
	if len(asked) == 0 {
		return nil
	}
	rows, err := pay.Query(ctx, attributionNamesQuery, pgx.NamedArgs{"tokens": tokens, "payers": payers})
	if err != nil {
		return fmt.Errorf("read who claimed under the tokens: %w", err)
	}
	var (
		place int64
		names []string
	)
	_, err = pgx.ForEachRow(rows, []any{&place, &names}, func() error {
		e.names[asked[place-1]], names = names, nil
		return nil
	})
	if err != nil {
		return fmt.Errorf("read who claimed under the tokens: %w", err)
	}
	return nil
}

// readLocks leaves locks empty where lockdb is not read.
func (e *evidence) readLocks(ctx context.Context, lock pgx.Tx, tokens []int64) error {
	e.locks = map[int64][]lockFact{}
	if lock == nil || len(tokens) == 0 {
		return nil
	}
	rows, err := lock.Query(ctx, attributionLockQuery, pgx.NamedArgs{"tokens": tokens})
	if err != nil {
		return fmt.Errorf("read who was granted the tokens: %w", err)
	}
	var (
		token int64
		fact  lockFact
	)
	_, err = pgx.ForEachRow(rows, []any{
		&token, &fact.source, &fact.key, &fact.owner, &fact.at, &fact.ended, &fact.endedAt, &fact.operator, &fact.reason,
	}, func() error {
		e.locks[token] = append(e.locks[token], fact)
		fact = lockFact{}
		return nil
	})
	if err != nil {
		return fmt.Errorf("read who was granted the tokens: %w", err)
	}
	return nil
}

package rail

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/dlockctl/dlockctl/internal/paystore"
	"github.com/dlockctl/dlockctl/internal/pgtx"
)

//go:embed queries/*.sql
var queryFiles embed.FS

// The statements, each with its parameters in the order they are passed.
var (
	payoutQuery          = pgtx.Statement(queryFiles, "payout", "payout_id", "token")
	markQuery            = pgtx.Statement(queryFiles, "mark", "account_id", "token")
	barrierQuery         = pgtx.Statement(queryFiles, "barrier", "account_id")
	attemptQuery         = pgtx.Statement(queryFiles, "attempt", "submission_id", "payout_id", "idempotency_key", "token")
	fencedQuery          = pgtx.Statement(queryFiles, "fenced", "submission_id", "payout_id", "idempotency_key", "token")
	standingAttemptQuery = pgtx.Statement(queryFiles, "standing_attempt", "payout_id")
	ownAttemptQuery      = pgtx.Statement(queryFiles, "own_attempt", "submission_id")
	answerQuery          = pgtx.Statement(queryFiles, "answer", "submission_id", "outcome", "rail_reference")
	timeoutQuery         = pgtx.Statement(queryFiles, "timeout", "submission_id")
	rightsQuery          = pgtx.Statement(queryFiles, "rights")
	overdueQuery         = pgtx.Statement(queryFiles, "overdue", "payout_id", "timeout_seconds")
)

// querier is a connection or a transaction.
type querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// payout is what the rail has to know of one, and of a token's right to it.
type payout struct {
	id, accountID string
	amountMinor   paystore.Minor
	currency, key string
	state         paystore.State
	claimToken    paystore.Token
	// claimed tells that the token once claimed the payout (K-5.2).
	claimed bool
	// paid tells that the rail's payment is on record (K-7.9).
	paid bool
}

// matches refuses an answer about another payment: a client that sends the key of a
// forgotten payout again may give another amount.
func (p payout) matches(said Answer) error {
	if (said.AmountMinor == 0 || said.AmountMinor == p.amountMinor) && (said.Currency == "" || said.Currency == p.currency) {
		return nil
	}
	return &paystore.EvidenceError{
		Message: fmt.Sprintf("under key %q the rail has %s minor units of %s (%s, reference %q), and payout %s is for %s of %s",
			p.key, said.AmountMinor, said.Currency, said.Outcome, said.Reference, p.id, p.amountMinor, p.currency),
		Hint: "compare the rail's statement: dlockctl reconcile --rail-statement FILE",
	}
}

func scanPayout(row pgx.CollectableRow) (p payout, err error) {
	var id, account uuid.UUID
	err = row.Scan(&id, &account, &p.amountMinor, &p.currency, &p.key, &p.state, &p.claimToken, &p.claimed, &p.paid)
	p.id, p.accountID = id.String(), account.String()
	return p, err //nolint:wrapcheck // who asked says what for
}

func scanAttempt(row pgx.CollectableRow) (a paystore.Attempt, err error) {
	var id, payoutID uuid.UUID
	var resolved *time.Time
	err = row.Scan(&id, &payoutID, &a.IdempotencyKey, &a.PresentedToken, &a.Outcome, &a.RailReference, &a.SubmittedAt, &resolved)
	a.SubmissionID, a.PayoutID = id.String(), payoutID.String()
	if resolved != nil {
		a.ResolvedAt = *resolved
	}
	return a, err //nolint:wrapcheck // who asked says what for
}

// atMostOne reads the row there is, and whether there is one.
func atMostOne[T any](rows pgx.Rows, scan pgx.RowToFunc[T]) (one T, found bool, err error) {
	one, err = pgx.CollectExactlyOneRow(rows, scan)
	if errors.Is(err, pgx.ErrNoRows) {
		return one, false, nil
	}
	return one, err == nil, err
}

// readPayout returns ErrNotFound when there is none.
func readPayout(ctx context.Context, q querier, payoutID string, token paystore.Token) (payout, error) {
	rows, err := q.Query(ctx, payoutQuery, payoutID, token)
	if err != nil {
		return payout{}, err
	}
	p, found, err := atMostOne(rows, scanPayout)
	if err == nil && !found {
		err = noPayout(payoutID)
	}
	return p, err
}

func noPayout(payoutID string) error {
	return fmt.Errorf("payout %s: %w", payoutID, paystore.ErrNotFound)
}

// mark is statement (d): whether the token stands in the account's mark now.
func mark(ctx context.Context, q querier, accountID string, token paystore.Token) (bool, error) {
	var highest paystore.Token
	err := q.QueryRow(ctx, markQuery, accountID, token).Scan(&highest)
	if errors.Is(err, pgx.ErrNoRows) {
		return false, nil
	}
	return err == nil, err
}

// barrier is what a token must be above at the rail, mark and floor; 0 for none.
func barrier(ctx context.Context, q querier, accountID string) (highest, floor paystore.Token, err error) {
	err = q.QueryRow(ctx, barrierQuery, accountID).Scan(&highest, &floor)
	return highest, floor, err
}

// findAttempt runs a statement that returns an attempt or none.
func findAttempt(ctx context.Context, q querier, sql string, args ...any) (paystore.Attempt, bool, error) {
	rows, err := q.Query(ctx, sql, args...)
	if err != nil {
		return paystore.Attempt{}, false, err
	}
	return atMostOne(rows, scanAttempt)
}

// payout reads one outside a transaction, whoever claimed it. It returns ErrNotFound
// when there is none.
func (p *Proxy) payout(ctx context.Context, doing, payoutID string) (paid payout, err error) {
	found := false
	err = p.db.Read(ctx, doing, payoutQuery, []any{payoutID, 0}, func(rows pgx.Rows) (err error) {
		paid, found, err = atMostOne(rows, scanPayout)
		return err
	})
	if err == nil && !found { // not in the scan: what fails there counts as no answer
		err = noPayout(payoutID)
	}
	return paid, err
}

// find reads an attempt outside a transaction.
func (p *Proxy) find(ctx context.Context, doing, sql string, args ...any) (a paystore.Attempt, found bool, err error) {
	err = p.db.Read(ctx, doing, sql, args, func(rows pgx.Rows) (err error) {
		a, found, err = atMostOne(rows, scanAttempt)
		return err
	})
	return a, found, err
}

// change runs a statement that changes an attempt, or none.
func (p *Proxy) change(ctx context.Context, doing, payoutID, sql string, args ...any) (a paystore.Attempt, found bool, err error) {
	err = p.db.Change(ctx, doing, payoutID, sql, args, func(rows pgx.Rows) (err error) {
		a, found, err = atMostOne(rows, scanAttempt)
		return err
	})
	return a, found, err
}

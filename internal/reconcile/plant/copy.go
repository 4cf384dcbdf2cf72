package plant

import (
	"context"
	"fmt"
	"iter"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
)

// row is one row of a COPY.
type row = []any

// table is one COPY: its rows are made while they are sent.
type table struct {
	name    string
	columns []string
	rows    iter.Seq[row]
}

func (t table) copyTo(ctx context.Context, tx pgx.Tx) error {
	next, stop := iter.Pull(t.rows)
	defer stop()
	_, err := tx.CopyFrom(ctx, pgx.Identifier{t.name}, t.columns, pgx.CopyFromFunc(func() ([]any, error) {
		made, ok := next()
		if !ok {
			return nil, nil
		}
		return made, nil
	}))
	if err != nil {
		return fmt.Errorf("copy into %s: %w", t.name, err)
	}
	return nil
}

// payouts are all of them, in the order of time.
func (h *history) payouts() iter.Seq[*payout] {
	return func(yield func(*payout) bool) {
		for index := range h.Payouts {
			if !yield(h.past(index)) {
				return
			}
		}
		for n := range h.openPayouts() {
			if !yield(h.open(n)) {
				return
			}
		}
	}
}

// each makes the rows of every payout.
func (h *history) each(rows func(*payout) []row) iter.Seq[row] {
	return func(yield func(row) bool) {
		for p := range h.payouts() {
			for _, r := range rows(p) {
				if !yield(r) {
					return
				}
			}
		}
	}
}

// perAccount makes the row of every account, none when it is nil.
func (h *history) perAccount(of func(account int) row) iter.Seq[row] {
	return func(yield func(row) bool) {
		for account := range h.Accounts {
			if r := of(account); r != nil && !yield(r) {
				return
			}
		}
	}
}

func orNull[T comparable](v T) *T {
	var zero T
	if v == zero {
		return nil
	}
	return &v
}

// payTables are the rows of paydb, in an order that needs no foreign key switched
// off but for speed.
func (h *history) payTables() []table {
	return []table{
		{"account", []string{"account_id", "currency", "balance_minor", "fence", "updated_at"}, h.perAccount(h.accountRow)},
		{"opening_balance", []string{"account_id", "amount_minor", "as_of", "recorded_by", "reason", "recorded_at"}, h.perAccount(h.openingRow)},
		{"payout", []string{
			"payout_id", "account_id", "amount_minor", "currency", "state", "claimed_by", "claim_token", "idempotency_key",
			"attempt_count", "created_at", "updated_at",
		}, h.each(h.payoutRows)},
		{"payout_claim", []string{"payout_id", "claim_token", "claimed_by", "claimed_at"}, h.each(h.claimRows)},
		{"rail_high_water", []string{"account_id", "highest_token", "updated_at"}, h.perAccount(h.markRow)},
		{"rail_submission", []string{
			"submission_id", "payout_id", "idempotency_key", "presented_token", "outcome", "rail_reference",
			"submitted_at", "resolved_at",
		}, h.each(h.attemptRows)},
		{"payout_resolution", []string{"payout_id", "source", "verdict", "evidence", "operator", "reason", "recorded_at"}, h.each(h.resolutionRows)},
		{"ledger_entry", []string{"entry_id", "payout_id", "account_id", "direction", "amount_minor", "fence", "created_at"}, h.each(h.legRows)},
		{"account_fence_raise", []string{"account_id", "raised_from", "raised_to", "operator", "reason", "raised_at"}, h.perAccount(h.raiseRow)},
	}
}

func (h *history) accountRow(account int) row {
	s := h.sums(account)
	balance := h.opening(account, s) - s.debits
	if h.raised(account) {
		done := h.intervention(account)
		s.fence, s.updated = done.fence, done.raisedAt
	}
	return row{h.accountID(account), currencies[h.currency(account)], balance, s.fence, s.updated}
}

func (h *history) openingRow(account int) row {
	first := h.at(0)
	return row{h.accountID(account), h.opening(account, h.sums(account)), first, "plant", "what it held before its first payout", first}
}

func (h *history) payoutRows(p *payout) []row {
	token, by := p.held()
	return []row{{p.id, h.accountID(p.account), p.amount, currencies[p.currency], p.state, by, token, key(p.index), p.attempts, p.created, p.updated}}
}

func (h *history) claimRows(p *payout) (rows []row) {
	for _, c := range p.claims {
		rows = append(rows, row{p.id, c.token, c.by, c.at})
	}
	return rows
}

func (h *history) markRow(account int) row {
	s := h.sums(account)
	at := s.updated
	if h.raised(account) {
		done := h.intervention(account)
		s.mark, at = done.fence, done.raisedAt
	}
	if account < h.openPayouts() {
		if p := h.open(account); p.mark() > 0 {
			s.mark, at = p.mark(), p.updated
		}
	}
	if s.mark == 0 {
		return nil
	}
	return row{h.accountID(account), s.mark, at}
}

func (h *history) attemptRows(p *payout) (rows []row) {
	for _, t := range p.tries {
		var resolved *time.Time
		if t.outcome != "" {
			resolved = &t.resolved
		}
		rows = append(rows, row{t.id, p.id, key(p.index), t.token, orNull(t.outcome), orNull(t.reference), t.at, resolved})
	}
	return rows
}

func (h *history) resolutionRows(p *payout) []row {
	if p.resolution == nil {
		return nil
	}
	r := p.resolution
	evidence := []byte(`{"key": "` + key(p.index) + `"}`)
	return []row{{p.id, r.source, r.verdict, evidence, r.operator, "the rail was asked", r.at}}
}

func (h *history) legRows(p *payout) []row {
	if !p.posted() {
		return nil
	}
	token, _ := p.held()
	leg := func(what int, account pgtype.UUID, direction string) row {
		return row{h.rising(what, p.index), p.id, account, direction, p.amount, *token, p.updated}
	}
	return []row{
		leg(drawDebit, h.accountID(p.account), "DEBIT"),
		leg(drawCredit, clearingID(p.currency, p.shard), "CREDIT"),
	}
}

func (h *history) raiseRow(account int) row {
	if !h.raised(account) {
		return nil
	}
	done := h.intervention(account)
	return row{h.accountID(account), h.sums(account).fence, done.fence, operator, revokeReason, done.raisedAt}
}

// The person of every intervention.
const (
	operator     = "oncall@example"
	revokeReason = "the worker hangs"
)

// lockTables are the rows of lockdb.
func (h *history) lockTables() []table {
	return []table{
		{"lock_grant", []string{"fencing_token", "lock_key", "owner_id", "session_id", "granted_at", "ended_at", "ended"}, h.grantRows()},
		{"lock_revocation", []string{"lock_key", "prev_owner", "prev_token", "operator", "reason", "revoked_at"}, h.revocationRows()},
		{"lock_session", []string{"session_id", "owner_id", "created_at", "expires_at"}, h.sessionRows()},
		{"lock_entry", []string{"lock_key", "owner_id", "session_id", "fencing_token", "acquired_at", "expires_at"}, h.entryRows()},
		{"fence_drawn", []string{"token", "prev_token", "lock_key", "account_id", "logged_at"}, h.fenceRows()},
	}
}

func (h *history) lockKey(account int) string { return "account:" + h.accountID(account).String() }

func (h *history) grantRow(account int, g grant) row {
	var ended *time.Time
	if g.end != "" {
		ended = &g.ended
	}
	return row{g.token, h.lockKey(account), g.by, h.sessionID(g.by), g.at, ended, orNull(g.end)}
}

func (h *history) grantRows() iter.Seq[row] {
	payouts := h.each(func(p *payout) (rows []row) {
		for _, g := range p.grants {
			rows = append(rows, h.grantRow(p.account, g))
		}
		return rows
	})
	return both(payouts, h.perAccount(func(account int) row {
		if !h.raised(account) {
			return nil
		}
		return h.grantRow(account, h.intervention(account).grant)
	}))
}

func both(first, then iter.Seq[row]) iter.Seq[row] {
	return func(yield func(row) bool) {
		for _, rows := range []iter.Seq[row]{first, then} {
			for r := range rows {
				if !yield(r) {
					return
				}
			}
		}
	}
}

func (h *history) revocationRows() iter.Seq[row] {
	revocation := func(account int, g grant) row {
		return row{h.lockKey(account), g.by, g.token, operator, revokeReason, g.ended}
	}
	payouts := h.each(func(p *payout) []row {
		if p.revokedAt.IsZero() {
			return nil
		}
		return []row{revocation(p.account, p.grants[0])}
	})
	return both(payouts, h.perAccount(func(account int) row {
		if !h.raised(account) {
			return nil
		}
		return revocation(account, h.intervention(account).grant)
	}))
}

// liveFor is how long the locks of open payouts live: longer than any test.
const liveFor = 12 * time.Hour

func (h *history) sessionRows() iter.Seq[row] {
	return func(yield func(row) bool) {
		for _, name := range h.workers {
			if !yield(row{h.sessionID(name), name, h.now.Add(-3 * time.Minute), h.now.Add(liveFor)}) {
				return
			}
		}
	}
}

func (h *history) entryRows() iter.Seq[row] {
	return func(yield func(row) bool) {
		for n := range h.openPayouts() {
			for _, g := range h.open(n).grants {
				if g.end == "" && !yield(row{h.lockKey(n), g.by, h.sessionID(g.by), g.token, g.at, h.now.Add(liveFor)}) {
					return
				}
			}
		}
	}
}

func (h *history) fenceRows() iter.Seq[row] {
	return h.perAccount(func(account int) row {
		if !h.raised(account) {
			return nil
		}
		done := h.intervention(account)
		return row{done.fence, done.grant.token, h.lockKey(account), h.accountID(account).String(), done.grant.ended}
	})
}

package reconcile

import (
	"cmp"
	"context"
	_ "embed"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
)

var (
	//go:embed queries/explain_payers.sql
	explainPayersQuery string
	//go:embed queries/explain_pay.sql
	explainPayQuery string
	//go:embed queries/explain_fenced.sql
	explainFencedQuery string
	//go:embed queries/explain_lock.sql
	explainLockQuery string
)

const (
	// eventsBefore and eventsAfter are how many events of paydb a timeline tells
	// before its break, and from there; mostEvents bounds it with those of lockdb.
	eventsBefore, eventsAfter = 14, 16
	mostEvents                = 40
	// mostTold bounds the findings that the accounts worst hit are chosen by.
	mostTold = 2_000
	// mostTokens bounds the tokens of one timeline.
	mostTokens = 100
)

// subject is what one timeline is told of: an account, or the payouts of findings.
type subject struct {
	account, currency string
	findings          []Finding
}

// timelines tells what happened on the accounts worst hit.
func timelines(ctx context.Context, rd reading, findings []Finding) ([]Timeline, error) {
	subjects, err := worstHit(ctx, rd.pay, findings)
	if err != nil {
		return nil, err
	}
	all := []Timeline{}
	if len(subjects) == 0 {
		return all, nil
	}
	fenced, err := readFenced(ctx, rd.pay, subjects)
	if err != nil {
		return nil, err
	}
	for _, s := range subjects {
		t, err := s.timeline(ctx, rd, fenced)
		if err != nil {
			return nil, err
		}
		all = append(all, t)
	}
	return all, nil
}

// worstHit are the accounts with the worst findings, and of those as bad the ones with
// the most.
func worstHit(ctx context.Context, pay pgx.Tx, findings []Finding) ([]subject, error) {
	var told []Finding
	for _, f := range findings {
		if len(told) < mostTold && breaks(f.Class) && f.AccountID+f.PayoutID != "" {
			told = append(told, f)
		}
	}
	at, err := payers(ctx, pay, told)
	if err != nil {
		return nil, err
	}
	byAccount := map[string]*subject{}
	var all []*subject
	for _, p := range at {
		s := byAccount[p.account]
		if s == nil {
			s = &subject{account: p.account, currency: p.currency}
			byAccount[p.account], all = s, append(all, s)
		}
		s.findings = append(s.findings, told[p.place])
	}
	slices.SortStableFunc(all, func(a, b *subject) int {
		x, y := a.findings[0].Severity, b.findings[0].Severity // worst first, as they come
		return cmp.Or(cmp.Compare(slices.Index(Severities(), x), slices.Index(Severities(), y)), cmp.Compare(len(b.findings), len(a.findings)))
	})
	var worst []subject
	for _, s := range all[:min(len(all), MostTimelines)] {
		worst = append(worst, *s)
	}
	return worst, nil
}

// payerOf is the account that the finding at a place is told on.
type payerOf struct {
	place             int
	account, currency string
}

// payers leaves out findings that no payer's account is known for.
func payers(ctx context.Context, pay pgx.Tx, findings []Finding) ([]payerOf, error) {
	if len(findings) == 0 {
		return nil, nil
	}
	accounts, payouts := make([]*string, len(findings)), make([]*string, len(findings))
	for i, f := range findings {
		accounts[i], payouts[i] = orNil(f.AccountID), orNil(f.PayoutID)
	}
	rows, err := pay.Query(ctx, explainPayersQuery, pgx.NamedArgs{"accounts": accounts, "payouts": payouts})
	if err != nil {
		return nil, fmt.Errorf("find the accounts worst hit: %w", err)
	}
	var (
		p  payerOf
		at []payerOf
	)
	_, err = pgx.ForEachRow(rows, []any{&p.place, &p.account, &p.currency}, func() error {
		p.place--
		at = append(at, p)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("find the accounts worst hit: %w", err)
	}
	return at, nil
}

func orNil(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}

// event is a moment, and the row that tells it.
type event struct {
	Moment

	// id is that of the attempt or the leg, account the payer's where the query says so.
	id, account string
}

// readFenced lists what was refused at the rail, of all subjects.
func readFenced(ctx context.Context, pay pgx.Tx, subjects []subject) ([]event, error) {
	var accounts, payouts []string
	for _, s := range subjects {
		if s.account == "" {
			payouts = append(payouts, payoutsOf(s.findings)...)
		} else {
			accounts = append(accounts, s.account)
		}
	}
	var account string
	events, err := readEvents(ctx, pay, explainFencedQuery, pgx.NamedArgs{"accounts": accounts, "payouts": payouts}, &account, func(e *event) { e.account = account })
	if err != nil {
		return nil, fmt.Errorf("tell what was refused at the rail: %w", err)
	}
	return events, nil
}

// during are those of the fenced attempts on the account that were made between the
// first and the last of the events: those before are not counted as left out.
func (s subject) during(events, fenced []event) []event {
	if len(events) == 0 {
		return nil
	}
	from, to := events[0].At, events[len(events)-1].At
	var out []event
	for _, e := range fenced {
		if (e.account == s.account || s.account == "") && !e.At.Before(from) && !e.At.After(to) {
			out = append(out, e)
		}
	}
	return out
}

// timeline reads what happened in both databases, in order of time.
func (s subject) timeline(ctx context.Context, rd reading, fenced []event) (Timeline, error) {
	t := Timeline{AccountID: s.account, Currency: s.currency, Findings: []string{}, Events: []Moment{}}
	tokens := s.tokens()
	for _, f := range s.findings {
		t.Findings = append(t.Findings, f.ID)
	}
	events, err := readEvents(ctx, rd.pay, explainPayQuery, pgx.NamedArgs{
		"account": orNil(s.account), "payouts": payoutsOf(s.findings), "tokens": tokens, "before": eventsBefore, "after": eventsAfter,
	}, &t.LeftOut, nil)
	if err != nil {
		return t, fmt.Errorf("tell what happened in paydb: %w", err)
	}
	events = append(events, s.during(events, fenced)...)
	for _, e := range events {
		tokens = append(tokens, e.Token)
	}
	if rd.lock != nil {
		tokens = distinct(tokens)
		of := pgx.NamedArgs{"tokens": tokens[:min(len(tokens), mostTokens)], "key": accountPrefix + s.account}
		inLock, err := readEvents(ctx, rd.lock, explainLockQuery, of, nil, nil)
		if err != nil {
			return t, fmt.Errorf("tell what happened in lockdb: %w", err)
		}
		events = append(events, inLock...)
	}
	inOrder(events)
	for _, f := range s.findings {
		mark(events, f)
	}
	first := around(events)
	t.LeftOut += int64(first)
	for _, e := range events[first:min(first+mostEvents, len(events))] {
		t.Events = append(t.Events, e.Moment)
	}
	return t, nil
}

// tokens are those that the findings name, the first one of each first.
func (s subject) tokens() []int64 {
	named := map[int64]bool{}
	for _, f := range s.findings {
		named[f.Attribution.Token] = true
		for _, token := range f.Suspects {
			named[token] = true
		}
	}
	return distinct(slices.Sorted(maps.Keys(named)))
}

// readEvents reads the events of a query. One more column than all have is scanned
// into last, and with takes it over; both may be nil.
func readEvents(ctx context.Context, tx pgx.Tx, query string, args pgx.NamedArgs, last any, with func(*event)) ([]event, error) {
	rows, err := tx.Query(ctx, query, args)
	if err != nil {
		return nil, err
	}
	var (
		events []event
		e      event
		at     *time.Time
		token  int64
		holder string
	)
	fields := []any{&at, &e.Kind, &token, &holder, &e.PayoutID, &e.id, &e.What, &e.Source}
	if last != nil {
		fields = append(fields, last)
	}
	_, err = pgx.ForEachRow(rows, fields, func() error {
		e.At = time.Time{}
		if at != nil {
			e.At = at.UTC()
		}
		e.Moment = e.Of(token, holder)
		if with != nil {
			with(&e)
		}
		events = append(events, e)
		return nil
	})
	return events, err //nolint:wrapcheck // the caller says which story it was
}

// inOrder sorts by time, and gives each event the holder of its token. Within one
// moment a lease begins before what was done under it, and ends after.
func inOrder(events []event) {
	rank := func(e event) int {
		switch {
		case e.Kind == MomentGranted:
			return -1
		case e.Kind.Ends():
			return 1
		}
		return 0
	}
	slices.SortStableFunc(events, func(a, b event) int { return cmp.Or(a.At.Compare(b.At), cmp.Compare(rank(a), rank(b))) })
	holders := map[int64]string{}
	for _, kind := range []MomentKind{MomentGranted, MomentRevoked, MomentVoided, MomentClaimed} {
		for _, e := range events {
			if e.Kind == kind && holders[e.Token] == "" {
				holders[e.Token] = e.Holder
			}
		}
	}
	for i, e := range events {
		if e.Holder == "" && e.Token != 0 {
			events[i].Holder = holders[e.Token]
		}
	}
}

// around is the first event that is told: enough come before the break to see how it
// came about.
func around(events []event) int {
	shows := slices.IndexFunc(events, func(e event) bool { return e.Finding != "" })
	const ahead = mostEvents * 2 / 3
	return min(max(shows-ahead, 0), max(len(events)-mostEvents, 0))
}

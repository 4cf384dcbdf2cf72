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
	"golang.org/x/sync/errgroup"
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

// timelines tells what happened on the accounts worst hit. What was refused at the rail
// is read meanwhile, where there is a connection for it: it costs as much as the rest.
func (r *run) timelines(ctx context.Context, findings []Finding) ([]Timeline, error) {
	var subjects []subject
	err := r.pay.with(ctx, func(tx pgx.Tx) (err error) {
		subjects, err = worstHit(ctx, tx, findings)
		return err
	})
	if err != nil || len(subjects) == 0 {
		return []Timeline{}, err
	}
	stories := make([]story, len(subjects))
	var fenced []event
	reading, inGroup := errgroup.WithContext(ctx)
	reading.Go(func() error {
		return r.pay.with(inGroup, func(tx pgx.Tx) (err error) {
			fenced, err = readFenced(inGroup, tx, subjects)
			return err
		})
	})
	reading.Go(func() error {
		return r.pay.with(inGroup, func(tx pgx.Tx) (err error) {
			for i := range subjects {
				if stories[i], err = subjects[i].story(inGroup, tx); err != nil {
					return err
				}
			}
			return nil
		})
	})
	if err := reading.Wait(); err != nil {
		return nil, err
	}
	if r.lock == nil {
		return inBoth(ctx, nil, stories, fenced)
	}
	var all []Timeline
	err = r.lock.with(ctx, func(tx pgx.Tx) (err error) {
		all, err = inBoth(ctx, tx, stories, fenced)
		return err
	})
	return all, err
}

// inBoth adds to the stories what lockdb says, unless lock is nil.
func inBoth(ctx context.Context, lock pgx.Tx, stories []story, fenced []event) ([]Timeline, error) {
	all := make([]Timeline, len(stories))
	for i, s := range stories {
		var err error
		if all[i], err = s.timeline(ctx, lock, fenced); err != nil {
			return nil, err
		}
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

// story is a subject, and what happened to it in paydb.
type story struct {
	subject

	events  []event
	leftOut int64
}

func (s subject) story(ctx context.Context, pay pgx.Tx) (story, error) {
	told := story{subject: s}
	var err error
	told.events, err = readEvents(ctx, pay, explainPayQuery, pgx.NamedArgs{
		"account": orNil(s.account), "payouts": payoutsOf(s.findings), "tokens": s.tokens(), "before": eventsBefore, "after": eventsAfter,
	}, &told.leftOut, nil)
	if err != nil {
		return told, fmt.Errorf("tell what happened in paydb: %w", err)
	}
	return told, nil
}

// timeline adds what happened in lockdb, unless that is nil, in order of time.
func (s story) timeline(ctx context.Context, lock pgx.Tx, fenced []event) (Timeline, error) {
	t := Timeline{AccountID: s.account, Currency: s.currency, Findings: []string{}, Events: []Moment{}, LeftOut: s.leftOut}
	for _, f := range s.findings {
		t.Findings = append(t.Findings, f.ID)
	}
	events := append(s.events, s.during(s.events, fenced)...)
	if lock != nil {
		tokens := s.tokens()
		for _, e := range events {
			tokens = append(tokens, e.Token)
		}
		tokens = distinct(tokens)
		of := pgx.NamedArgs{"tokens": tokens[:min(len(tokens), mostTokens)], "key": accountPrefix + s.account}
		inLock, err := readEvents(ctx, lock, explainLockQuery, of, nil, nil)
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

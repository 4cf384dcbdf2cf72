package reconcile

import (
	"context"
	_ "embed"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

//go:embed queries/explain_token.sql
var explainTokenQuery string

// mostDeeds bounds what is told of a token from each table. One grant does one
// payout (K-4.2): more than that is seldom, and wrong.
const mostDeeds = 100

// Story is everything that paydb knows of one token, in order of time.
type Story struct {
	Events []Moment
	// Cut are the tables of which only the last hundred rows are told.
	Cut []string
}

// StoryOf reads the claims, attempts, legs, fences, marks, raises and floors of a
// token, as dlock_auditor may. Its error says that paydb could not be read.
func StoryOf(ctx context.Context, pay *pgx.ConnConfig, token int64) (Story, error) {
	s := Story{Events: []Moment{}}
	one, err := begin(ctx, pay, "", time.Now().Add(DefaultMaxDuration))
	if err != nil {
		return s, fmt.Errorf("read paydb: %w", err)
	}
	defer closeConn(ctx, one.conn)
	events, err := readEvents(ctx, one.tx, explainTokenQuery, pgx.NamedArgs{"token": token, "most": mostDeeds}, nil, nil)
	if err != nil {
		return s, fmt.Errorf("read what token %d did: %w", token, err)
	}
	inOrder(events)
	told := map[string]int{}
	for _, e := range events {
		s.Events = append(s.Events, e.Moment)
		of := e.Source + " " + string(e.Kind)
		if told[of]++; told[of] == mostDeeds {
			s.Cut = append(s.Cut, e.Source)
		}
	}
	return s, nil
}

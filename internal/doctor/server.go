package doctor

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgerrcode"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/dlockctl/dlockctl/internal/flyway"
	"github.com/dlockctl/dlockctl/internal/instance"
)

// reachable is the one check for which no answer is an answer.
func reachable(database string) func(context.Context, *exam) (finding, error) {
	return func(_ context.Context, e *exam) (finding, error) {
		s := e.side(database)
		switch {
		case s.tx != nil:
			return finding{OK, fmt.Sprintf("as %s on %s", s.login, address(s.config)), nil}, nil
		case errors.Is(s.err, errNotConfigured):
			return e.unread(s), nil
		}
		fix := advice("is the server up, and are address, user and password right?")
		var pgErr *pgconn.PgError
		switch {
		case errors.As(s.err, &pgErr) && pgErr.Code == pgerrcode.InsufficientPrivilege:
			fix = s.sql(Superuser, "GRANT CONNECT ON DATABASE "+ident(s.config.Database)+" TO "+ident(s.config.User))
		case e.target.Embedded:
			fix = command("dlockctl dev up")
		}
		return finding{Fail, plain(s.err), fix}, nil
	}
}

func address(c *pgx.ConnConfig) string { return fmt.Sprintf("%s:%d/%s", c.Host, c.Port, c.Database) }

func version(_ context.Context, _ *exam, s *side, _ pgx.Tx) (finding, error) {
	if s.factsErr != nil {
		return finding{}, s.factsErr
	}
	saw := "PostgreSQL " + s.facts.VersionText
	switch {
	case s.facts.Version < instance.MinVersion:
		return finding{Fail, saw, advice("move to PostgreSQL 16, by pg_upgrade or by dump and restore; a restored lockdb is fast-forwarded before it grants")}, nil
	case s.facts.Version < targetVersion:
		saw += ", supported; 16 is the target"
	}
	return finding{OK, saw, nil}, nil
}

// targetVersion is what everything is tested on first.
const targetVersion = 160000

func primary(_ context.Context, _ *exam, s *side, _ pgx.Tx) (finding, error) {
	if s.factsErr != nil {
		return finding{}, s.factsErr
	}
	if s.facts.InRecovery {
		return finding{Fail, "it is in recovery: a standby", advice("give the address of the primary, or name every server and add target_session_attrs=read-write to the connection string")}, nil
	}
	return finding{OK, fmt.Sprintf("primary, timeline %d", s.facts.Timeline), nil}, nil
}

// bothFacts returns what keeps the two from being compared.
func (e *exam) bothFacts() (finding, bool) {
	for _, s := range []*side{e.lock, e.pay} {
		if s.tx == nil {
			return e.unread(s), false
		}
		if s.factsErr != nil {
			return finding{Unknown, s.name + ": " + plain(s.factsErr), s.remedy(s.factsErr)}, false
		}
	}
	return finding{}, true
}

func distinct(_ context.Context, e *exam) (finding, error) {
	if found, ok := e.bothFacts(); !ok {
		return found, nil
	}
	lock, pay := e.lock.facts.SystemIdentifier, e.pay.facts.SystemIdentifier
	switch {
	case lock != pay:
		return finding{OK, fmt.Sprintf("%d and %d", lock, pay), nil}, nil
	case e.target.AllowSameInstance:
		return finding{Warn, fmt.Sprintf("both are on instance %d, which allow_same_instance permits", lock), advice("keep it to a laptop: anywhere else, give each database an instance of its own")}, nil
	}
	return finding{Fail, fmt.Sprintf("both are on instance %d", lock), advice("give each database an instance of its own, made by its own initdb; for a demo on a laptop alone, --allow-same-instance goes on all the same")}, nil
}

// peer compares what was recorded with the other instance, where that answers.
func peer(ctx context.Context, e *exam, s *side, tx pgx.Tx) (finding, error) {
	if s.factsErr != nil {
		return finding{}, s.factsErr
	}
	other := e.lock
	if s == e.lock {
		other = e.pay
	}
	recorded, known, err := instance.Peer(ctx, tx)
	fix := command(migrateUp)
	switch {
	case err != nil:
		return finding{}, err
	case !known:
		return finding{Fail, "nothing is recorded", fix}, nil
	case other.tx == nil || other.factsErr != nil:
		if recorded == s.facts.SystemIdentifier && !e.target.AllowSameInstance {
			return finding{Fail, fmt.Sprintf("it recorded its own instance, %d", recorded), fix}, nil
		}
		unread := e.unread(other)
		return finding{Unknown, fmt.Sprintf("it recorded %d; %s", recorded, unread.saw), unread.fix}, nil
	case recorded != other.facts.SystemIdentifier:
		return finding{Fail, fmt.Sprintf("it recorded %d, and %s is %d", recorded, other.name, other.facts.SystemIdentifier), fix}, nil
	}
	return finding{OK, fmt.Sprintf("it recorded %d", recorded), nil}, nil
}

func pooler(_ context.Context, _ *exam, s *side, _ pgx.Tx) (finding, error) {
	var pooled *flyway.PoolerError
	switch {
	case errors.As(s.pooled, &pooled):
		return finding{Warn, "statements reach different backends: a pooler in transaction mode", advice("give dlockctl migrate the server's own address; everything else may stay behind the pooler")}, nil
	case s.pooled != nil:
		return finding{}, s.pooled
	}
	return finding{OK, "statements reach one backend", nil}, nil
}

// mostSkew is how far two clocks may be apart before somebody should look.
const mostSkew = time.Second

// clockSamples are asked for; the quickest answer knows best.
const clockSamples = 3

// clock is how far a server's clock is ahead of this machine's, give or take
// half of the time that asking took.
type clock struct {
	ahead, margin time.Duration
	err           error
}

// readClock is the one place that reads clock_timestamp() (K-2.1).
func (s *side) readClock(ctx context.Context) clock {
	best := clock{margin: time.Hour}
	best.err = s.read(ctx, func(tx pgx.Tx) error {
		for range clockSamples {
			var server time.Time
			sent := time.Now()
			if err := tx.QueryRow(ctx, `SELECT clock_timestamp()`).Scan(&server); err != nil {
				return fmt.Errorf("ask for the time: %w", err)
			}
			if half := time.Since(sent) / 2; half < best.margin {
				best.ahead, best.margin = server.Sub(sent.Add(half)), half
			}
		}
		return nil
	})
	return best
}

// adjust is the only cure of a clock.
const adjust = "let chrony or another NTP client slew the clock that is wrong; never step it forward while leases are held"

func clockOfServer(_ context.Context, _ *exam, s *side, _ pgx.Tx) (finding, error) {
	if s.clock.err != nil {
		return finding{}, s.clock.err
	}
	return judgeSkew(s.clock.ahead, s.clock.margin, s.name, "this machine"), nil
}

func clocksAgree(_ context.Context, e *exam) (finding, error) {
	for _, s := range []*side{e.lock, e.pay} {
		switch {
		case s.tx == nil:
			return e.unread(s), nil
		case s.clock.err != nil:
			return finding{}, s.clock.err
		}
	}
	return judgeSkew(e.lock.clock.ahead-e.pay.clock.ahead, e.lock.clock.margin+e.pay.clock.margin, LockDB, PayDB), nil
}

func judgeSkew(ahead, margin time.Duration, one, other string) finding {
	if ahead.Abs()-margin <= mostSkew {
		return finding{OK, fmt.Sprintf("within %s", max(ahead.Abs()+margin, time.Millisecond).Round(time.Millisecond)), nil}
	}
	if ahead < 0 {
		one, other, ahead = other, one, -ahead
	}
	return finding{Warn, fmt.Sprintf("%s is %s ahead of %s", one, ahead.Round(100*time.Millisecond), other), advice(adjust)}
}

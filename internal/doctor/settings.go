package doctor

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
)

// defaults looks at every default of a setting that a login of the database can
// get, and wants it to be one of the good values; the first is what a fix sets.
func defaults(ctx context.Context, s *side, tx pgx.Tx, setting string, bad Status, good ...string) (finding, error) {
	var saw, fix []string
	var value, whose, alter string
	err := eachRow(ctx, tx, settingsQuery, []any{setting}, []any{&value, &whose, &alter}, func() error {
		if !slices.Contains(good, value) {
			saw = append(saw, fmt.Sprintf("%s for %s", value, whose))
			fix = append(fix, fmt.Sprintf("%s SET %s = '%s'", alter, setting, good[0]))
		}
		return nil
	})
	if err != nil {
		return finding{}, err
	}
	if len(saw) == 0 {
		return finding{OK, good[0], nil}, nil
	}
	return finding{bad, strings.Join(saw, ", "), s.sql(Superuser, fix...)}, nil
}

func synchronousCommit(bad Status) func(context.Context, *exam, *side, pgx.Tx) (finding, error) {
	return func(ctx context.Context, _ *exam, s *side, tx pgx.Tx) (finding, error) {
		return defaults(ctx, s, tx, "synchronous_commit", bad, "on", "remote_apply")
	}
}

func isolation(ctx context.Context, _ *exam, s *side, tx pgx.Tx) (finding, error) {
	return defaults(ctx, s, tx, "default_transaction_isolation", Warn, "read committed")
}

// idleSeconds is what a fix sets: long enough for any statement of a store, short
// enough that a forgotten transaction ends before a person is called.
const idleSeconds = 60

func idleTimeout(ctx context.Context, _ *exam, s *side, tx pgx.Tx) (finding, error) {
	var saw, set, fix []string
	var name, quoted, value string
	err := eachRow(ctx, tx, idleQuery, nil, []any{&name, &quoted, &value}, func() error {
		if strings.Trim(value, "0msindh ") != "" {
			set = append(set, name+" "+value)
			return nil
		}
		saw = append(saw, name+" has none")
		fix = append(fix, fmt.Sprintf("ALTER ROLE %s IN DATABASE %s SET idle_in_transaction_session_timeout = '%ds'", quoted, s.database, idleSeconds))
		return nil
	})
	switch {
	case err != nil:
		return finding{}, err
	case len(saw) > 0:
		return finding{Warn, strings.Join(saw, ", "), s.sql(Superuser, fix...)}, nil
	case len(set) == 0:
		return finding{OK, "lockapp has no logins", nil}, nil
	}
	return finding{OK, strings.Join(set, ", "), nil}, nil
}

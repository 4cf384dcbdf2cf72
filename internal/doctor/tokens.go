package doctor

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/dlockctl/dlockctl/internal/instance"
)

const (
	// maxToken is 2^53: above it a token does not survive a JSON number (K-1.6).
	maxToken = int64(1) << 53
	// leastRoom is what one fast-forward takes (K-7.3), a few times over.
	leastRoom = int64(1) << 36
)

// sequence repeats what a store asks when it opens, and names all that is
// wrong at once.
func sequence(ctx context.Context, _ *exam, s *side, tx pgx.Tx) (finding, error) {
	var cache, increment int64
	var cycle bool
	var kind, persistence string
	if err := tx.QueryRow(ctx, sequenceQuery).Scan(&cache, &cycle, &increment, &kind, &persistence); err != nil {
		return finding{}, err
	}
	var saw, fix []string
	wrong := func(is bool, what, clause string) {
		if is {
			saw = append(saw, what)
			fix = append(fix, "ALTER SEQUENCE fencing_token_seq "+clause)
		}
	}
	wrong(kind != "bigint", "type "+kind, "AS bigint")
	wrong(cache != 1, fmt.Sprintf("CACHE %d", cache), "CACHE 1")
	wrong(cycle, "CYCLE", "NO CYCLE")
	wrong(increment != 1, fmt.Sprintf("INCREMENT %d", increment), "INCREMENT BY 1")
	wrong(persistence != "p", "not logged", "SET LOGGED")
	if len(saw) > 0 {
		return finding{Fail, strings.Join(saw, ", "), s.sql(instance.OwnerRole, fix...)}, nil
	}
	return finding{OK, "CACHE 1, NO CYCLE, INCREMENT 1, bigint, logged", nil}, nil
}

// nextToken is the number that the next nextval gives, unless another takes it.
func nextToken(ctx context.Context, tx pgx.Tx) (next int64, err error) {
	err = tx.QueryRow(ctx, `SELECT CASE WHEN is_called THEN last_value + 1 ELSE last_value END FROM fencing_token_seq`).Scan(&next)
	return next, err
}

func headroom(ctx context.Context, _ *exam, s *side, tx pgx.Tx) (finding, error) {
	next, err := nextToken(ctx, tx)
	if err != nil {
		return finding{}, err
	}
	var highest int64
	if err := tx.QueryRow(ctx, `SELECT seqmax FROM pg_sequence WHERE seqrelid = 'fencing_token_seq'::regclass`).Scan(&highest); err != nil {
		return finding{}, err
	}
	switch {
	case maxToken-next < leastRoom:
		return finding{Fail, fmt.Sprintf("the next token is %d, and the last one there can be is %d", next, maxToken), advice("no sequence is set back: move locks and money to a fresh pair of databases while tokens are left")}, nil
	case highest < maxToken:
		return finding{Fail, fmt.Sprintf("the sequence ends at %d, and its next token is %d", highest, next), s.sql(instance.OwnerRole, "ALTER SEQUENCE fencing_token_seq NO MAXVALUE")}, nil
	}
	return finding{OK, fmt.Sprintf("the next token is %d, %.4f %% of 2^53", next, 100*float64(next)/float64(maxToken)), nil}, nil
}

func journalPartition(ctx context.Context, _ *exam, s *side, tx pgx.Tx) (finding, error) {
	next, err := nextToken(ctx, tx)
	if err != nil {
		return finding{}, err
	}
	parts, err := partitions(ctx, tx)
	if err != nil {
		return finding{}, err
	}
	for _, p := range parts {
		if p.from <= next && next < p.to {
			return finding{OK, fmt.Sprintf("%s, up to token %d", p.name, p.to-1), nil}, nil
		}
	}
	fix := s.sql("lockapp", "SELECT lock_grant_extend()")
	fix.Advice = "dlockctl session reap does the same, and the lock server's reaper about once a second"
	return finding{Warn, fmt.Sprintf("token %d has none", next), fix}, nil
}

// journalDefault looks where no partition is: each gap is answered by the index
// of DEFAULT alone, while a question about DEFAULT itself would read the whole
// journal, or need a right that no role has.
func journalDefault(ctx context.Context, _ *exam, s *side, tx pgx.Tx) (finding, error) {
	parts, err := partitions(ctx, tx)
	if err != nil {
		return finding{}, err
	}
	if !slices.ContainsFunc(parts, func(p partition) bool { return p.to == 0 }) {
		return finding{Fail, "there is no DEFAULT partition: a missing one would stop every grant", s.sql(instance.OwnerRole, newDefault(nil)...)}, nil
	}
	var stray []partition
	for _, gap := range gaps(parts) {
		var low, high int64
		err := tx.QueryRow(ctx, `SELECT coalesce(min(fencing_token), 0), coalesce(max(fencing_token), 0) FROM lock_grant WHERE fencing_token >= $1 AND fencing_token < $2`,
			gap.from, gap.to).Scan(&low, &high)
		if err != nil {
			return finding{}, err
		}
		if high > 0 {
			stray = append(stray, partition{from: low, to: high + 1})
		}
	}
	switch len(stray) {
	case 0:
		return finding{OK, "empty", nil}, nil
	case 1:
		fix := s.sql(instance.OwnerRole, newDefault(&stray[0])...)
		fix.Advice = "it makes a partition of their own of these rows, and stops grants while it reads them; run lock_grant_extend() first"
		return finding{Warn, fmt.Sprintf("tokens %d to %d stand there", stray[0].from, stray[0].to-1), fix}, nil
	}
	return finding{
		Warn, fmt.Sprintf("tokens from %d on stand there, in %d ranges", stray[0].from, len(stray)),
		advice("they do no harm but that audit prune leaves them: one range could be made a partition, several cannot"),
	}, nil
}

// gaps are the ranges that no partition covers.
func gaps(parts []partition) []partition {
	var free []partition
	from := int64(1)
	for _, p := range parts {
		if p.to == 0 {
			continue
		}
		if p.from > from {
			free = append(free, partition{from: from, to: p.from})
		}
		from = max(from, p.to)
	}
	return append(free, partition{from: from, to: maxToken + 1})
}

// newDefault makes a partition of the rows of DEFAULT, and a new DEFAULT.
func newDefault(rows *partition) []string {
	var statements []string
	if rows != nil {
		name := fmt.Sprintf("lock_grant_from_%d", rows.from)
		statements = []string{
			"ALTER TABLE lock_grant DETACH PARTITION lock_grant_default",
			"ALTER TABLE lock_grant_default RENAME TO " + name,
			fmt.Sprintf("ALTER TABLE lock_grant ATTACH PARTITION %s FOR VALUES FROM (%d) TO (%d)", name, rows.from, rows.to),
		}
	}
	return append(statements,
		"CREATE TABLE lock_grant_default PARTITION OF lock_grant DEFAULT",
		"CREATE TRIGGER lock_grant_no_truncate BEFORE TRUNCATE ON lock_grant_default FOR EACH STATEMENT EXECUTE FUNCTION refuse_change()",
		"ALTER TABLE lock_grant_default ENABLE ALWAYS TRIGGER lock_grant_no_truncate")
}

// floorsAgain puts both floors back at the highest token that paydb knows, which is at
// or below lockdb's last one.
const floorsAgain = "INSERT INTO fence_floor (point, floor_token, raised_by, reason) SELECT point, greatest((SELECT max(fence) FROM account), " +
	"(SELECT max(highest_token) FROM rail_high_water), (SELECT max(claim_token) FROM payout_claim), 0), session_user, 'both floors were missing' " +
	"FROM (VALUES ('account'), ('rail')) v (point)"

func floors(ctx context.Context, _ *exam, s *side, tx pgx.Tx) (finding, error) {
	found := map[string]int64{}
	var point string
	var token int64
	err := eachRow(ctx, tx, `SELECT point, floor_token FROM fence_floor`, nil, []any{&point, &token}, func() error {
		found[point] = token
		return nil
	})
	if err != nil {
		return finding{}, err
	}
	for missing, other := range map[string]string{"account": "rail", "rail": "account"} {
		_, there := found[missing]
		_, otherThere := found[other]
		switch {
		case there:
		case otherThere:
			return finding{Fail, "the floor of " + missing + " is missing", s.sql(instance.OwnerRole, fmt.Sprintf(
				"INSERT INTO fence_floor (point, floor_token, raised_by, reason) SELECT '%s', floor_token, session_user, 'the floor was missing' FROM fence_floor WHERE point = '%s'",
				missing, other))}, nil
		default:
			return finding{
				Fail, "both floors are missing, and with them what they refused; run the fix, then raise them to lockdb's last token: dlockctl restore paydb --reason TEXT",
				s.sql(instance.OwnerRole, floorsAgain),
			}, nil
		}
	}
	return finding{OK, fmt.Sprintf("account %d, rail %d", found["account"], found["rail"]), nil}, nil
}

package scenario

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/dlockctl/dlockctl/internal/lockstore"
)

// words tell one disaster from another.
type words struct {
	title, backup, it, made, back, takesPlace string
	// refused says why a new client is refused, and says what its refusal has in it.
	refused, says string
	// sign is the plan's, besides paydb's tokens.
	sign, reason string
}

func wordsFor(promoted bool) words {
	if promoted {
		return words{
			title: "lockdb's standby falls behind, and grants go on", backup: "the standby's receiver is stopped", it: "the standby", made: "the standby was cut off",
			back: "The standby is promoted, and clients resume", takesPlace: "the primary dies; the standby is promoted and takes its address",
			refused: "its gate was opened on another timeline", says: "promoted",
			sign: "timeline", reason: "an asynchronous standby was promoted",
		}
	}
	return words{
		title: "lockdb is copied, and grants go on", backup: "lockdb is copied", it: "the copy", made: "the copy was made",
		back: "The copy comes back, and clients resume", takesPlace: "the copy takes lockdb's place, as after the restore of an old backup",
		refused: "paydb holds a higher token than lockdb has issued", says: "paydb holds token",
		sign: "paydb_ahead", reason: "lockdb came back from an old copy",
	}
}

// fault shows what the guards keep from happening: to a program that compares
// nothing, through a gate that takes this for its own instance and timeline, the
// token that somebody works with is issued once more. It is undone, the sequence
// included, whose own new storage the RESTART has made.
func (r *rewind) fault(ctx context.Context) (err error) {
	r.step("without the guards, in a transaction that is rolled back, another program acquires a lock")
	conn, err := r.Rewind.Observe(ctx)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	tx, err := conn.Begin(ctx)
	if err != nil {
		return fmt.Errorf("show the fault: %w", err)
	}
	var again lockstore.Token
	err = errors.Join(r.unguarded(ctx, tx, &again), tx.Rollback(context.WithoutCancel(ctx)))
	if err != nil {
		return fmt.Errorf("show the fault: %w", err)
	}
	last, _, _, err := r.standing(ctx)
	if err != nil {
		return err
	}
	r.prove(proof{"fault", "K-7.1", "without the guards the token that " + second + " works with would be issued again", again, "another-program"},
		again == r.lost && last == r.stood, "another-program got token %s, and %s holds %s; undone, the last token is %s", again, second, r.lost, last)
	return nil
}

// anotherGrant is what a program does that knows C1 alone; a grant takes two numbers.
const anotherGrant = `
INSERT INTO lock_entry (lock_key, owner_id, session_id, fencing_token, acquired_at, expires_at)
VALUES ('drill:another-key', 'another-program', $1, nextval('fencing_token_seq'), now(), now() + interval '1 minute')
RETURNING fencing_token`

func (r *rewind) unguarded(ctx context.Context, tx pgx.Tx, again *lockstore.Token) error {
	for _, sql := range []string{
		`SET LOCAL ROLE dlock_owner`,
		`ALTER SEQUENCE fencing_token_seq RESTART WITH ` + (r.stood + 1).String(),
		`UPDATE lock_gate SET system_identifier = (SELECT c.system_identifier FROM pg_control_system() c),
			timeline_id = ('x' || substr(pg_walfile_name(pg_current_wal_insert_lsn()), 1, 8))::bit(32)::int`,
	} {
		if _, err := tx.Exec(ctx, sql); err != nil {
			return err
		}
	}
	// Whatever is granted before it.
	if _, err := tx.Exec(ctx, `SELECT nextval('fencing_token_seq') FROM generate_series($1::bigint + 1, $2::bigint - 2)`, r.stood, r.lost); err != nil {
		return err
	}
	session := uuid.NewString()
	_, err := tx.Exec(ctx, `INSERT INTO lock_session (session_id, owner_id, expires_at) VALUES ($1, 'another-program', now() + interval '1 minute')`, session)
	if err != nil {
		return err
	}
	return tx.QueryRow(ctx, anotherGrant, session).Scan(again)
}

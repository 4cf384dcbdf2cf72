package flyway_test

import (
	"bytes"
	"context"
	"errors"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/dlockctl/dlockctl/internal/flyway"
	"github.com/dlockctl/dlockctl/internal/pgtest"
)

// cutter is a network that breaks once, around the COMMIT of the file that says "cut".
type cutter struct {
	after bool // the server still receives the COMMIT; only its answer is lost
	armed atomic.Bool
	fired atomic.Bool
	dead  bool // after the cut no connection is possible
}

func (c *cutter) dial(ctx context.Context, network, address string) (net.Conn, error) {
	if c.dead && c.fired.Load() {
		return nil, errors.New("the network is down")
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return &cutConn{Conn: conn, c: c}, nil
}

type cutConn struct {
	net.Conn
	c *cutter
}

func (c *cutConn) Write(b []byte) (int, error) {
	if bytes.Contains(b, []byte("cut here")) {
		c.c.armed.Store(true)
	}
	if !c.c.armed.Load() || !bytes.Contains(b, []byte("commit\x00")) || !c.c.fired.CompareAndSwap(false, true) {
		return c.Conn.Write(b)
	}
	if c.c.after {
		if _, err := c.Conn.Write(b); err != nil {
			return 0, err
		}
		// Read what the server says, so that it is known to have committed, and keep it from the client.
		if _, err := c.Conn.Read(make([]byte, 1024)); err != nil {
			return 0, err
		}
	}
	return len(b), c.Conn.Close()
}

// A COMMIT whose answer was lost is settled by the history: the run goes on when
// the commit took place, and says that nothing happened when it did not.
//
// Clauses: K-9.3
// Mutation: return the commit's error from settle, or nil.
func TestLostCommit(t *testing.T) {
	t.Parallel()
	named := []string{"V1__one.sql", "SELECT 1;", "V2__two.sql", "CREATE TABLE two (id int); -- cut here", "V3__three.sql", "SELECT 3;"}
	t.Run("committed", func(t *testing.T) {
		t.Parallel()
		each(t, func(t *testing.T, db pgtest.DB) {
			network := &cutter{after: true}
			result, err := open(t, db, files(t, named...), through(network)).Up(t.Context())
			if err != nil || len(result.Applied) != 3 || !network.fired.Load() {
				t.Errorf("up = %+v, %v (cut: %t); want all three applied", result, err, network.fired.Load())
			}
			if rows := history(t, db); len(rows) != 3 {
				t.Errorf("history %v, want three rows", rows)
			}
		})
	})
	t.Run("not committed", func(t *testing.T) {
		t.Parallel()
		each(t, func(t *testing.T, db pgtest.DB) {
			m := open(t, db, files(t, named...), through(&cutter{}))
			result, err := m.Up(t.Context())
			if _, ok := errors.AsType[*flyway.MigrationError](err); !ok || len(result.Applied) != 1 {
				t.Fatalf("up = %+v, %v; want a MigrationError after one file", result, err)
			}
			if rows := history(t, db); len(rows) != 1 || value[bool](t, db, `SELECT to_regclass('two') IS NOT NULL`) {
				t.Errorf("history %v, want V1 alone and no table two", rows)
			}
			if result, err = m.Up(t.Context()); err != nil || len(result.Applied) != 2 {
				t.Errorf("next run = %+v, %v; want the other two files", result, err)
			}
		})
	})
	t.Run("unknown", func(t *testing.T) {
		t.Parallel()
		each(t, func(t *testing.T, db pgtest.DB) {
			_, err := open(t, db, files(t, named...), through(&cutter{after: true, dead: true})).Up(t.Context())
			unknown, ok := errors.AsType[*flyway.UnknownOutcomeError](err)
			if !ok || unknown.Script != "V2__two.sql" || unknown.Hint() == "" {
				t.Errorf("up: %v, want the outcome of V2__two.sql unknown and a hint", err)
			}
		})
	})
}

func through(c *cutter) func(*pgx.ConnConfig, *flyway.Options) {
	return func(config *pgx.ConnConfig, o *flyway.Options) {
		config.DialFunc = c.dial
		o.LockTimeout = 10 * time.Second
	}
}

// A file that switches role, path and limits does not change whose row it is, nor
// what the next file finds.
//
// Clauses: K-9.5
// Mutation: take the second setUp out of runTransactional, or reset out of begin.
func TestFileChangesItsSession(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, db pgtest.DB) {
		up(t, db, files(t,
			"V1__wander.sql", "CREATE SCHEMA elsewhere; SET search_path = elsewhere; SET ROLE t_owner; SET standard_conforming_strings = off;",
			"V2__table.sql", `CREATE TABLE here (text text DEFAULT 'a\b');`,
			"V3__vacuum.sql", "VACUUM here;",
			"V4__table.sql", "CREATE TABLE there (id int);",
		))
		for _, row := range value[[]string](t, db, `SELECT array_agg(installed_by) FROM flyway_schema_history`) {
			if row != "dlock_owner" {
				t.Errorf("row installed by %s, want dlock_owner", row)
			}
		}
		if got := value[string](t, db, `SELECT column_default FROM information_schema.columns WHERE table_name = 'here'`); got != `'a\b'::text` {
			t.Errorf("default is %s, want the string as V2 writes it, whatever V1 had set", got)
		}
		if got := value[string](t, db, `SELECT string_agg(schemaname || '.' || tablename || ' ' || tableowner, ', ' ORDER BY tablename)
		FROM pg_tables WHERE tablename IN ('here', 'there')`); got != "public.here dlock_owner, public.there dlock_owner" {
			t.Errorf("tables %s, want both in public, owned by dlock_owner", got)
		}
	})
}

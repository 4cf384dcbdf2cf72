//go:build unix

package pgtest

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"
)

// Freeze stops every process of the server that serves no client: from now on nothing reaches the disk but what a
// client's own COMMIT, or want of memory, writes. What comes next is Crash.
func (s *Single) Freeze(t testing.TB) {
	t.Helper()
	err := s.admin(t.Context(), func(conn *pgx.Conn) error {
		s.frozen = Freeze(t, conn)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// Freeze does so to any server that runs beside the test; conn is a superuser's. What comes next is Kill, and an
// immediate shutdown.
func Freeze(t testing.TB, conn *pgx.Conn) (frozen Frozen) {
	t.Helper()
	Eventually(t, "the server's own processes stand still", func(ctx context.Context) (still bool, err error) {
		own, err := ownProcesses(ctx, conn)
		if err != nil {
			return false, err
		}
		for pid := range own {
			if err := signal(pid, syscall.SIGSTOP); err != nil {
				return false, err
			}
		}
		// Stopped in the midst of something it would hold what clients wait for.
		stopped, err := ownProcesses(ctx, conn)
		if err != nil {
			return false, err
		}
		frozen, still = nil, true
		for pid, idle := range stopped {
			if idle {
				frozen = append(frozen, pid)
				continue
			}
			still = false
			if err := signal(pid, syscall.SIGCONT); err != nil {
				return false, err
			}
		}
		return still, nil
	})
	return frozen
}

// signal reaches a process unless it has ended meanwhile, as one that vacuums may.
func signal(pid int, what syscall.Signal) error {
	if err := syscall.Kill(pid, what); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("send %q to process %d of the server: %w", what, pid, err)
	}
	return nil
}

// ownProcesses are those that serve no client, and whether each waits for something to do.
func ownProcesses(ctx context.Context, conn *pgx.Conn) (idle map[int]bool, err error) {
	idle = map[int]bool{}
	rows, err := conn.Query(ctx, `SELECT pid, wait_event_type IS NOT DISTINCT FROM 'Activity' FROM pg_stat_activity WHERE backend_type <> 'client backend'`)
	if err != nil {
		return nil, err
	}
	var pid int
	var waits bool
	_, err = pgx.ForEachRow(rows, []any{&pid, &waits}, func() error {
		idle[pid] = waits
		return nil
	})
	return idle, err
}

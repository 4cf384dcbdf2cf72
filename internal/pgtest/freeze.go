//go:build unix

package pgtest

import (
	"context"
	"fmt"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"
)

// Freeze stops every process of the server that serves no client: from now on nothing reaches the disk but what a
// client's own COMMIT, or want of memory, writes. What comes next is Crash.
func (s *Single) Freeze(t testing.TB) {
	t.Helper()
	Eventually(t, "the server's own processes stand still", func(ctx context.Context) (still bool, err error) {
		own, err := s.ownProcesses(ctx)
		if err != nil {
			return false, err
		}
		for pid := range own {
			if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
				return false, fmt.Errorf("stop process %d of the server: %w", pid, err)
			}
		}
		// Stopped in the midst of something it would hold what clients wait for.
		stopped, err := s.ownProcesses(ctx)
		if err != nil {
			return false, err
		}
		s.frozen, still = nil, true
		for pid, idle := range stopped {
			if idle {
				s.frozen = append(s.frozen, pid)
				continue
			}
			still = false
			if err := syscall.Kill(pid, syscall.SIGCONT); err != nil {
				return false, fmt.Errorf("continue process %d of the server: %w", pid, err)
			}
		}
		return still, nil
	})
}

// ownProcesses are those that serve no client, and whether each waits for something to do.
func (s *Single) ownProcesses(ctx context.Context) (idle map[int]bool, err error) {
	idle = map[int]bool{}
	err = s.admin(ctx, func(conn *pgx.Conn) error {
		rows, err := conn.Query(ctx, `SELECT pid, wait_event_type IS NOT DISTINCT FROM 'Activity' FROM pg_stat_activity WHERE backend_type <> 'client backend'`)
		if err != nil {
			return err
		}
		var pid int
		var waits bool
		_, err = pgx.ForEachRow(rows, []any{&pid, &waits}, func() error {
			idle[pid] = waits
			return nil
		})
		return err
	})
	return idle, err
}

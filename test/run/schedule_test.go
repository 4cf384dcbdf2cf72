//go:build linux

package run_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"
)

const (
	schedules = 200
	// atOnce is how many wrappers there are at a time. They mostly wait.
	atOnce = 16
	// A lease leaves shortest/8 between KILL and its end, of which the guard has three
	// quarters, 150 ms: what a busy machine may be late with them. A KILL that comes 0.3 s
	// late is too late for the longest one.
	shortest, longest = 1600 * time.Millisecond, 2200 * time.Millisecond
)

// Whatever happens to a wrapper, its command writes nothing once the lease has
// ended: 200 random schedules of stops, kills, cut connections, revokes and ended
// sessions, each with another who waits for the same lock. The record is the
// command's own, by the clock that the database reads too.
//
// Clauses: K-1.4, K-2.10, K-2.11
// Mutation: leave startGuard out of start, or tell the guard of 0.3 s more in tellGuard.
func TestNothingIsWrittenAfterTheLease(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	counts := playAll(t, w, seed)
	t.Logf("how the leases ended: %v", counts)
	for _, how := range []string{"released", "revoked", "reaped", "taken_over"} {
		if counts[how] < 5 {
			t.Errorf("%d leases ended as %s: the schedules show too little", counts[how], how)
		}
	}
}

// playAll plays all schedules, and counts how the leases ended.
func playAll(t *testing.T, w *world, seed uint64) map[string]int {
	t.Helper()
	rnd := rand.New(rand.NewPCG(seed, 0))
	pool := w.dbs.Lock.Pool(t, "super")
	counts := map[string]int{}
	var mu sync.Mutex
	var group errgroup.Group
	group.SetLimit(atOnce) // above -parallel
	for i := range schedules {
		s := newSchedule(rnd, i)
		group.Go(func() error {
			t.Run(strconv.Itoa(i), func(t *testing.T) {
				how, err := s.play(t, w, pool)
				if err != nil {
					t.Errorf("seed %d, %s: %v", seed, s, err)
				}
				mu.Lock()
				defer mu.Unlock()
				counts[how]++
			})
			return nil
		})
	}
	_ = group.Wait() // each has said what was wrong
	return counts
}

// schedule is what happens to one wrapper.
type schedule struct {
	number     int
	ttl, grace time.Duration
	stubborn   bool
	acts       []act
}

type act struct {
	after time.Duration
	what  string
	// stays is how long a stop lasts.
	stays time.Duration
}

func newSchedule(rnd *rand.Rand, number int) schedule {
	ttl := shortest + upTo(rnd, longest-shortest)
	s := schedule{number: number, ttl: ttl, grace: upTo(rnd, ttl/3), stubborn: rnd.IntN(2) > 0}
	for range 1 + rnd.IntN(3) {
		whats := []string{"stop", "stop", "stop command", "cut", "cut", "revoke", "end session", "kill", "term", "term"}
		s.acts = append(s.acts, act{upTo(rnd, ttl), whats[rnd.IntN(len(whats))], upTo(rnd, 2*ttl)})
	}
	return s
}

func upTo(rnd *rand.Rand, d time.Duration) time.Duration { return time.Duration(rnd.Int64N(int64(d))) }

func (s schedule) String() string {
	text := fmt.Sprintf("ttl %s, grace %s, stubborn %t:", s.ttl, s.grace.Round(time.Millisecond), s.stubborn)
	for _, a := range s.acts {
		text += fmt.Sprintf(" %s after %s for %s;", a.what, a.after.Round(time.Millisecond), a.stays.Round(time.Millisecond))
	}
	return text
}

// scene is one schedule being played.
type scene struct {
	schedule

	t     *testing.T
	pool  *pgxpool.Pool
	key   string
	log   string
	r     *wrapper
	pid   int
	token int64
	// promised is the lease's end when it was taken away, which the wrapper could
	// not know: until then, the fence protects.
	promised time.Time
}

// play plays a schedule, and says how the lease ended. A wrapper that a busy machine
// left no time to begin is begun anew.
func (s schedule) play(t *testing.T, w *world, pool *pgxpool.Pool) (string, error) {
	t.Helper()
	for try := range 20 {
		key := fmt.Sprintf("k%d-%d", s.number, try)
		log := filepath.Join(t.TempDir(), key)
		mine := *w
		mine.env = append(slices.Clone(w.env), "DLOCKCTL_LOCK_DSN="+w.dbs.Lock.DSN("t_lockapp")+"&application_name="+key)
		args := []string{"run", key, "--ttl", s.ttl.String(), "--grace", s.grace.String(), "--", w.child, "write", log}
		if s.stubborn {
			args = append(args, "stubborn")
		}
		c := &scene{schedule: s, t: t, pool: pool, key: key, log: log, r: mine.start(t, args...)}
		if c.begins() {
			return c.play(w)
		}
	}
	return "", errors.New("it never had the time to begin")
}

func (c *scene) play(w *world) (string, error) {
	c.t.Helper()
	granted := w.contender(c.t, c.key, 50*time.Millisecond)
	for _, a := range c.acts {
		if err := c.do(a); err != nil {
			return "", fmt.Errorf("%s: %w", a.what, err)
		}
	}
	if err := c.over(); err != nil {
		return "", err
	}
	at, ok := <-granted
	if !ok {
		return "", errors.New("nobody else was granted the lock")
	}
	return c.judge(at)
}

// begins waits for the first line, and tells whether the wrapper still holds the
// lock then.
func (c *scene) begins() bool {
	for {
		if lines := record(c.t, c.log); len(lines) > 0 {
			c.pid = lines[0].pid
			err := c.pool.QueryRow(c.t.Context(), "SELECT fencing_token FROM lock_entry WHERE lock_key = $1 AND owner_id <> 'contender'", c.key).Scan(&c.token)
			return err == nil
		}
		select {
		case <-c.r.done:
			return false
		case <-time.After(5 * time.Millisecond):
		}
	}
}

func (c *scene) do(a act) error {
	<-time.After(a.after) // it is the schedule, not a synchronisation
	ctx := c.t.Context()
	switch a.what {
	case "stop":
		_ = c.r.cmd.Process.Signal(syscall.SIGSTOP) // it may have ended
		<-time.After(a.stays)
		_ = c.r.cmd.Process.Signal(syscall.SIGCONT)
	case "stop command":
		_ = syscall.Kill(c.pid, syscall.SIGSTOP)
		<-time.After(a.stays)
		_ = syscall.Kill(c.pid, syscall.SIGCONT)
	case "term":
		_ = c.r.cmd.Process.Signal(syscall.SIGTERM)
	case "kill":
		_ = c.r.cmd.Process.Signal(syscall.SIGKILL)
	case "cut":
		_, err := c.pool.Exec(ctx, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = $1", c.key)
		return err
	case "revoke":
		return c.take(ctx, `WITH gone AS (DELETE FROM lock_entry WHERE lock_key = $1 AND fencing_token = $2 RETURNING *),
			audit AS (INSERT INTO lock_revocation (lock_key, prev_owner, prev_token, operator, reason)
			          SELECT lock_key, owner_id, fencing_token, 'erin@ops', 'schedule' FROM gone)
			SELECT expires_at FROM gone`)
	case "end session":
		return c.take(ctx, `WITH held AS (SELECT session_id, expires_at FROM lock_entry WHERE lock_key = $1 AND fencing_token = $2 FOR UPDATE),
			gone AS (DELETE FROM lock_session WHERE session_id IN (SELECT session_id FROM held))
			SELECT expires_at FROM held`)
	}
	return nil
}

// take takes the lock away, and remembers until when it was promised.
func (c *scene) take(ctx context.Context, sql string) error {
	for {
		err := c.pool.QueryRow(ctx, sql, c.key, c.token).Scan(&c.promised)
		switch {
		case errors.Is(err, pgx.ErrNoRows):
			return nil // it was gone already
		case err != nil && strings.Contains(err.Error(), "40P01"):
			continue // the wrapper renews in the other order
		default:
			return err
		}
	}
}

// over ends what the schedule has not ended.
func (c *scene) over() error {
	_ = c.r.cmd.Process.Signal(syscall.SIGCONT)
	if err := c.do(act{what: "revoke"}); err != nil {
		return err
	}
	for deadline := time.After(time.Minute); ; {
		select {
		case <-deadline:
			return errors.New("the command or its wrapper still runs")
		case <-time.After(5 * time.Millisecond):
		}
		select {
		case <-c.r.done:
			if gone(c.pid) {
				return nil
			}
		default:
		}
	}
}

// judge compares the last line with the end of the lease: as promised when it was
// taken away, when it was given back, or when the next grant began.
func (c *scene) judge(granted time.Time) (string, error) {
	var how string
	var at time.Time
	err := c.pool.QueryRow(c.t.Context(), "SELECT ended, ended_at FROM lock_grant WHERE fencing_token = $1", c.token).Scan(&how, &at)
	if err != nil {
		return "", err
	}
	switch {
	case !c.promised.IsZero():
		at = c.promised
	case how != "released":
		at = granted
	}
	lines := record(c.t, c.log)
	if last := lines[len(lines)-1].wall; !last.Before(at) {
		return "", fmt.Errorf("the last of %d lines is %s after the lease, which ended at %s as %s; stderr: %s",
			len(lines), last.Sub(at), at.Format(time.StampMicro), how, c.r.errOut)
	}
	return how, nil
}

//go:build unix

package rewind_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/dlockctl/dlockctl/internal/devenv/cluster"
	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/pgtest"
	"github.com/dlockctl/dlockctl/internal/restore"
	"github.com/dlockctl/dlockctl/internal/service/client"
)

// served are lock-server and the services that it asks, as processes, with
// restore.auto: safe. Their lockdb is whichever of several servers is the primary.
type served struct {
	home, url string
	env       []string
	logs      map[string]string
}

func (w *world) serveOver(t *testing.T, lockdbs ...*server) *served {
	t.Helper()
	home := t.TempDir()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	lockdb := func(login string) string {
		var hosts, ports []string
		for _, s := range lockdbs {
			hosts, ports = append(hosts, s.Run()), append(ports, strconv.Itoa(port))
		}
		return fmt.Sprintf("host=%s port=%s user=%s dbname=lockdb sslmode=disable target_session_attrs=read-write", strings.Join(hosts, ","), strings.Join(ports, ","), login)
	}
	files := map[string]string{
		"lock.dsn": lockdb("t_lockapp"), "lock-operator.dsn": lockdb("t_operator"),
		"pay.dsn": w.paydb("t_resource"), "rail.dsn": w.paydb("t_rail"), "pay-operator.dsn": w.paydb("t_operator"),
	}
	for name, text := range files {
		err = errors.Join(err, os.WriteFile(filepath.Join(home, name), []byte(text+"\n"), 0o600))
	}
	if err := errors.Join(err, os.Symlink(self, filepath.Join(home, program))); err != nil {
		t.Fatal(err)
	}
	s := &served{home: home, env: []string{"HOME=" + home, "PATH=" + os.Getenv("PATH"), "GORACE=atexit_sleep_ms=0"}, logs: map[string]string{}}
	s.configure(t, w.markDir, "")
	pay, rail := s.start(t, "payment-resource"), s.start(t, "rail-proxy")
	s.configure(t, w.markDir, fmt.Sprintf("    services: {pay_url: '%s', rail_url: '%s'}\n", pay, rail))
	s.url = s.start(t, "lock-server")
	return s
}

// configure writes what the services read when they start.
func (s *served) configure(t *testing.T, markDir, services string) {
	t.Helper()
	text := fmt.Sprintf(`profile: rewind
profiles:
  rewind:
    lock: {dsn_file: lock.dsn}
    pay: {dsn_file: pay.dsn}
    rail: {dsn_file: rail.dsn, url: 'http://127.0.0.1:1/v1'}
    mark_dir: %s
    restore: {auto: safe, operator_dsn_file: lock-operator.dsn, pay_operator_dsn_file: pay-operator.dsn}
%s`, markDir, services)
	if err := os.WriteFile(filepath.Join(s.home, "config.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// listening is what a service says of its address.
var listening = regexp.MustCompile(`listening.* address=(\S+)`)

// start starts a service on a port that is free, and waits until it is ready. It ends
// with the test.
func (s *served) start(t *testing.T, name string) (url string) {
	t.Helper()
	log, err := os.Create(filepath.Join(s.home, name+".log"))
	if err != nil {
		t.Fatal(err)
	}
	s.logs[name] = log.Name()
	cmd := exec.Command(filepath.Join(s.home, program), "serve", name, "--config", filepath.Join(s.home, "config.yaml"), "--listen", "127.0.0.1:0") //nolint:noctx // the test ends it
	cmd.Env, cmd.Stdout, cmd.Stderr = s.env, log, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGKILL) // it has no state worth saving
		_ = cmd.Wait()
		_ = log.Close()
		if t.Failed() {
			t.Logf("%s:\n%s", name, s.said(t, name))
		}
	})
	pgtest.Eventually(t, name+" listens", func(context.Context) (bool, error) {
		said := listening.FindStringSubmatch(s.said(t, name))
		if said == nil {
			return false, nil
		}
		url = "http://" + said[1]
		return true, nil
	})
	pgtest.Eventually(t, name+" is ready", func(ctx context.Context) (bool, error) {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/readyz", http.NoBody)
		if err != nil {
			return false, err
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			return false, nil //nolint:nilerr // not yet
		}
		return response.StatusCode == http.StatusOK, response.Body.Close()
	})
	return url
}

func (s *served) said(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(s.logs[name])
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// crowd are clients of lock-server that take locks and give them back, whatever it
// answers, until they are sent home.
type crowd struct {
	home  func()
	shown atomic.Int64
	// turns are those that each client has ended, with a token or without.
	turns [4]atomic.Int64
}

// comes lets clients in. No token may come to them that anybody was shown before.
func (w *world) comes(t *testing.T, s *served) *crowd {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	c := &crowd{}
	var clients sync.WaitGroup
	c.home = sync.OnceFunc(func() { cancel(); clients.Wait() })
	t.Cleanup(c.home)
	for n := range c.turns {
		locks, err := client.NewLocks(client.Options{URL: s.url, Timeout: 5 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(locks.Close)
		clients.Go(func() {
			tick := time.NewTicker(10 * time.Millisecond)
			defer tick.Stop()
			for ctx.Err() == nil {
				token, err := takes(ctx, locks, fmt.Sprint("client-", n), fmt.Sprint("key-", n%2))
				if err == nil {
					if w.note(token) {
						t.Errorf("client-%d was shown token %s, as somebody before", n, token)
					}
					c.shown.Add(1)
				}
				c.turns[n].Add(1)
				select {
				case <-ctx.Done():
				case <-tick.C:
				}
			}
		})
	}
	return c
}

// takes gets a lock under a session of its own, and ends that.
func takes(ctx context.Context, locks *client.Locks, owner, key string) (lockstore.Token, error) {
	session, err := locks.CreateSession(ctx, owner, time.Minute)
	if err != nil {
		return 0, err
	}
	grant, err := locks.Acquire(ctx, lockstore.AcquireParams{Key: key, Owner: owner, Session: session.ID, TTL: 200 * time.Millisecond})
	if err != nil {
		return 0, err
	}
	_, _ = locks.EndSession(ctx, session.ID) // or it lapses
	return grant.Token, nil
}

// patience is above the minute for which a fast-forward that was cut off is taken to be
// under way, and nobody else begins one.
const patience = 3 * time.Minute

// goesOn waits until the crowd was shown so many tokens more.
func (c *crowd) goesOn(t *testing.T, what string, more int64) {
	t.Helper()
	from := c.shown.Load()
	pgtest.Within(t, patience, what, func(context.Context) (bool, error) { return c.shown.Load() >= from+more, nil })
}

// settles waits until each has ended the turn that it was in: the tokens of whoever
// has stopped granting are noted then.
func (c *crowd) settles(t *testing.T) {
	t.Helper()
	for n := range c.turns {
		from := c.turns[n].Load()
		pgtest.Eventually(t, fmt.Sprintf("client-%d has ended its turn", n), func(context.Context) (bool, error) { return c.turns[n].Load() > from, nil })
	}
}

// lock-server brings its lockdb forward by itself after the promotion of a standby that
// lacks the last grants, with clients that never stop asking: none of them is shown a
// token that anybody was shown before, those after the promotion all lie above the
// target, and everybody from before is refused at accounts and rail.
//
// Clauses: K-7.10, K-7.1, K-7.6, K-7.8, K-1.3
// Mutation: hand no Rescue to lock-server (nothing is granted again); a margin of 0 and no
// mark in what AutoSafe asks for.
func TestLockServerResumesAfterPromotion(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 16)
	w.markDir = t.TempDir()
	primary := newServer(t, "lockdb", 16, nil)
	follower := primary.backup(t, 16).standby(t)
	s := w.serve(t, primary.dsn)
	l := w.begins(t, s)
	services := w.serveOver(t, primary, follower.server)
	crowd := w.comes(t, services)
	crowd.goesOn(t, "the clients work", 20)
	follower.caughtUp(t)
	follower.cutOff(t)
	l.goesOn(t, s)
	crowd.goesOn(t, "the primary grants what the standby never sees", 20)
	primary.stop(t, cluster.Immediate)
	crowd.settles(t)
	behind := ask[lockstore.Token](t, follower.dsn, `SELECT last_value FROM fencing_token_seq`)
	l.mu.Lock()
	lost := l.highest
	l.mu.Unlock()
	if behind >= l.idle.token {
		t.Fatalf("the standby knows token %s, and is to lack %s: this test shows nothing", behind, l.idle.token)
	}
	follower.promote(t, place(follower.dsn).conn(t))
	crowd.goesOn(t, "lock-server grants again, by itself", 20)
	crowd.home()

	super := place(follower.dsn).conn(t)
	target := value[lockstore.Token](t, super, `SELECT token FROM operator_log WHERE operator = $1 AND action = 'fast_forward_done'`, auto)
	if records := value[int](t, super, `SELECT count(*) FROM operator_log WHERE operator = $1`, auto); records != 2 || target <= lost {
		t.Errorf("%d records of it, up to %s; token %s was shown before", records, target, lost)
	}
	for _, token := range l.tokens() {
		if token > lost && token <= target {
			t.Errorf("token %s was shown after the promotion, and the target is %s", token, target)
		}
	}
	if said := services.said(t, "lock-server"); !strings.Contains(said, "not granting") || !strings.Contains(said, "restore.auto acts") {
		t.Errorf("its log does not tell what happened:\n%s", said)
	}
	if v, err := restore.Verify(t.Context(), l.stores(t, follower.dsn), options()); err != nil || !v.Safe {
		t.Errorf("verify: %+v, %v", v.Findings, err)
	}
	s = l.serve(t, follower.dsn)
	l.stale(t, s, target)
	l.resumes(t, s, target)
}

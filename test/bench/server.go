package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"syscall"
	"time"

	"github.com/dlockctl/dlockctl/internal/devenv/cluster"
)

// servers measures lock-server as it is released: the program, its own process,
// its log at its default level.
type servers struct {
	*bench

	programs *programs
}

// server is a running one.
type server struct {
	cmd     *exec.Cmd
	address string
	exited  chan error
}

const (
	serverClients = 64
	// idleLimitMiB is what one that nobody calls may take of memory.
	idleLimitMiB = 30
)

func (s *servers) prepare(ctx context.Context) error {
	return s.programs.build(ctx, program{root, "./cmd/dlockctl", "dlockctl"})
}

func (s *servers) contenders() []contender {
	return []contender{
		{
			series: []series{
				{"server-64", "lock-server over HTTP, 64 connections", pairsPerSecond, "pgbench-16"},
				{"server-64-etcd", "the same run, beside etcd", pairsPerSecond, "etcd-64"},
				{"server-64-own-cpu", "lock-server's own CPU time, 1,000 pairs", "s", ""},
				{"server-64-cpu", cpuTitle, "s", "etcd-64-cpu"},
			},
			measure: s.rate,
		},
		{
			series: []series{
				{"idle-limit", "the limit of idle memory", "MiB", ""},
				{"server-idle", "lock-server, idle: RssAnon", "MiB", "idle-limit"},
			},
			measure: s.idle,
		},
	}
}

// start starts one, and waits until it grants.
func (s *servers) start(ctx context.Context) (*server, error) {
	port, err := cluster.FreePort(ctx)
	if err != nil {
		return nil, err
	}
	address := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	// What it writes to its log is written, and kept nowhere.
	log, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	// That there are no payments is said in a file alone.
	config := filepath.Join(s.programs.dir, "lock-server.yaml")
	if err := os.WriteFile(config, []byte("profiles: {bench: {no_payments: true}}\n"), 0o600); err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, s.programs.path("dlockctl"), "serve", "lock-server", "--listen", address, "--config", config, "--profile", "bench")
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + s.programs.dir, "DLOCKCTL_LOCK_DSN=" + s.dbs.lockDSN}
	cmd.Stderr = log
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start lock-server: %w", err)
	}
	running := &server{cmd: cmd, address: address, exited: make(chan error, 1)}
	go func() { running.exited <- cmd.Wait() }()
	if err := running.ready(ctx); err != nil {
		return nil, errors.Join(err, running.stop())
	}
	return running, nil
}

func (r *server) ready(ctx context.Context) error {
	deadline := time.Now().Add(30 * time.Second)
	for {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+r.address+"/readyz", http.NoBody)
		if err != nil {
			return fmt.Errorf("ask lock-server: %w", err)
		}
		response, err := http.DefaultClient.Do(request)
		if err == nil {
			response.Body.Close()
			if response.StatusCode == http.StatusOK {
				return nil
			}
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("lock-server was not ready within 30 s: %w", err)
		}
		select {
		case err := <-r.exited:
			r.exited <- err
			return fmt.Errorf("lock-server ended: %w", err)
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func (r *server) stop() error {
	if err := r.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("stop lock-server: %w", err)
	}
	err := <-r.exited
	if status, ok := errors.AsType[*exec.ExitError](err); ok && status.ExitCode() == 143 {
		return nil // ended by the signal that we sent
	}
	return err
}

// rate is pairs per second over 64 connections, and the CPU time of the server and
// of everybody.
func (s *servers) rate(ctx context.Context) (values []float64, err error) {
	running, err := s.start(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, running.stop()) }()
	lines, sessions, closeAll, err := connect(ctx, running.address, serverClients)
	if err != nil {
		return nil, err
	}
	defer closeAll()
	client := subject{pair: func(_ context.Context, worker int) error {
		key := freshKey("h-", worker)
		token, err := lines[worker].acquire(key, sessions[worker], 0)
		if err != nil {
			return err
		}
		return lines[worker].release(key, sessions[worker], token)
	}}
	if _, err := load(ctx, client, serverClients, warmUp); err != nil {
		return nil, err
	}
	own, err := processUsage(running.cmd.Process.Pid)
	if err != nil {
		return nil, err
	}
	start := time.Now()
	perSecond, seconds, err := s.dbs.weighed(ctx, client, serverClients, s.window, running.cmd.Process.Pid)
	if err != nil {
		return nil, err
	}
	pairs := perSecond * time.Since(start).Seconds()
	after, err := processUsage(running.cmd.Process.Pid)
	return []float64{perSecond, perSecond, (after.own - own.own).Seconds() * 1000 / pairs, seconds}, err
}

// connect opens connections, with a session each.
func connect(ctx context.Context, address string, n int) (lines []*wire, sessions []string, closeAll func(), err error) {
	closeAll = func() {
		for _, line := range lines {
			line.close()
		}
	}
	for range n {
		line, err := dial(ctx, address)
		if err != nil {
			closeAll()
			return nil, nil, nil, err
		}
		lines = append(lines, line)
		session, err := line.session()
		if err != nil {
			closeAll()
			return nil, nil, nil, err
		}
		sessions = append(sessions, session)
	}
	return lines, sessions, closeAll, nil
}

var rssAnon = regexp.MustCompile(`(?m)^RssAnon:\s+(\d+) kB$`)

// idle is what a server takes of memory that is up and that nobody calls.
func (s *servers) idle(ctx context.Context) (values []float64, err error) {
	running, err := s.start(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, running.stop()) }()
	select {
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case <-time.After(3 * time.Second): // it reaps and looks at lockdb meanwhile
	}
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", running.cmd.Process.Pid))
	if err != nil {
		return nil, err
	}
	found := rssAnon.FindSubmatch(text)
	if found == nil {
		return nil, errors.New("the system does not say RssAnon")
	}
	kib, err := strconv.ParseFloat(string(found[1]), 64)
	return []float64{idleLimitMiB, kib / 1024}, err
}

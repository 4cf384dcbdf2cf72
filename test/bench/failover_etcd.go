package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/dlockctl/dlockctl/internal/lockstore/etcd"
)

// etcdModule builds the member that the tests use too: etcd's own server, with its
// default heartbeat of 100 ms and election timeout of 1 s, and each write durable.
var etcdModule = filepath.Join(root, "test", "etcd")

// members is how many: the least that survive one.
const members = 3

// etcd kills the leader by -9, and does nothing.
func (f *failOvers) etcd(ctx context.Context) (values []float64, err error) {
	dir := filepath.Join(f.dir, "failover")
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	q, err := startQuorum(ctx, f.programs.path("member"), dir)
	if err != nil {
		return nil, err
	}
	defer q.close()
	store, err := etcd.Open(ctx, etcd.Options{Endpoints: q.endpoints(), Purpose: etcd.Granting})
	if err != nil {
		return nil, err
	}
	defer store.Close()
	client, err := newAsking(ctx, store)
	if err != nil {
		return nil, err
	}
	leader, err := q.leader(ctx)
	if err != nil {
		return nil, err
	}
	killed := time.Now()
	leader.kill()
	granted, err := client.firstGrant(ctx, 0)
	return []float64{milliseconds(granted.Sub(killed))}, err
}

// member is one process of a cluster.
type member struct {
	name         string
	client, peer url.URL
	cmd          *exec.Cmd
	// orders are its standard input: it ends when that does.
	orders io.Closer
	said   bytes.Buffer
	exited chan struct{} // closed when it has ended; said may be read then
}

func (m *member) kill() {
	_ = m.cmd.Process.Kill() // it may have ended by itself
	<-m.exited
}

// quorum is a cluster of members on this machine and its one disk.
type quorum struct{ members []*member }

func startQuorum(ctx context.Context, program, dir string) (*quorum, error) {
	q := &quorum{}
	var peers []string
	for i := range members {
		m := &member{name: fmt.Sprintf("m%d", i), exited: make(chan struct{})}
		for _, address := range []*url.URL{&m.client, &m.peer} {
			free, err := freeURL(ctx)
			if err != nil {
				return nil, err
			}
			*address = free
		}
		peers = append(peers, m.name+"="+m.peer.String())
		q.members = append(q.members, m)
	}
	for i, m := range q.members {
		if err := m.start(ctx, program, dir, strings.Join(peers, ",")); err != nil {
			q.members = q.members[:i]
			q.close()
			return nil, err
		}
	}
	if _, err := q.leader(ctx); err != nil {
		q.close()
		return nil, err
	}
	return q, nil
}

func (m *member) start(ctx context.Context, program, dir, peers string) error {
	m.cmd = exec.CommandContext(ctx, program, "-name", m.name, "-dir", filepath.Join(dir, m.name), "-log", filepath.Join(dir, m.name+".log"),
		"-cluster", peers, "-peer", m.peer.String(), "-advertised-peer", m.peer.String(), "-client", m.client.String())
	m.cmd.Stderr = &m.said
	var err error
	if m.orders, err = m.cmd.StdinPipe(); err == nil {
		err = m.cmd.Start()
	}
	if err != nil {
		return fmt.Errorf("start the etcd member %s: %w", m.name, err)
	}
	go func() {
		_ = m.cmd.Wait() // how it ended is what it said
		close(m.exited)
	}()
	return nil
}

func (q *quorum) close() {
	for _, m := range q.members {
		m.kill()
	}
}

func (q *quorum) endpoints() []string {
	var all []string
	for _, m := range q.members {
		all = append(all, m.client.String())
	}
	return all
}

// leader waits until every member follows one and the same, and returns that.
func (q *quorum) leader(ctx context.Context) (leader *member, err error) {
	client, err := clientv3.New(clientv3.Config{Endpoints: q.endpoints(), Context: ctx, Logger: zap.NewNop()})
	if err != nil {
		return nil, fmt.Errorf("connect to etcd: %w", err)
	}
	defer client.Close() //nolint:errcheck // nothing is under way on it
	err = becomes(ctx, "etcd has a leader", 50*time.Millisecond, func(ctx context.Context) (bool, error) {
		leader = nil
		leads := map[uint64]bool{}
		for _, m := range q.members {
			answer, err := m.status(ctx, client)
			if err != nil {
				return false, err
			}
			leads[answer.Leader] = true
			if answer.Leader == answer.Header.MemberId {
				leader = m
			}
		}
		return leader != nil && len(leads) == 1, nil
	})
	return leader, err
}

func (m *member) status(ctx context.Context, client *clientv3.Client) (*clientv3.StatusResponse, error) {
	select {
	case <-m.exited:
		return nil, fmt.Errorf("the etcd member %s has ended: %s", m.name, bytes.TrimSpace(m.said.Bytes()))
	default:
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	answer, err := client.Status(ctx, m.client.String())
	if err != nil {
		return nil, fmt.Errorf("ask the etcd member %s: %w", m.name, err)
	}
	return answer, nil
}

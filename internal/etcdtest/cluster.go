//go:build unix

package etcdtest

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/dlockctl/dlockctl/internal/devenv/cluster"
)

// Options say what is started.
type Options struct {
	// Nodes is how many members; 0 is 3.
	Nodes int
	// TLS has clients speak TLS and show a certificate of Cluster.Certificates.
	TLS bool
	// SlowDisk allows Delay. Linux only.
	SlowDisk bool
}

// Cluster is running members, numbered from 0.
type Cluster struct {
	dir     string
	options Options
	token   string
	members []*member
	net     *peerNet
	certs   Certificates
	tls     *tls.Config
}

// Start starts a cluster of the test's own and waits until it serves; it ends with the test.
func Start(t testing.TB, options Options) *Cluster {
	t.Helper()
	built(t)
	if options.Nodes == 0 {
		options.Nodes = 3
	}
	dir, err := os.MkdirTemp(process.dir, "cluster-")
	if err != nil {
		t.Fatal(err)
	}
	c, err := start(t.Context(), dir, options)
	if err != nil {
		t.Fatalf("start etcd: %v", err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			c.tell(t)
		}
		c.close()
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return c
}

// start tries again when somebody took a port between the look and the start.
func start(ctx context.Context, dir string, options Options) (*Cluster, error) {
	var taken error
	for try := range 5 {
		c, err := newCluster(ctx, filepath.Join(dir, strconv.Itoa(try)), options)
		if err == nil {
			err = c.startAll(ctx)
		}
		if err == nil {
			return c, nil
		}
		if c != nil {
			c.close()
		}
		if !errors.Is(err, errPortTaken) {
			return nil, err
		}
		taken = err
	}
	return nil, taken
}

func newCluster(ctx context.Context, dir string, options Options) (*Cluster, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	c := &Cluster{dir: dir, options: options, token: "first"}
	if options.TLS {
		var err error
		if c.certs, c.tls, err = newCertificates(dir); err != nil {
			return nil, fmt.Errorf("make certificates: %w", err)
		}
	}
	c.net = newPeerNet()
	for i := range options.Nodes {
		m := &member{name: "m" + strconv.Itoa(i), dir: filepath.Join(dir, "m"+strconv.Itoa(i))}
		for _, address := range []*string{&m.client, &m.peer} {
			port, err := cluster.FreePort(ctx)
			if err != nil {
				return c, err
			}
			*address = net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
		}
		advertised, err := c.net.listen(ctx, i, m.peer)
		if err != nil {
			return c, fmt.Errorf("listen for the peers of %s: %w", m.name, err)
		}
		m.advertised = "http://" + advertised
		c.members = append(c.members, m)
	}
	return c, nil
}

// initialCluster is etcd's own notation of who belongs to it.
func (c *Cluster) initialCluster() string {
	parts := make([]string, 0, len(c.members))
	for _, m := range c.members {
		parts = append(parts, m.name+"="+m.advertised)
	}
	return strings.Join(parts, ",")
}

func (c *Cluster) startAll(ctx context.Context) error {
	for _, m := range c.members {
		if err := c.launch(m); err != nil {
			return err
		}
	}
	return c.ready(ctx)
}

// ready waits until every running member answers a linearizable read, and learns the members' ids, which the peer
// network tells them apart by.
func (c *Cluster) ready(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	for i, m := range c.members {
		if !m.running() {
			continue
		}
		group.Go(func() error {
			return until(ctx, m.name+" serves", func(ctx context.Context) error {
				if err := m.exited(); err != nil {
					return finalError{err}
				}
				status, err := c.status(ctx, i, true)
				if err == nil {
					c.net.learn(i, status.Header.MemberId)
				}
				return err
			})
		})
	}
	return group.Wait()
}

// answerWithin is more than a member takes whose disk is slow.
const answerWithin = 5 * time.Second

// status asks one member about itself, after a read through the leader when it must be in touch.
func (c *Cluster) status(ctx context.Context, i int, linearizable bool) (*clientv3.StatusResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	client, err := c.connect(ctx, i)
	if err != nil {
		return nil, err
	}
	defer client.Close() //nolint:errcheck // nothing is under way on it
	if linearizable {
		if _, err := client.Get(ctx, "ready"); err != nil {
			return nil, err
		}
	}
	return client.Status(ctx, c.Endpoint(i))
}

// connect returns a client of the members named, of all without a name.
func (c *Cluster) connect(ctx context.Context, nodes ...int) (*clientv3.Client, error) {
	endpoints := make([]string, 0, len(c.members))
	for _, i := range nodes {
		endpoints = append(endpoints, c.Endpoint(i))
	}
	if len(nodes) == 0 {
		endpoints = c.Endpoints()
	}
	return clientv3.New(clientv3.Config{
		Endpoints: endpoints, TLS: c.tls, Context: ctx, Logger: zap.NewNop(), DialTimeout: patience,
	})
}

// Endpoint is the client URL of one member.
func (c *Cluster) Endpoint(i int) string {
	if c.options.TLS {
		return "https://" + c.members[i].client
	}
	return "http://" + c.members[i].client
}

// Endpoints are the client URLs of all members.
func (c *Cluster) Endpoints() []string {
	endpoints := make([]string, 0, len(c.members))
	for i := range c.members {
		endpoints = append(endpoints, c.Endpoint(i))
	}
	return endpoints
}

// Client is a client of the members named, of all without a name; it is closed with the test.
func (c *Cluster) Client(t testing.TB, nodes ...int) *clientv3.Client {
	t.Helper()
	client, err := c.connect(context.WithoutCancel(t.Context()), nodes...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() }) // nothing is under way on it
	return client
}

// Certificates are the files a client needs to be let in with Options.TLS.
func (c *Cluster) Certificates() Certificates { return c.certs }

// TLS is the same for a client in this process; nil without Options.TLS.
func (c *Cluster) TLS() *tls.Config { return c.tls }

// Status is what a member says about itself: its revision, raft term and index, leader.
func (c *Cluster) Status(t testing.TB, i int) *clientv3.StatusResponse {
	t.Helper()
	var answer *clientv3.StatusResponse
	err := until(t.Context(), c.members[i].name+" tells its status", func(ctx context.Context) (err error) {
		answer, err = c.status(ctx, i, false)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return answer
}

// Leader is the number of the member that leads the reachable majority.
func (c *Cluster) Leader(t testing.TB) int {
	t.Helper()
	leader := -1
	err := until(t.Context(), "the cluster has a leader", func(ctx context.Context) error {
		for i, m := range c.members {
			if !m.running() || m.paused || c.net.isCut(i) {
				continue
			}
			status, err := c.status(ctx, i, true) // a leader cut off still thinks that it leads
			if err != nil {
				continue
			}
			if status.Leader == status.Header.MemberId {
				leader = i
				return nil
			}
		}
		return errors.New("no member says that it leads")
	})
	if err != nil {
		t.Fatal(err)
	}
	return leader
}

// Ready waits until every running member serves.
func (c *Cluster) Ready(t testing.TB) {
	t.Helper()
	if err := c.ready(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func (c *Cluster) close() {
	for _, m := range c.members {
		m.kill()
	}
	c.net.close()
}

// tell shows the end of each member's log.
func (c *Cluster) tell(t testing.TB) {
	for _, m := range c.members {
		log, err := os.ReadFile(m.dir + ".log")
		if err != nil {
			continue
		}
		if len(log) > 4000 {
			log = log[len(log)-4000:]
		}
		t.Logf("the end of the log of %s:\n%s", m.name, log)
	}
}

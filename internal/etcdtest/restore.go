//go:build unix

package etcdtest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
)

// Snapshot saves what the cluster holds to a file and returns its path, as `etcdctl snapshot save` does.
func (c *Cluster) Snapshot(t testing.TB) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "snapshot.db")
	err := func() (err error) {
		client, err := c.connect(t.Context(), c.Leader(t))
		if err != nil {
			return err
		}
		defer client.Close() //nolint:errcheck // the snapshot has been read
		snapshot, err := client.SnapshotWithVersion(t.Context())
		if err != nil {
			return err
		}
		file, err := os.Create(path)
		if err != nil {
			return err
		}
		_, err = io.Copy(file, snapshot.Snapshot)
		return errors.Join(err, snapshot.Snapshot.Close(), file.Close())
	}()
	if err != nil {
		t.Fatalf("save a snapshot: %v", err)
	}
	return path
}

// Restore says how a snapshot is restored.
type Restore struct {
	// Bump is added to the snapshot's revision, which is marked compacted; with 0 the revision is rewound.
	Bump uint64
	// NewToken restores under another cluster token, and so another cluster id. Without it the restored cluster has
	// the id of the old one: etcd computes it from the addresses and the token.
	NewToken bool
}

// RestoreAll kills what runs, throws its data away, restores the snapshot to every member by etcdutl, and starts them.
func (c *Cluster) RestoreAll(t testing.TB, snapshot string, how Restore) {
	t.Helper()
	if how.NewToken {
		c.token += "+"
	}
	for _, m := range c.members {
		m.kill()
		if err := os.RemoveAll(m.dir); err != nil {
			t.Fatal(err)
		}
		if err := c.restore(t.Context(), m, snapshot, how.Bump); err != nil {
			t.Fatalf("restore %s: %v", m.name, err)
		}
	}
	c.StartRestored(t)
}

// StartRestored starts every member on what Directory holds by now, which somebody else restored.
func (c *Cluster) StartRestored(t testing.TB) {
	t.Helper()
	nodes := make([]int, len(c.members))
	for i := range nodes {
		nodes[i] = i
	}
	if err := c.again(t.Context(), nodes...); err != nil {
		t.Fatal(err)
	}
}

func (c *Cluster) restore(ctx context.Context, m *member, snapshot string, bump uint64) error {
	args := []string{
		"snapshot", "restore", snapshot, "--data-dir", m.dir, "--name", m.name,
		"--initial-cluster", c.initialCluster(), "--initial-cluster-token", c.token,
		"--initial-advertise-peer-urls", m.advertised,
	}
	if bump > 0 {
		args = append(args, "--bump-revision", strconv.FormatUint(bump, 10), "--mark-compacted")
	}
	out, err := exec.CommandContext(ctx, filepath.Join(process.dir, "etcdutl"), args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w\n%s", err, out)
	}
	return nil
}

// Membership is what whoever restores a member by hand has to say of it.
type Membership struct {
	Name, DataDir, InitialCluster, Token, PeerURL string
}

// Membership tells what the flags of `etcdutl snapshot restore` are for a member.
func (c *Cluster) Membership(i int) Membership {
	m := c.members[i]
	return Membership{Name: m.name, DataDir: m.dir, InitialCluster: c.initialCluster(), Token: c.token, PeerURL: m.advertised}
}

// Wipe kills a member and throws its data away.
func (c *Cluster) Wipe(t testing.TB, i int) {
	t.Helper()
	c.members[i].kill()
	if err := os.RemoveAll(c.members[i].dir); err != nil {
		t.Fatal(err)
	}
}

//go:build unix

package etcdtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// errPortTaken is a member that found its address in use.
var errPortTaken = errors.New("a port of the member was taken")

// member is one process and what outlives it.
type member struct {
	name, dir                string
	client, peer, advertised string

	command *exec.Cmd
	orders  io.WriteCloser
	done    chan struct{} // closed when the process has ended
	output  *bytes.Buffer // may be read when done is closed
	paused  bool
}

// launch starts the member's process.
func (c *Cluster) launch(m *member) error {
	args := []string{
		"-name", m.name, "-dir", m.dir, "-log", m.dir + ".log", "-token", c.token, "-cluster", c.initialCluster(),
		"-peer", "http://" + m.peer, "-advertised-peer", m.advertised, "-client", "http://" + m.client,
	}
	if c.options.TLS {
		args[len(args)-1] = "https://" + m.client
		args = append(args, "-ca", c.certs.CA, "-cert", c.certs.Cert, "-key", c.certs.Key)
	}
	if c.options.SlowDisk {
		args = append(args, "-slow-disk")
	}
	// Not tied to a context: it lives from test to test when shared, and ends
	// when its standard input does.
	command := exec.Command(filepath.Join(process.dir, "member"), args...) //nolint:noctx // it outlives the test that starts it
	command.SysProcAttr = ownGroup()
	output := &bytes.Buffer{}
	command.Stdout, command.Stderr = output, output
	orders, err := command.StdinPipe()
	if err != nil {
		return fmt.Errorf("start %s: %w", m.name, err)
	}
	if err := command.Start(); err != nil {
		return fmt.Errorf("start %s: %w", m.name, err)
	}
	done := make(chan struct{})
	m.command, m.orders, m.output, m.done, m.paused = command, orders, output, done, false
	go func() {
		_ = command.Wait() // how it ended is asked of what it printed
		close(done)
	}()
	return nil
}

func (m *member) running() bool {
	if m.done == nil {
		return false
	}
	select {
	case <-m.done:
		return false
	default:
		return true
	}
}

// exited is what a process that ended by itself said.
func (m *member) exited() error {
	if m.running() {
		return nil
	}
	said := m.output.String()
	if strings.Contains(said, "address already in use") {
		return fmt.Errorf("%w: %s", errPortTaken, said)
	}
	return fmt.Errorf("%s ended: %s", m.name, said)
}

func (m *member) signal(s syscall.Signal) error {
	if !m.running() {
		return fmt.Errorf("%s is not running", m.name)
	}
	if err := m.command.Process.Signal(s); err != nil {
		return fmt.Errorf("signal %s: %w", m.name, err)
	}
	return nil
}

func (m *member) kill() {
	if m.running() {
		_ = m.command.Process.Kill() // it may just have ended
		<-m.done
	}
	m.paused = false
}

// Kill kills a member at once.
func (c *Cluster) Kill(t testing.TB, i int) {
	t.Helper()
	if !c.members[i].running() {
		t.Fatalf("%s is not running", c.members[i].name)
	}
	c.members[i].kill()
}

// Stop ends a member in good order.
func (c *Cluster) Stop(t testing.TB, i int) {
	t.Helper()
	m := c.members[i]
	if err := m.signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	select {
	case <-m.done:
	case <-time.After(patience):
		t.Fatalf("%s did not end", m.name)
	}
}

// Restart starts members that were killed or stopped, on their data and addresses, and waits until every running one
// serves.
func (c *Cluster) Restart(t testing.TB, nodes ...int) {
	t.Helper()
	for _, i := range nodes {
		if c.members[i].running() {
			t.Fatalf("%s is running", c.members[i].name)
		}
	}
	if err := c.again(t.Context(), nodes...); err != nil {
		t.Fatal(err)
	}
}

// again starts members on addresses that they have had before, of which somebody may have taken one for a moment.
func (c *Cluster) again(ctx context.Context, nodes ...int) error {
	return until(ctx, "the members start on their addresses", func(ctx context.Context) error {
		var errs []error
		for _, i := range nodes {
			if !c.members[i].running() {
				errs = append(errs, c.launch(c.members[i]))
			}
		}
		errs = append(errs, c.ready(ctx))
		for _, i := range nodes {
			errs = append(errs, c.members[i].exited())
		}
		err := errors.Join(errs...)
		if err != nil && !errors.Is(err, errPortTaken) {
			return finalError{err}
		}
		return err
	})
}

// Pause stops a member's process in its tracks, until Continue.
func (c *Cluster) Pause(t testing.TB, i int) {
	t.Helper()
	c.signal(t, i, syscall.SIGSTOP)
	c.members[i].paused = true
}

// Continue lets a paused member go on.
func (c *Cluster) Continue(t testing.TB, i int) {
	t.Helper()
	c.signal(t, i, syscall.SIGCONT)
	c.members[i].paused = false
}

func (c *Cluster) signal(t testing.TB, i int, s syscall.Signal) {
	t.Helper()
	if err := c.members[i].signal(s); err != nil {
		t.Fatal(err)
	}
}

// Delay has every write of a member to its disk take that much longer from now on; 0 ends it. It needs
// Options.SlowDisk.
func (c *Cluster) Delay(t testing.TB, i int, by time.Duration) {
	t.Helper()
	if !c.options.SlowDisk {
		t.Fatal("Delay needs Options.SlowDisk")
	}
	if _, err := fmt.Fprintf(c.members[i].orders, "delay %s\n", by); err != nil {
		t.Fatal(err)
	}
}

// Cut cuts a member off from its peers, not from its clients, until Heal.
func (c *Cluster) Cut(t testing.TB, i int) {
	t.Helper()
	if len(c.members) < 2 {
		t.Fatal("a single member has no peers")
	}
	c.net.cut(i)
}

// Heal connects a member with its peers again, and waits until every running one serves.
func (c *Cluster) Heal(t testing.TB, i int) {
	t.Helper()
	c.net.heal(i)
	c.Ready(t)
}

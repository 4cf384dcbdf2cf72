package pgtest

import (
	"errors"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/dlockctl/dlockctl/internal/devenv/cluster"
)

// Single is a private instance that waits for the disk (fsync on) and may be crashed.
type Single struct {
	Server
	cluster cluster.Cluster
	child   *cluster.Child
	// frozen are the processes that Freeze stopped.
	frozen Frozen
}

// Crashable starts a private instance; it is stopped when the test ends.
func Crashable(t testing.TB, majorVersion int) *Single {
	t.Helper()
	if _, err := enter(majorVersion); err != nil {
		t.Fatal(err)
	}
	c, err := newCluster(t.Context(), majorVersion, singleName())
	if err != nil {
		t.Fatal(err)
	}
	server, child, err := boot(t.Context(), c, "single", majorVersion, nil)
	if err != nil {
		t.Fatal(err)
	}
	s := &Single{Server: server, cluster: c, child: child}
	t.Cleanup(func() {
		if err := s.child.Stop(cluster.Immediate); err != nil {
			t.Error(err)
		}
	})
	return s
}

// singleName tells the private instances of a process apart.
func singleName() string {
	process.Lock()
	defer process.Unlock()
	process.singles++
	return "single" + strconv.Itoa(process.singles) + "-"
}

// Frozen are processes of a server that Freeze stopped.
type Frozen []int

// Kill ends them: they hear of no shutdown, and the server would wait some seconds for them.
func (f Frozen) Kill(t testing.TB) {
	t.Helper()
	for _, pid := range f {
		process, err := os.FindProcess(pid)
		if err != nil {
			t.Fatal(err)
		}
		if err := process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
			t.Fatal(err)
		}
	}
}

// Crash stops the server at once (immediate shutdown): no checkpoint, sessions are cut.
func (s *Single) Crash(t testing.TB) {
	t.Helper()
	s.frozen.Kill(t)
	s.frozen = nil
	s.stop(t, cluster.Immediate)
}

// Stop shuts the server down in good order.
func (s *Single) Stop(t testing.TB) {
	t.Helper()
	s.stop(t, cluster.Fast)
}

func (s *Single) stop(t testing.TB, mode cluster.Mode) {
	t.Helper()
	if err := s.child.Stop(mode); err != nil {
		t.Fatal(err)
	}
}

// Start starts the stopped server again, on its port, which somebody may have taken for a moment; it returns when
// recovery is done.
func (s *Single) Start(t testing.TB) {
	t.Helper()
	for start := time.Now(); ; {
		child, err := s.cluster.StartChild(t.Context(), s.Port)
		if err == nil {
			s.child = child
			return
		}
		if !errors.Is(err, cluster.ErrPortTaken) || time.Since(start) > patience {
			t.Fatal(err)
		}
	}
}

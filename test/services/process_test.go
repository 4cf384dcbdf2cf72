//go:build unix

package services_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/dlockctl/dlockctl/internal/pgtest"
)

// service is one of the program's services, as a process that comes and goes.
type service struct {
	name string // also its folder
	args []string
	env  []string
	url  string
	log  *os.File

	cmd *exec.Cmd
	// ended is closed when the process has ended; err is then how.
	ended chan struct{}
	err   error
	// told tells that the process was told to end; one that ends untold is broken.
	told atomic.Bool
}

// start starts the process; ready waits for it.
func (s *service) start(t *testing.T, binary string) {
	t.Helper()
	cmd := exec.Command(binary, s.args...) //nolint:noctx // the test ends it
	cmd.Env, cmd.Stdout, cmd.Stderr = s.env, s.log, s.log
	if err := cmd.Start(); err != nil {
		t.Fatalf("start %s: %v", s.name, err)
	}
	s.cmd, s.ended = cmd, make(chan struct{})
	s.told.Store(false)
	go func() {
		defer close(s.ended)
		if s.err = cmd.Wait(); !s.told.Load() {
			t.Errorf("%s ended by itself: %v", s.name, s.err)
		}
	}()
}

// ready waits until the service says that it is.
func (s *service) ready(t *testing.T) {
	t.Helper()
	pgtest.Eventually(t, s.name+" is ready", func(ctx context.Context) (bool, error) {
		select {
		case <-s.ended:
			return false, fmt.Errorf("it ended: %w; %s", s.err, s.tail())
		default:
		}
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url+"/readyz", http.NoBody)
		if err != nil {
			return false, err
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			return false, nil //nolint:nilerr // not yet
		}
		return response.StatusCode == http.StatusOK, response.Body.Close()
	})
}

func (s *service) running() bool {
	if s.cmd == nil {
		return false
	}
	select {
	case <-s.ended:
		return false
	default:
		return true
	}
}

// kill ends the process as the system does that runs out of memory.
func (s *service) kill(t *testing.T) {
	t.Helper()
	s.told.Store(true)
	s.signal(t, syscall.SIGKILL)
	<-s.ended
}

// terminate asks the process to end, and wants it to end well.
func (s *service) terminate(t *testing.T) {
	t.Helper()
	s.told.Store(true)
	s.signal(t, syscall.SIGTERM)
	timer := time.NewTimer(time.Minute)
	defer timer.Stop()
	select {
	case <-s.ended:
	case <-timer.C:
		t.Errorf("%s does not end: %s", s.name, s.tail())
		s.kill(t)
	}
}

// pause stops the process until it is continued.
func (s *service) pause(t *testing.T) {
	t.Helper()
	s.signal(t, syscall.SIGSTOP)
}

func (s *service) goOn(t *testing.T) {
	t.Helper()
	s.signal(t, syscall.SIGCONT)
}

func (s *service) signal(t *testing.T, signal syscall.Signal) {
	t.Helper()
	if err := s.cmd.Process.Signal(signal); err != nil && !errors.Is(err, os.ErrProcessDone) {
		t.Fatalf("%s to %s: %v", signal, s.name, err)
	}
}

// tail is the end of the service's log.
func (s *service) tail() string {
	text, err := os.ReadFile(s.log.Name())
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return strings.Join(lines[max(0, len(lines)-15):], "\n")
}

// built is the program, made once for all tests of the package.
var built struct { //nolint:gochecknoglobals // as pgtest's servers are
	once   sync.Once
	binary string
	err    error
}

// program builds the program.
func program(t *testing.T) string {
	t.Helper()
	built.once.Do(func() {
		// Inside of pgtest's folder, which is swept even after a death.
		built.binary = filepath.Join(filepath.Dir(pgtest.Servers(t, 16).Lock.Dir), "dlockctl")
		out, err := exec.CommandContext(context.WithoutCancel(t.Context()), "go", "build", "-o", built.binary, "github.com/dlockctl/dlockctl/cmd/dlockctl").CombinedOutput()
		if err != nil {
			built.err = fmt.Errorf("%w\n%s", err, out)
		}
	})
	if built.err != nil {
		t.Fatal(built.err)
	}
	return built.binary
}

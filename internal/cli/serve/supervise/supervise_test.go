package supervise_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dlockctl/dlockctl/internal/cli/serve/supervise"
)

// TestMain is the child where a test starts it as one: it says where it listens, and
// behaves as its first argument says.
func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == "child" {
		os.Exit(child(os.Args[2], os.Args[3:]))
	}
	os.Exit(m.Run())
}

func child(behaviour string, args []string) int {
	term := make(chan os.Signal, 1)
	signal.Notify(term, syscall.SIGTERM)
	switch behaviour {
	case "refuse":
		fmt.Fprintln(os.Stderr, "error: refused")
		return 6
	case "once": // crashes the first time, by the file that it leaves
		if _, err := os.Stat(args[0]); err != nil {
			fmt.Fprintln(os.Stderr, `time=x level=INFO msg=listening service=s address=127.0.0.1:4711 callers="none"`)
			if err := os.WriteFile(args[0], nil, 0o600); err != nil {
				return 3
			}
			return 1
		}
	}
	fmt.Fprintf(os.Stderr, "{\"msg\":\"listening\",\"address\":\"127.0.0.1:%d\"}\n", os.Getpid())
	fmt.Fprintln(os.Stderr, "args", strings.Join(args, " "))
	<-term
	if behaviour == "stubborn" {
		select {}
	}
	fmt.Fprint(os.Stderr, "bye")
	return 0
}

// stage is a supervisor of this binary, and what it wrote.
type stage struct {
	supervise.Supervisor

	mu   sync.Mutex
	text bytes.Buffer
}

func newStage(t *testing.T) *stage {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	s := &stage{}
	s.Supervisor.Program, s.Supervisor.Name, s.Supervisor.Err, s.Supervisor.Grace = program, "supervised", writer{s}, 20*time.Second
	s.Supervisor.Final = func(exit int) bool { return exit == 6 }
	return s
}

type writer struct{ *stage }

func (w writer) Write(text []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.Write(text)
}

func (s *stage) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

var _ io.Writer = writer{}

func plays(name, behaviour string, args ...string) supervise.Child {
	return supervise.Child{Name: name, Env: os.Environ(), Args: func(again string) []string {
		return append([]string{"child", behaviour}, append(args, "again="+again)...)
	}}
}

func eventually(t *testing.T, what string, so func() bool) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !so() {
		if time.Now().After(deadline) {
			t.Fatalf("not within a minute: %s", what)
		}
		<-tick.C
	}
}

// Children start in order, are told apart, and end in the other order.
//
// Mutation: range over kept forwards at the end of Run, or leave SIGTERM out of finish
func TestOrder(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	ready := make(chan struct{})
	done := make(chan error, 1)
	go func() {
		done <- s.Run(ctx, []supervise.Child{plays("first", "serve"), plays("second", "serve"), plays("third", "serve")}, func(context.Context) { close(ready) })
	}()
	<-ready
	for _, name := range []string{"first", "second", "third"} {
		if !strings.HasPrefix(s.Address(name), "127.0.0.1:") {
			t.Errorf("%s listens at %q", name, s.Address(name))
		}
	}
	stop()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	said := func(what string) []string {
		var names []string
		for _, found := range regexp.MustCompile(`(?m)^(\w+) +\| .*`+what).FindAllStringSubmatch(s.String(), -1) {
			names = append(names, found[1])
		}
		return names
	}
	order := []string{"first", "second", "third"}
	if diff := cmp.Diff(order, said("listening")); diff != "" {
		t.Errorf("started: %s", diff)
	}
	slices.Reverse(order)
	if diff := cmp.Diff(order, said("bye")); diff != "" {
		t.Errorf("ended: %s", diff)
	}
}

// One that dies is started again, told where it listened.
//
// Mutation: return from keep after the first end, or give "" for again
func TestStartsAgain(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	done := make(chan error, 1)
	go func() {
		done <- s.Run(ctx, []supervise.Child{plays("mortal", "once", filepath.Join(t.TempDir(), "died"))}, func(context.Context) {})
	}()
	eventually(t, "the child runs again", func() bool { return strings.Contains(s.String(), "again=127.0.0.1:4711") })
	stop()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"mortal           | ended with exit code 1\n", "mortal           | is started again in ", "mortal           | bye\n"} {
		if !strings.Contains(s.String(), want) {
			t.Errorf("no %q in %s", want, s)
		}
	}
}

// One that cannot be helped by starting it again ends all of them.
//
// Mutation: leave Final out of keep
func TestFinal(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	err := s.Run(t.Context(), []supervise.Child{plays("good", "serve"), plays("bad", "refuse"), plays("never", "serve")}, func(context.Context) { t.Error("ready") })
	var final *supervise.FinalError
	if !errors.As(err, &final) || final.Name != "bad" || final.Exit != 6 {
		t.Fatalf("%v, want bad with exit code 6", err)
	}
	if text := s.String(); !strings.Contains(text, "good             | bye") || strings.Contains(text, "never") {
		t.Errorf("the others: %s", text)
	}
}

// One that does not end when it is told to is killed.
//
// Mutation: wait for ended without Grace
func TestKillsTheStubborn(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.Grace = 50 * time.Millisecond
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	if err := s.Run(ctx, []supervise.Child{plays("stubborn", "stubborn")}, func(context.Context) { stop() }); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(s.String(), "did not end within 50ms, and is killed") {
		t.Errorf("it says %s", s)
	}
}

// What is hidden is not written, and still read for the address.
//
// Mutation: leave Hide out of hear
func TestHide(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.Hide = func(line []byte) bool { return bytes.Contains(line, []byte("listening")) }
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	if err := s.Run(ctx, []supervise.Child{plays("quiet", "serve")}, func(context.Context) { stop() }); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(s.String(), "listening") || s.Address("quiet") == "" {
		t.Errorf("it listens at %q and writes %s", s.Address("quiet"), s)
	}
}

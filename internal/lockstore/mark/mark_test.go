package mark_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/dlockctl/dlockctl/internal/devenv/filelock"
	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/lockstore/mark"
)

const (
	here  = "10000000-0000-4000-8000-000000000001"
	there = "20000000-0000-4000-8000-000000000002"
)

func open(t *testing.T, dir, deployment string) *mark.Mark {
	t.Helper()
	m, err := mark.Open(dir, deployment)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func created(t *testing.T, issued lockstore.Token) *mark.Mark {
	t.Helper()
	m := open(t, t.TempDir(), here)
	if _, err := m.Create(t.Context(), issued); err != nil {
		t.Fatal(err)
	}
	return m
}

// The mark only rises, whoever writes, and is not made anew as if nothing had been
// granted.
//
// Clauses: K-7.6
// Mutation: write what was asked for in (*Mark).write instead of the higher of the two;
// raise the ceiling alone in Reach.
func TestMarkOnlyRises(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	m := open(t, dir, here)
	for _, err := range []error{
		second(m.Read()), second(m.Raise(t.Context(), 5)), m.Cover(t.Context(), 5),
	} {
		if !errors.Is(err, mark.ErrMissing) {
			t.Errorf("without a file: %v", err)
		}
	}
	if state, err := m.Create(t.Context(), 100); err != nil || state.Ceiling != 100 || state.Issued != 100 {
		t.Fatalf("create: %+v, %v", state, err)
	}
	other := open(t, dir, here)
	for _, tt := range []struct {
		name string
		do   func() (mark.State, error)
		want mark.State
	}{
		{"raised", func() (mark.State, error) { return other.Raise(t.Context(), 5000) }, mark.State{Ceiling: 5000, Issued: 100}},
		{"raised lower", func() (mark.State, error) { return m.Raise(t.Context(), 300) }, mark.State{Ceiling: 5000, Issued: 100}},
		{"created again", func() (mark.State, error) { return m.Create(t.Context(), 50) }, mark.State{Ceiling: 5000, Issued: 100}},
		{"reached", func() (mark.State, error) { return m.Reach(t.Context(), 6000) }, mark.State{Ceiling: 6000, Issued: 6000}},
		{"reached lower", func() (mark.State, error) { return m.Reach(t.Context(), 5500) }, mark.State{Ceiling: 6000, Issued: 6000}},
		{"above every token", func() (mark.State, error) { return m.Raise(t.Context(), lockstore.MaxToken+9) }, mark.State{Ceiling: lockstore.MaxToken, Issued: 6000}},
	} {
		if _, err := tt.do(); err != nil {
			t.Fatalf("%s: %v", tt.name, err)
		}
		if got, err := other.Read(); err != nil || got.Ceiling != tt.want.Ceiling || got.Issued != tt.want.Issued {
			t.Errorf("%s: %+v, %v", tt.name, got, err)
		}
	}
}

func second(_ mark.State, err error) error { return err }

// A token above the ceiling is covered when the raise is on the disk, and not before;
// below it nothing is written. Blocks grow with what is granted, from a few tokens, so
// that little is skipped after a death, up to a million, which are raised ahead.
//
// Clauses: K-7.6
// Mutation: raise in the background whatever the token, drop the comparison in Cover, or
// leave every block as small as the first in nextBlock.
func TestCover(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { // whose time stands still: how long the disk takes decides nothing
		m := created(t, 10)
		covered := func(token lockstore.Token) mark.State {
			t.Helper()
			if err := m.Cover(t.Context(), token); err != nil {
				t.Fatal(err)
			}
			state, err := m.Read()
			if err != nil || state.Ceiling < token {
				t.Fatalf("token %s is covered by %+v, %v", token, state, err)
			}
			return state
		}
		raised := covered(11)
		if raised.Ceiling != 11+64 {
			t.Errorf("the first grant: %+v", raised)
		}
		for token := lockstore.Token(12); token <= raised.Ceiling; token++ {
			if still := covered(token); still != raised {
				t.Fatalf("inside the block it was written: %+v, %+v", still, raised)
			}
		}
		writes, last := 0, raised
		for token := raised.Ceiling; token < 40*mark.Block; token += 1000 {
			if now := covered(token); now.Ceiling != last.Ceiling {
				writes, last = writes+1, now
			}
		}
		if writes > 200 || last.Ceiling > 42*mark.Block {
			t.Errorf("for 40 million tokens at once it was written %d times, to %s", writes, last.Ceiling)
		}
		m.Saw(last.Ceiling - 5)
		if err := m.Flush(t.Context()); err != nil { // waits for what is being raised
			t.Fatal(err)
		}
		if told, err := m.Read(); err != nil || told.Issued != last.Ceiling-5 {
			t.Errorf("after the last word: %+v, %v", told, err)
		}
		// A folder that is gone: what is above the ceiling is not covered.
		if err := os.RemoveAll(filepath.Dir(m.Path())); err != nil {
			t.Fatal(err)
		}
		if err := m.Cover(t.Context(), last.Ceiling+9*mark.Block); err == nil {
			t.Error("a token was covered by a file that cannot be written")
		}
	})
}

// Who flushes does not trip over who raises ahead meanwhile, and waits no longer than told.
//
// Mutation: have Flush wait by a sync.WaitGroup for what Cover raises.
func TestFlushWhileGranting(t *testing.T) {
	t.Parallel()
	m := created(t, 10)
	var next atomic.Int64
	var grants errgroup.Group
	for range 4 {
		grants.Go(func() error {
			for {
				token := lockstore.Token(next.Add(500))
				if token > 20*mark.Block {
					return nil
				}
				if err := m.Cover(t.Context(), token); err != nil {
					return err
				}
				m.Saw(token)
			}
		})
	}
	granted := make(chan error, 1)
	go func() { granted <- grants.Wait() }()
	for done := false; !done; {
		select {
		case err := <-granted:
			if err != nil {
				t.Fatal(err)
			}
			done = true
		default:
		}
		if err := m.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	state, err := m.Read()
	if err != nil || state.Issued != m.Seen() {
		t.Fatalf("%+v, %v; %s was shown", state, err, m.Seen())
	}
	held, err := filelock.Wait(t.Context(), m.Path()+".lock", func() {})
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Cover(t.Context(), state.Ceiling); err != nil { // raised ahead, in vain as yet
		t.Fatal(err)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if err := m.Flush(ended); !errors.Is(err, context.Canceled) {
		t.Errorf("while somebody sits on the file: %v", err)
	}
	if err := held.Release(); err != nil {
		t.Fatal(err)
	}
	if err := m.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// Nobody waits longer than told for who sits on the file, be it this process.
//
// Mutation: make raising a sync.Mutex (it hangs), or raise ahead without a bound.
func TestSomebodySitsOnTheMark(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := created(t, 10)
		const high = 10 * mark.Block
		for token := lockstore.Token(1000); token < high; token *= 2 { // until a block is raised ahead
			if err := m.Cover(t.Context(), token); err != nil {
				t.Fatal(err)
			}
		}
		if err := m.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		state, err := m.Raise(t.Context(), high)
		if err != nil {
			t.Fatal(err)
		}
		held, err := filelock.Wait(t.Context(), m.Path()+".lock", func() {})
		if err != nil {
			t.Fatal(err)
		}
		if err := m.Cover(t.Context(), state.Ceiling); err != nil { // raised ahead, in vain as yet
			t.Fatal(err)
		}
		synctest.Wait()
		within, cancel := context.WithTimeout(t.Context(), mark.TellWithin/2)
		defer cancel()
		if err := m.Cover(within, state.Ceiling+1); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("above the ceiling: %v", err)
		}
		<-time.After(mark.TellWithin)
		synctest.Wait()
		if err := held.Release(); err != nil {
			t.Fatal(err)
		}
		// Who raised ahead has given up, and who comes now need not wait for it.
		if state, err := m.Read(); err != nil || state.Ceiling != high {
			t.Errorf("after the file was let go: %+v, %v", state, err)
		}
		if err := m.Cover(t.Context(), high+1); err != nil {
			t.Error(err)
		}
	})
}

// Two processes' marks that grant at once leave a ceiling above every token.
//
// Clauses: K-7.6
// Mutation: drop the lock file from (*Mark).write.
func TestManyWriters(t *testing.T) {
	t.Parallel()
	first := created(t, 0)
	marks := []*mark.Mark{first, open(t, filepath.Dir(first.Path()), here), open(t, filepath.Dir(first.Path()), here)}
	var mu sync.Mutex
	highest := lockstore.Token(0)
	group, ctx := errgroup.WithContext(t.Context())
	for i, m := range marks {
		group.Go(func() error {
			for n := range lockstore.Token(20) {
				token := (n*3 + lockstore.Token(i)) * mark.Block / 2
				if err := m.Cover(ctx, token); err != nil {
					return err
				}
				state, err := m.Read()
				if err != nil {
					return err
				}
				if state.Ceiling < token {
					t.Errorf("token %s was covered by %s", token, state.Ceiling)
				}
				mu.Lock()
				highest = max(highest, token)
				mu.Unlock()
				m.Saw(token)
				if err := m.Flush(ctx); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	if state, err := first.Read(); err != nil || state.Issued != highest {
		t.Errorf("the highest was %s: %+v, %v", highest, state, err)
	}
	left, err := filepath.Glob(first.Path() + ".new-*")
	if err != nil || len(left) != 0 {
		t.Errorf("left behind: %q, %v", left, err)
	}
}

// A file that was edited, cut short, or belongs to another deployment is refused, and
// never taken for a low mark.
//
// Clauses: K-7.6
// Mutation: drop a case of Read.
func TestDamagedMark(t *testing.T) {
	t.Parallel()
	m := created(t, 4000)
	whole, err := os.ReadFile(m.Path())
	if err != nil {
		t.Fatal(err)
	}
	other := open(t, filepath.Dir(m.Path()), there)
	for name, text := range map[string]string{
		"lowered": strings.ReplaceAll(string(whole), ": 4000", ": 1"),
		"cut":     string(whole[:len(whole)/2]),
		"empty":   "",
		"newer":   strings.Replace(string(whole), `"version": 1`, `"version": 2`, 1),
	} {
		if err := os.WriteFile(m.Path(), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := m.Read(); !isDamaged(err) {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := m.Raise(t.Context(), 9000); !isDamaged(err) {
			t.Errorf("%s: raised: %v", name, err)
		}
	}
	for name, place := range map[string]func() error{
		"a pipe":    func() error { return exec.CommandContext(t.Context(), "mkfifo", m.Path()).Run() },
		"a link":    func() error { return os.Symlink(t.TempDir(), m.Path()) },
		"a folder":  func() error { return os.Mkdir(m.Path(), 0o700) },
		"far large": func() error { return os.WriteFile(m.Path(), make([]byte, 1<<20), 0o600) },
	} {
		if err := errors.Join(os.Remove(m.Path()), place()); err != nil {
			t.Fatal(err)
		}
		if _, err := m.Read(); !isDamaged(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if state, err := m.Replace(t.Context(), 7000); err != nil || state.Ceiling != 7000 {
		t.Errorf("made anew: %+v, %v", state, err)
	}
	if _, err := os.Stat(m.Path() + ".damaged"); err != nil {
		t.Errorf("what was damaged: %v", err)
	}
	if state, err := m.Replace(t.Context(), 10); err != nil || state.Ceiling != 7000 {
		t.Errorf("a whole one is not made anew: %+v, %v", state, err)
	}
	if err := os.WriteFile(other.Path(), whole, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := other.Read(); !isDamaged(err) || !strings.Contains(err.Error(), here) {
		t.Errorf("another deployment's: %v", err)
	}
	if _, err := mark.Open(t.TempDir(), "prod"); !errors.Is(err, lockstore.ErrInvalid) {
		t.Errorf("a deployment that is none: %v", err)
	}
	if _, err := mark.Open(m.Path(), here); !errors.Is(err, lockstore.ErrInvalid) {
		t.Errorf("a file for a folder: %v", err)
	}
	if _, err := mark.Open(filepath.Join(t.TempDir(), "none"), here); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no folder: %v", err)
	}
}

func isDamaged(err error) bool {
	_, ok := errors.AsType[*mark.DamagedError](err)
	return ok
}

//go:build linux

package shells_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/dlockctl/dlockctl/internal/pgtest"
)

// What the shells print for the test, and the key that has them print the line: Alt-z.
const (
	prompt               = "\x06"
	lineBegins, lineEnds = "\x02", "\x03"
	tellLine             = "\x1bz"
	dropLine             = "\x15"
)

// session is a shell that somebody sits before.
type session struct {
	t    *testing.T
	home string
	keys *os.File

	mu    sync.Mutex
	shown bytes.Buffer
}

// start starts a shell with files in its home, which is also its folder, and locks in its lockdb.
func start(t *testing.T, files map[string]string, argv ...string) *session {
	t.Helper()
	s := &session{t: t, home: t.TempDir()}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	bin := t.TempDir()
	if err := os.Symlink(self, filepath.Join(bin, "dlockctl")); err != nil {
		t.Fatal(err)
	}
	for name, text := range files {
		path := filepath.Join(s.home, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	db := pgtest.Migrated(t, 16).Lock
	plant(t, db)
	keys, tty := newTerminal(t)
	s.keys = keys
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), argv[0], argv[1:]...)
	cmd.Dir = s.home
	cmd.Env = []string{
		"PATH=" + bin + ":" + os.Getenv("PATH"), "HOME=" + s.home, "ZDOTDIR=" + s.home, "XDG_CONFIG_HOME=" + s.home, "XDG_STATE_HOME=" + s.home,
		"TERM=xterm", "LC_ALL=C.UTF-8", "GORACE=atexit_sleep_ms=0", "DLOCKCTL_LOCK_DSN=" + db.DSN("t_operator"),
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = tty, tty, tty
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = tty.Close()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		buf := make([]byte, 4096)
		for {
			n, err := keys.Read(buf)
			if err != nil {
				return // nobody is before the terminal any more
			}
			s.mu.Lock()
			s.shown.Write(buf[:n])
			s.mu.Unlock()
		}
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // it was killed
		_ = keys.Close()
		<-ended
	})
	s.after(prompt)
	return s
}

// newTerminal opens a terminal that is wide enough for each offer: what a person types and sees,
// and what a program reads and writes.
func newTerminal(t *testing.T) (keys, tty *os.File) {
	t.Helper()
	keys, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	number, err := unix.IoctlGetInt(int(keys.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(keys.Fd()), unix.TIOCSPTLCK, 0)
	}
	if err == nil {
		err = unix.IoctlSetWinsize(int(keys.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 60, Col: 240})
	}
	if err == nil {
		tty, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	return keys, tty
}

// after waits for a text, and returns and forgets what was shown before it.
func (s *session) after(text string) (before string) {
	s.t.Helper()
	found := false
	defer func() {
		if !found {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.t.Logf("it shows %q", s.shown.String())
		}
	}()
	pgtest.Eventually(s.t, fmt.Sprintf("it shows %q", text), func(context.Context) (bool, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		var head, tail string
		if head, tail, found = strings.Cut(s.shown.String(), text); found {
			before = head
			s.shown.Reset()
			s.shown.WriteString(tail)
		}
		return found, nil
	})
	return before
}

func (s *session) types(keys string) {
	s.t.Helper()
	if _, err := s.keys.WriteString(keys); err != nil {
		s.t.Fatal(err)
	}
}

// press types on, and returns the line as it is then and what was shown beside it.
func (s *session) press(keys string) (line, shown string) {
	s.t.Helper()
	s.types(keys + tellLine)
	shown = s.after(lineBegins)
	return s.after(lineEnds), shown
}

// again asks until the answer is there. The product gives up on a database that is slow for once,
// and says nothing, by design: who pressed Tab presses it again.
func (s *session) again(want string, asks func() (there bool)) {
	s.t.Helper()
	for range 20 {
		if asks() {
			return
		}
	}
	s.t.Fatalf("it never happens: %s", want)
}

// completes types a line and Tab on an empty one until something is offered.
func (s *session) completes(typed string) (line string) {
	s.t.Helper()
	s.again(fmt.Sprintf("%q is completed", typed), func() bool {
		line, _ = s.press(dropLine + typed + "\t")
		return line != typed
	})
	return line
}

// lists types keys on an empty line until every text is shown.
func (s *session) lists(keys string, texts ...string) (shown string) {
	s.t.Helper()
	s.again(fmt.Sprintf("%q shows %q", keys, texts), func() bool {
		_, shown = s.press(dropLine + keys)
		return !slices.ContainsFunc(texts, func(text string) bool { return !strings.Contains(shown, text) })
	})
	return shown
}

// names runs the line that is there, dlockctl lock show with one word, and returns the key that it
// names.
func (s *session) names() string {
	s.t.Helper()
	s.types(" -o json >shown 2>&1\r")
	s.after(prompt)
	text, err := os.ReadFile(filepath.Join(s.home, "shown"))
	if err != nil {
		s.t.Fatal(err)
	}
	var entry struct{ Key string }
	if err := json.Unmarshal(text, &entry); err != nil {
		s.t.Fatalf("lock show: %s", text)
	}
	return entry.Key
}

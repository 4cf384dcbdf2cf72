package e2e_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/dlockctl/dlockctl/internal/pgtest"
)

// planted is a password that no output may show.
const planted = "hunter2-planted"

// A host that takes the connection and never answers ends a command by its
// deadline or by a signal, each with its own exit code, and never in a hang.
// The binary is the one that is released, cmd's own main included.
//
// Mutation: take untilSignal out of cli.Main, or the deadline out of App.Run.
func TestBlackHole(t *testing.T) {
	t.Parallel()
	binary := build(t)
	for name, c := range map[string]struct {
		signal  syscall.Signal // sent once it is connected; 0 for none
		args    string
		exit    int
		code    string
		message string
	}{
		"interrupted":           {syscall.SIGINT, "lock list", 130, "interrupted", "interrupted: "},
		"terminated":            {syscall.SIGTERM, "lock list", 143, "terminated", "terminated: "},
		"terminated acquire":    {syscall.SIGTERM, "acquire account:42", 143, "terminated", "terminated: "},
		"interrupted migration": {syscall.SIGINT, "migrate up --target lockdb", 130, "interrupted", "interrupted: "},
		"deadline":              {0, "lock list --timeout 1s", 8, "deadline", "gave up after 1s: "},
		"deadline of acquire":   {0, "acquire account:42 --timeout 1s", 8, "deadline", "gave up after 1s: "},
		"deadline of revoke":    {0, "revoke account:42 --reason x --yes --any-token --timeout 1s", 8, "deadline", "gave up after 1s: "},
		"deadline of status":    {0, "migrate status --timeout 1s", 8, "deadline", "gave up after 1s: "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			address, connected := blackHole(t)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			cmd := exec.CommandContext(ctx, binary, append(strings.Fields(c.args), "-o", "json")...)
			dsn := "postgres://me:" + planted + "@" + address + "/lockdb"
			cmd.Env = []string{"HOME=" + t.TempDir(), "DLOCKCTL_LOCK_DSN=" + dsn, "DLOCKCTL_PAY_DSN=" + dsn}
			var stdout, stderr bytes.Buffer
			cmd.Stdout, cmd.Stderr = &stdout, &stderr
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			if c.signal != 0 {
				select {
				case <-connected:
				case <-ctx.Done():
					t.Fatal("it did not connect")
				}
				if err := cmd.Process.Signal(c.signal); err != nil {
					t.Fatal(err)
				}
			}
			exit := exitCode(t, cmd.Wait())
			if exit != c.exit || stdout.Len() != 0 {
				t.Errorf("exit %d, want %d; stdout %q", exit, c.exit, &stdout)
			}
			var problem struct{ Code, Message string }
			if err := json.Unmarshal(stderr.Bytes(), &problem); err != nil {
				t.Fatalf("stderr is not one JSON object: %v\n%s", err, &stderr)
			}
			if problem.Code != c.code || !strings.HasPrefix(problem.Message, c.message) {
				t.Errorf("code %q, message %q, want %q and %q", problem.Code, problem.Message, c.code, c.message)
			}
			if strings.Contains(stderr.String(), planted) {
				t.Errorf("stderr shows the password: %s", &stderr)
			}
		})
	}
}

// A paydb that takes the connection and never answers keeps no lock from being granted:
// the deadline of the whole command is not reached.
//
// Clauses: K-6.2, K-7.6
// Mutation: drop PayWithin from payHighest, or soon from lockOptions.
func TestBlackHoledPaydbHoldsUpNoGrant(t *testing.T) {
	t.Parallel()
	binary, lock := build(t), pgtest.Migrated(t, postgresVersion).Lock
	address, _ := blackHole(t)
	cmd := exec.CommandContext(t.Context(), binary, "acquire", "account:42", "--timeout", "20s", "-o", "name")
	cmd.Env = []string{
		"HOME=" + t.TempDir(), "DLOCKCTL_LOCK_DSN=" + lock.DSN(login), "DLOCKCTL_PAY_DSN=postgres://me:" + planted + "@" + address + "/paydb",
	}
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil || stdout.Len() == 0 {
		t.Errorf("%v; stdout %q, stderr %q", err, &stdout, &stderr)
	}
	if said := stderr.String(); !strings.HasPrefix(said, "warning: the tokens of paydb are not known") || strings.Contains(said, planted) {
		t.Errorf("stderr: %q", said)
	}
}

// What is released says what it is made of.
func TestReleasedVersion(t *testing.T) {
	t.Parallel()
	out, err := exec.CommandContext(t.Context(), build(t), "version", "-o", "json").Output()
	if err != nil {
		t.Fatal(err)
	}
	var version struct {
		Version string
		Go      string
		Modules []struct{ Path, Version string }
	}
	if err := json.Unmarshal(out, &version); err != nil {
		t.Fatal(err)
	}
	var pgx string
	for _, m := range version.Modules {
		if m.Path == "github.com/jackc/pgx/v5" {
			pgx = m.Version
		}
	}
	if version.Version == "" || !strings.HasPrefix(version.Go, "go1.") || pgx == "" {
		t.Errorf("version %q, Go %q, pgx %q: none may be empty", version.Version, version.Go, pgx)
	}
}

// build makes the program as a user does.
func build(t *testing.T) string {
	t.Helper()
	binary := filepath.Join(t.TempDir(), program)
	out, err := exec.CommandContext(t.Context(), "go", "build", "-o", binary, "github.com/dlockctl/dlockctl/cmd/dlockctl").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return binary
}

// blackHole listens, takes every connection and never says a word. The channel
// is closed when somebody has connected and sent something.
func blackHole(t *testing.T) (address string, connected <-chan struct{}) {
	t.Helper()
	var config net.ListenConfig
	listener, err := config.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	heard := make(chan struct{})
	go func() {
		var held []net.Conn
		for {
			conn, err := listener.Accept()
			if err != nil {
				break // the test has ended
			}
			if _, err := conn.Read(make([]byte, 1)); err == nil && len(held) == 0 {
				close(heard)
			}
			held = append(held, conn)
		}
		for _, conn := range held {
			_ = conn.Close() // the other side is gone
		}
	}()
	t.Cleanup(func() { _ = listener.Close() })
	return listener.Addr().String(), heard
}

// exitCode is the code with which a process ended.
func exitCode(t *testing.T, err error) int {
	t.Helper()
	if err == nil {
		return 0
	}
	exit, isExit := errors.AsType[*exec.ExitError](err)
	if !isExit {
		t.Fatal(err)
	}
	if exit.ExitCode() == -1 {
		t.Fatalf("it was killed: %v", exit)
	}
	return exit.ExitCode()
}

package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/dlockctl/dlockctl/internal/devenv/cluster"
)

// made is an instance of the tested PostgreSQL, not started.
func made(t *testing.T) cluster.Cluster {
	t.Helper()
	bin := os.Getenv("DLOCKCTL_TEST_PG15")
	if bin == "" {
		t.Fatal("DLOCKCTL_TEST_PG15 is not set; run `make test`")
	}
	account, err := cluster.ResolveAccount("")
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("/tmp", "cluster-*")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	if err := os.Chmod(dir, 0o711); err != nil {
		t.Fatal(err)
	}
	c := cluster.Cluster{Bin: bin, Dir: dir, Account: account}
	if err := c.Init(t.Context(), cluster.InitOptions{Superuser: "boss"}); err != nil {
		t.Fatal(err)
	}
	return c
}

func configure(t *testing.T, c cluster.Cluster, port int) {
	t.Helper()
	err := c.Configure(cluster.Config{
		Port: port, HBA: []string{"local all all trust"}, Settings: map[string]string{"cluster_name": "it's here", "fsync": "off"},
	})
	if err != nil {
		t.Fatal(err)
	}
}

func freePort(t *testing.T) int {
	t.Helper()
	port, err := cluster.FreePort(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// Mutation: leave the doubling of quotes out of Configure; write into the data folder.
func TestDaemonStartsAndStops(t *testing.T) {
	t.Parallel()
	c, port := made(t), freePort(t)
	configure(t, c, port)
	if _, running, err := c.Running(t.Context()); running || err != nil {
		t.Fatalf("Running before the start = %t, %v", running, err)
	}
	if err := c.StartDaemon(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := c.StopDaemon(context.WithoutCancel(t.Context()), cluster.Fast); err != nil {
			t.Error(err)
		}
		if _, running, err := c.Running(context.WithoutCancel(t.Context())); running || err != nil {
			t.Errorf("Running after the stop = %t, %v", running, err)
		}
	}()
	got, running, err := c.Running(t.Context())
	if err != nil || !running {
		t.Fatalf("Running after the start = %t, %v", running, err)
	}
	want := cluster.Postmaster{PID: got.PID, Data: c.Data(), Port: port, SocketDir: c.Run(), Ready: true}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("postmaster (-want +got):\n%s", diff)
	}
	conn, err := pgx.Connect(t.Context(), fmt.Sprintf("host=%s port=%d user=boss database=postgres", c.Run(), port))
	if err != nil {
		t.Fatal(err)
	}
	var name string
	err = conn.QueryRow(t.Context(), "SELECT current_setting('cluster_name')").Scan(&name)
	if err := errors.Join(err, conn.Close(t.Context())); err != nil || name != "it's here" {
		t.Errorf("cluster_name = %q, %v", name, err)
	}
}

// Mutation: drop "Address already in use" from explain.
func TestTakenPort(t *testing.T) {
	t.Parallel()
	c := made(t)
	var config net.ListenConfig
	port := freePort(t)
	squatter, err := config.Listen(t.Context(), "tcp4", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		t.Fatal(err)
	}
	defer squatter.Close()
	if cluster.PortFree(t.Context(), port) {
		t.Errorf("port %d counts as free", port)
	}
	configure(t, c, port)
	if _, err := c.StartChild(t.Context(), port); !errors.Is(err, cluster.ErrPortTaken) {
		t.Errorf("StartChild = %v, want ErrPortTaken", err)
	}
	if err := c.StartDaemon(t.Context()); !errors.Is(err, cluster.ErrPortTaken) {
		t.Errorf("StartDaemon = %v, want ErrPortTaken", err)
	}
}

// A start that is given up leaves no server behind.
//
// Mutation: return from awaitReady without Stop.
func TestAbandonedStart(t *testing.T) {
	t.Parallel()
	c, port := made(t), freePort(t)
	configure(t, c, port)
	cause := errors.New("the command's deadline")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(cause)
	if _, err := c.StartChild(ctx, port); !errors.Is(err, cause) {
		t.Errorf("StartChild = %v, want %v", err, cause)
	}
	commands, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range commands {
		if command, err := os.ReadFile(name); err == nil && strings.Contains(string(command), c.Dir) {
			t.Errorf("%s: %q is left of the abandoned start", name, command)
		}
	}
	child, err := c.StartChild(t.Context(), port)
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Stop(cluster.Fast); err != nil {
		t.Error(err)
	}
}

// pg_ctl hands names to a shell.
//
// Mutation: leave out checkPaths.
func TestFolderNamesThatPgctlMisreads(t *testing.T) {
	t.Parallel()
	for _, name := range []string{`a"b`, "a$(touch x)b", "a`b", `a\b`, "a\nb"} {
		c := cluster.Cluster{Bin: "/bin", Dir: filepath.Join(t.TempDir(), name)}
		if err := c.Init(t.Context(), cluster.InitOptions{}); err == nil || !strings.Contains(err.Error(), "use another folder") {
			t.Errorf("Init in %q = %v, want a refusal", name, err)
		}
	}
}

// Mutation: \S* to nothing in versionPattern.
func TestReadVersion(t *testing.T) {
	t.Parallel()
	for said, want := range map[string]cluster.Version{
		"postgres (PostgreSQL) 16.14":                              {Major: 16, Text: "16.14"},
		"postgres (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)":     {Major: 15, Text: "15.18"},
		"postgres (PostgreSQL) 19devel":                            {Major: 19, Text: "19devel"},
		"postgres (PostgreSQL) 9.6.24":                             {Major: 9, Text: "9.6.24"},
		"error while loading shared libraries: libssl.so: missing": {},
	} {
		dir := t.TempDir()
		for _, name := range []string{"initdb", "pg_ctl", "postgres"} {
			writeProgram(t, filepath.Join(dir, name), "#!/bin/sh\necho '"+said+"'\n")
		}
		got, err := cluster.ReadVersion(t.Context(), dir, cluster.Account{})
		if got != want || (err == nil) != (want.Major > 0) {
			t.Errorf("%q: %+v, %v; want %+v", said, got, err, want)
		}
	}
	if _, err := cluster.ReadVersion(t.Context(), t.TempDir(), cluster.Account{}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("an empty folder: %v, want fs.ErrNotExist", err)
	}
}

// writeProgram holds off every fork while the file is open for writing: a child would inherit the descriptor for a
// moment, and nobody can run a file that somebody may write ("text file busy").
func writeProgram(t *testing.T, path, text string) {
	t.Helper()
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
}

// Who the servers may run as.
//
// Mutation: drop the refusal of user id 0.
func TestAccount(t *testing.T) {
	t.Parallel()
	if _, err := cluster.ResolveAccount("no-such-user-here"); err == nil || !strings.Contains(err.Error(), "no-such-user-here") {
		t.Errorf("an unknown user: %v, want it named", err)
	}
	if _, err := cluster.ResolveAccount("root"); err == nil {
		t.Error("root is accepted")
	}
}

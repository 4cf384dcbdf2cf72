// Package cluster runs one PostgreSQL instance from a folder of binaries: make it, start it, stop it, as an
// unprivileged user when the caller is root. It knows nothing of lockdb and paydb; devenv and the tests build on it.
//
// Layout of an instance's folder:
//
//	postgresql.conf pg_hba.conf pg_ident.conf   written by the caller, read by the server, never the other way round
//	server.log                                  the server's standard error
//	data/                                       the server's: data folder
//	run/                                        the server's: its unix socket
//
// The caller, who may be root, writes nothing inside data and run: these belong to the unprivileged user, who could
// have put a symbolic link in the way.
package cluster

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"
)

// Cluster is one instance on disk.
type Cluster struct {
	Bin     string // folder with initdb, pg_ctl and postgres
	Dir     string // folder of the instance, see the package comment
	Account Account
}

// InitOptions are what initdb is told.
type InitOptions struct {
	Superuser string
	Sync      bool // wait for the disk
	Checksums bool
}

// Config is what the three configuration files say.
type Config struct {
	Port      int
	SocketDir string            // empty: the instance's run folder
	Settings  map[string]string // postgresql.conf, beyond where to listen
	HBA       []string          // lines of pg_hba.conf
	Ident     []string          // lines of pg_ident.conf
}

// Errors that Start and Init return, wrapped; test with errors.Is.
var (
	ErrPortTaken = errors.New("the port is taken by another process")
	ErrDiskFull  = errors.New("no space left on the disk")
)

// Data is the data folder.
func (c Cluster) Data() string { return filepath.Join(c.Dir, "data") }

// Run is the folder of the unix socket.
func (c Cluster) Run() string { return filepath.Join(c.Dir, "run") }

// LogFile is what the server's standard error goes to.
func (c Cluster) LogFile() string { return filepath.Join(c.Dir, "server.log") }

// Init makes the folders and runs initdb: UTF8, locale C, no password for the superuser, who can come in only where
// Configure lets them.
func (c Cluster) Init(ctx context.Context, opts InitOptions) error {
	if err := c.checkPaths(); err != nil {
		return err
	}
	for _, dir := range []string{c.Data(), c.Run()} {
		if err := c.mkdir(dir); err != nil {
			return err
		}
	}
	args := []string{
		"--pgdata=" + c.Data(), "--username=" + opts.Superuser, "--encoding=UTF8", "--locale=C",
		"--auth-local=peer", "--auth-host=reject", "--no-instructions",
	}
	if !opts.Sync {
		args = append(args, "--no-sync")
	}
	if opts.Checksums {
		args = append(args, "--data-checksums")
	}
	cmd := exec.CommandContext(ctx, filepath.Join(c.Bin, "initdb"), args...)
	c.Account.prepare(cmd)
	dieWithParent(cmd.SysProcAttr, syscall.SIGKILL)
	// The kernel sends that signal when the thread that forked ends, so it must not end before.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	out, err := cmd.CombinedOutput()
	if err != nil {
		return c.explain(ctx, "initdb", err, string(out))
	}
	return nil
}

// Configure writes the three configuration files. The server reads them at its next start.
func (c Cluster) Configure(cfg Config) error {
	socketDir := cfg.SocketDir
	if socketDir == "" {
		socketDir = c.Run()
	}
	settings := map[string]string{
		"data_directory":          c.Data(),
		"listen_addresses":        "127.0.0.1",
		"port":                    fmt.Sprint(cfg.Port),
		"unix_socket_directories": quoteListItem(socketDir),
	}
	maps.Copy(settings, cfg.Settings)
	var conf strings.Builder
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		fmt.Fprintf(&conf, "%s = '%s'\n", name, strings.ReplaceAll(settings[name], "'", "''"))
	}
	for name, text := range map[string]string{
		"postgresql.conf": conf.String(),
		"pg_hba.conf":     strings.Join(cfg.HBA, "\n") + "\n",
		"pg_ident.conf":   strings.Join(cfg.Ident, "\n") + "\n",
	} {
		// Readable by the server's user; no secret stands in them.
		if err := WriteFile(filepath.Join(c.Dir, name), []byte(text), 0o644); err != nil {
			return fmt.Errorf("configure PostgreSQL: %w", err)
		}
	}
	return nil
}

// TempPrefix begins the names of the files that WriteFile is about to rename. One is left when the process is killed.
const TempPrefix = ".dlockctl-new-"

// WriteFile replaces path as a whole: a reader sees the old or the new text, and a link in its place is not followed.
func WriteFile(path string, text []byte, mode fs.FileMode) error {
	f, err := os.CreateTemp(filepath.Dir(path), TempPrefix+"*")
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	err = errors.Join(err, f.Chmod(mode), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}

// mkdir makes a folder and gives it to the server's user.
func (c Cluster) mkdir(dir string) error {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return fmt.Errorf("make the server's folder: %w", err)
	}
	return c.Account.Own(dir)
}

// checkPaths refuses names that pg_ctl, which goes through a shell, would misread.
func (c Cluster) checkPaths() error {
	for _, path := range []string{c.Bin, c.Dir} {
		if !filepath.IsAbs(path) {
			return fmt.Errorf("folder %q must be an absolute path", path)
		}
		if i := strings.IndexAny(path, "\"$`\\\n"); i >= 0 {
			return fmt.Errorf("folder %q has a %q in its name, which PostgreSQL's pg_ctl cannot take; use another folder", path, path[i])
		}
	}
	return nil
}

// explain turns the output of a PostgreSQL program into an error that says what to do.
func (c Cluster) explain(ctx context.Context, program string, err error, out string) error {
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("run %s: %w", program, context.Cause(ctx))
	case strings.Contains(out, "No space left on device"):
		return fmt.Errorf("run %s in %s: %w; free some space or choose another state folder", program, c.Dir, ErrDiskFull)
	case strings.Contains(out, "Address already in use"):
		return fmt.Errorf("run %s: %w", program, ErrPortTaken)
	case strings.Contains(out, "Permission denied"), errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("run %s as %q: %w; that user must be able to enter %s and %s, and every folder above them: %s",
			program, c.Account.Name, fs.ErrPermission, c.Bin, c.Dir, lastLines(out, 3))
	}
	return fmt.Errorf("run %s: %w: %s", program, err, lastLines(out, 8))
}

func lastLines(text string, n int) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}

func quoteListItem(s string) string { return `"` + strings.ReplaceAll(s, `"`, `""`) + `"` }

// pollEvery is how often a start looks at postmaster.pid.
const pollEvery = 5 * time.Millisecond

package devenv

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/dlockctl/dlockctl/internal/devenv/cluster"
)

// targetMajor is the version preferred wherever there is a choice; minMajor the oldest that works.
const (
	targetMajor = 16
	minMajor    = 15
)

// binaries is a usable folder of PostgreSQL programs.
type binaries struct {
	dir     string
	version cluster.Version
}

// findBinaries looks where it is told, then on the machine, then downloads. A major other than 0 is that of data
// already there, which no other version can read.
func (e *Env) findBinaries(ctx context.Context, major int) (binaries, error) {
	told, source := e.opts.PGBin, "--pg-bin"
	if told == "" {
		told, source = e.opts.Env("DLOCKCTL_PG_BIN"), "DLOCKCTL_PG_BIN"
	}
	if told != "" {
		return e.toldBinaries(ctx, told, source, major)
	}
	best, seen := e.bestOnMachine(ctx, major)
	if best.dir != "" {
		return best, nil
	}
	if cause := context.Cause(ctx); cause != nil {
		// A search that was broken off has not found out that there is none.
		return binaries{}, fmt.Errorf("look for PostgreSQL: %w", cause)
	}
	if major != 0 && major != targetMajor {
		return binaries{}, fmt.Errorf("the data in %s was made by PostgreSQL %d, which is not on this machine%s; "+
			"install it, set --pg-bin, or start over with `dlockctl dev destroy`", e.dir, major, seen)
	}
	return e.fetchBinaries(ctx, seen)
}

func (e *Env) toldBinaries(ctx context.Context, told, source string, major int) (binaries, error) {
	dir, err := filepath.Abs(told)
	if err != nil {
		return binaries{}, setup("%s=%s: %w", source, told, err)
	}
	if _, err := os.Stat(filepath.Join(dir, "bin", "initdb")); err == nil {
		dir = filepath.Join(dir, "bin")
	}
	version, err := cluster.ReadVersion(ctx, dir, e.account)
	if err != nil {
		return binaries{}, setup("%s=%s: %w", source, told, err)
	}
	if version.Major < minMajor {
		return binaries{}, setup("%s=%s is PostgreSQL %s, which is too old: %d or newer is needed, %d is the target",
			source, told, version.Text, minMajor, targetMajor)
	}
	if major != 0 && version.Major != major {
		return binaries{}, setup("%s=%s is PostgreSQL %s, but the data in %s was made by %d; "+
			"name a PostgreSQL %d, or start over with `dlockctl dev destroy`", source, told, version.Text, e.dir, major, major)
	}
	return binaries{dir: dir, version: version}, nil
}

// bestOnMachine returns the target version, else the newest; with a major, that one only. Without any it returns, as
// the part of a sentence, what was seen and not taken.
func (e *Env) bestOnMachine(ctx context.Context, major int) (best binaries, seen string) {
	var rejected []string
	for _, dir := range e.candidates(ctx) {
		version, err := cluster.ReadVersion(ctx, dir, e.account)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			continue // a client-only installation
		case err != nil:
			rejected = append(rejected, err.Error())
		case version.Major < minMajor:
			rejected = append(rejected, fmt.Sprintf("%s in %s is too old, %d or newer is needed", version.Text, dir, minMajor))
		case major != 0 && version.Major != major:
			rejected = append(rejected, fmt.Sprintf("%s in %s", version.Text, dir))
		case better(version.Major, best.version.Major):
			best = binaries{dir: dir, version: version}
		}
	}
	if len(rejected) > 0 {
		seen = " (found " + strings.Join(rejected, "; ") + ")"
	}
	return best, seen
}

func better(major, than int) bool {
	if (major == targetMajor) != (than == targetMajor) {
		return major == targetMajor
	}
	return major > than
}

// candidates are the folders that may hold PostgreSQL, each once.
func (e *Env) candidates(ctx context.Context) []string {
	var dirs []string
	for _, dir := range filepath.SplitList(e.opts.Env("PATH")) {
		if !filepath.IsAbs(dir) {
			continue // never run what lies in the current folder
		}
		if program, err := filepath.EvalSymlinks(filepath.Join(dir, "pg_ctl")); err == nil {
			dirs = append(dirs, filepath.Dir(program))
		}
		if config := filepath.Join(dir, "pg_config"); isProgram(config) {
			if out, err := exec.CommandContext(ctx, config, "--bindir").Output(); err == nil {
				dirs = append(dirs, strings.TrimSpace(string(out)))
			}
		}
	}
	dirs = append(dirs, filepath.Join(e.dir, "pgsql", "bin")) // downloaded before
	for _, pattern := range []string{
		e.root + "/usr/lib/postgresql/*/bin", // Debian, Ubuntu, Alpine links
		e.root + "/usr/libexec/postgresql*",  // Alpine
		e.root + "/usr/pgsql-*/bin",          // Red Hat
		e.root + "/opt/homebrew/opt/postgresql@*/bin",
		e.root + "/usr/local/opt/postgresql@*/bin",
		e.root + "/Applications/Postgres.app/Contents/Versions/*/bin",
	} {
		found, err := filepath.Glob(pattern)
		if err == nil {
			dirs = append(dirs, found...)
		}
	}
	slices.Sort(dirs)
	return slices.Compact(dirs)
}

func isProgram(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o111 != 0
}

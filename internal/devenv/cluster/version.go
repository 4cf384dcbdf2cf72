package cluster

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// Version is what `postgres --version` says.
type Version struct {
	Major int
	Text  string // "15.18", "17beta1"
}

// programs are what a folder of binaries must hold; no client program is among them.
var programs = []string{"initdb", "pg_ctl", "postgres"}

var versionPattern = regexp.MustCompile(`\(PostgreSQL\) (\d+)(\S*)`)

// ReadVersion runs the server program in folder bin as account. The error says so when the account may not reach it.
func ReadVersion(ctx context.Context, bin string, account Account) (Version, error) {
	for _, program := range programs {
		if _, err := exec.LookPath(filepath.Join(bin, program)); err != nil {
			return Version{}, fmt.Errorf("look for %s in %s: %w", program, bin, errors.Unwrap(err))
		}
	}
	cmd := exec.CommandContext(ctx, filepath.Join(bin, "postgres"), "--version")
	account.prepare(cmd)
	out, err := cmd.Output()
	if errors.Is(err, fs.ErrPermission) {
		return Version{}, fmt.Errorf("user %q may not run %s: %w; "+
			"give the folder and every folder above it the right to enter (chmod o+x), or move it", account.Name, cmd.Path, fs.ErrPermission)
	}
	if err != nil {
		return Version{}, fmt.Errorf("ask %s for its version: %w", cmd.Path, err)
	}
	return parseVersion(string(out))
}

func parseVersion(out string) (Version, error) {
	m := versionPattern.FindStringSubmatch(out)
	if m == nil {
		return Version{}, fmt.Errorf("read a version from %q", strings.TrimSpace(out))
	}
	major, err := strconv.Atoi(m[1])
	if err != nil {
		return Version{}, fmt.Errorf("read a version from %q: %w", strings.TrimSpace(out), err)
	}
	return Version{Major: major, Text: m[1] + m[2]}, nil
}

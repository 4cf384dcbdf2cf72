package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"
)

// programs are built once, as they are released, and run as processes of their own.
type programs struct {
	dir   string
	built map[string]bool
}

// program is a package of a module's folder, and what it is called when built.
type program struct{ dir, pkg, name string }

func newPrograms(dir string) *programs { return &programs{dir: dir, built: map[string]bool{}} }

func (p *programs) path(name string) string { return filepath.Join(p.dir, name) }

func (p *programs) build(ctx context.Context, wanted ...program) error {
	for _, b := range wanted {
		if p.built[b.name] {
			continue
		}
		cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags", "-s -w", "-o", p.path(b.name), b.pkg)
		cmd.Dir, cmd.Env = b.dir, append(os.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("build %s: %w: %s", b.name, err, bytes.TrimSpace(out))
		}
		p.built[b.name] = true
	}
	return nil
}

// usage is what a process wrote and needed.
type usage struct {
	out       string
	wall, cpu time.Duration
	// peakMiB is its peak memory, where it was weighed.
	peakMiB float64
}

// weigh runs a program by way of peak, whose processor time is in the program's: it is
// about a millisecond.
func (p *programs) weigh(ctx context.Context, env []string, program string, args ...string) (used usage, err error) {
	read, write, err := os.Pipe()
	if err != nil {
		return usage{}, fmt.Errorf("weigh %s: %w", program, err)
	}
	defer func() { err = errors.Join(err, read.Close()) }()
	used, err = execute(ctx, env, write, p.path("peak"), append([]string{program}, args...)...)
	if err := errors.Join(err, write.Close()); err != nil {
		return usage{}, err
	}
	text, err := io.ReadAll(read)
	if err != nil {
		return usage{}, fmt.Errorf("weigh %s: %w", program, err)
	}
	peak, err := strconv.ParseInt(string(text), 10, 64)
	if err != nil {
		return usage{}, fmt.Errorf("weigh %s: %w", program, err)
	}
	used.peakMiB = float64(peak) / (1 << 20)
	return used, nil
}

// execute names the program alone in its errors: the arguments of dlockctl are
// harmless, the environment is not.
func execute(ctx context.Context, env []string, extra *os.File, program string, args ...string) (usage, error) {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Env = env
	var out, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &stderr
	if extra != nil {
		cmd.ExtraFiles = []*os.File{extra}
	}
	start := time.Now()
	if err := cmd.Run(); err != nil {
		return usage{}, fmt.Errorf("run %s: %w: %s", filepath.Base(program), err, bytes.TrimSpace(stderr.Bytes()))
	}
	state := cmd.ProcessState
	return usage{out: out.String(), wall: time.Since(start), cpu: state.UserTime() + state.SystemTime()}, nil
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

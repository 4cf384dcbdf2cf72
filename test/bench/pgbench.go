package main

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

//go:embed pgbench/batch64.sql
var batchScript string

// tools are the programs from outside that a sitting needs.
type tools struct {
	// pgBin is the folder of the server's programs.
	pgBin          string
	pgbench, psql  string
	pgbenchVersion string
}

// findTools looks before anything is started. What is missing is an error with
// its fix: a sitting without its references would say nothing.
func findTools(ctx context.Context) (tools, error) {
	t := tools{pgBin: os.Getenv("DLOCKCTL_TEST_PG16")}
	if t.pgBin == "" {
		return tools{}, errors.New("DLOCKCTL_TEST_PG16 is not set, so there is no PostgreSQL 16 to measure on; " +
			`run make bench, or: eval "$(test/postgres.sh)"`)
	}
	var err error
	if t.pgbench, err = findClient("pgbench"); err != nil {
		return tools{}, err
	}
	if t.psql, err = findClient("psql"); err != nil {
		return tools{}, err
	}
	version, err := exec.CommandContext(ctx, t.pgbench, "--version").Output()
	if err != nil {
		return tools{}, fmt.Errorf("run %s: %w", t.pgbench, err)
	}
	t.pgbenchVersion = strings.TrimSpace(string(version))
	return t, nil
}

// findClient finds a client program in the folder of PostgreSQL 15, which may be
// the machine's own, or on PATH.
func findClient(name string) (string, error) {
	if bin := os.Getenv("DLOCKCTL_TEST_PG15"); bin != "" {
		if path := filepath.Join(bin, name); isProgram(path) {
			return path, nil
		}
	}
	const fix = "install PostgreSQL's own packages of server and client (Debian: postgresql-15), or set DLOCKCTL_TEST_PG15 to the folder that holds it"
	path, err := exec.LookPath(name)
	if err != nil {
		return "", fmt.Errorf("there is no %s in $DLOCKCTL_TEST_PG15 or on PATH; %s", name, fix)
	}
	program, err := filepath.EvalSymlinks(path)
	if err != nil {
		return "", fmt.Errorf("look for %s: %w", name, err)
	}
	if filepath.Base(program) == "pg_wrapper" {
		return "", fmt.Errorf("%s is Debian's wrapper, whose own start would be measured too; %s", path, fix)
	}
	return program, nil
}

func isProgram(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o111 != 0
}

// script is a contender that pgbench runs; each of its transactions is so many
// pairs.
func (b *bench) script(id, title, text string, clients, pairs int) contender {
	return contender{
		series: []series{{id: id, title: title, unit: pairsPerSecond}},
		measure: func(ctx context.Context) ([]float64, error) {
			perSecond, _, err := b.runScript(ctx, id, text, clients)
			return []float64{perSecond * float64(pairs)}, err
		},
	}
}

// weighedScript is script, and what 1,000 pairs cost in processor time: of the whole
// run, for what pgbench uses is known when it has ended.
func (b *bench) weighedScript(id, title, text string, clients int) contender {
	return contender{
		series: []series{{id: id, title: title, unit: pairsPerSecond}, {id: id + cpuSuffix, title: cpuTitle, unit: "s"}},
		measure: func(ctx context.Context) ([]float64, error) {
			before, err := b.dbs.processorTime(ctx)
			if err != nil {
				return nil, err
			}
			perSecond, done, err := b.runScript(ctx, id, text, clients)
			if err != nil {
				return nil, err
			}
			after, err := b.dbs.processorTime(ctx)
			return []float64{perSecond, (after - before).Seconds() * 1000 / done}, err
		},
	}
}

// runScript returns the transactions of a second within the window, and all that were
// done.
func (b *bench) runScript(ctx context.Context, id, text string, clients int) (perSecond, done float64, err error) {
	path := filepath.Join(b.dir, id+".sql")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		return 0, 0, fmt.Errorf("write the script: %w", err)
	}
	env, err := b.dbs.libpq()
	if err != nil {
		return 0, 0, err
	}
	// It reports each second, so that the first can be left out as everybody's
	// warm-up is; the last one's report may come too late.
	window := int(b.window.Seconds())
	duration := int(warmUp.Seconds()) + window + 1
	cmd := exec.CommandContext(ctx, b.pgbench, "-n", "-M", "prepared", "-j", "2", "-c", strconv.Itoa(clients), "-P", "1", "-T", strconv.Itoa(duration),
		"-D", "owner_id="+owner, "-D", "session_id="+sessionID, "-D", "ttl_seconds="+seconds(), "-f", path)
	cmd.Env = append(os.Environ(), env...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return 0, 0, fmt.Errorf("run pgbench: %w: %s", err, bytes.TrimSpace(stderr.Bytes()))
	}
	if failed := failedLine.FindSubmatch(out); failed == nil || string(failed[1]) != "0" {
		return 0, 0, fmt.Errorf("pgbench does not say that no transaction failed:\n%s", out)
	}
	processed := processedLine.FindSubmatch(out)
	if processed == nil {
		return 0, 0, fmt.Errorf("pgbench does not say how many transactions it did:\n%s", out)
	}
	if done, err = strconv.ParseFloat(string(processed[1]), 64); err != nil {
		return 0, 0, fmt.Errorf("read pgbench's report: %w", err)
	}
	perSecond, err = readProgress(stderr.String(), int(warmUp.Seconds()), window)
	return perSecond, done, err
}

var (
	processedLine = regexp.MustCompile(`(?m)^number of transactions actually processed: ([0-9]+)`)
	failedLine    = regexp.MustCompile(`(?m)^number of failed transactions: ([0-9]+) `)
	progressLine  = regexp.MustCompile(`(?m)^progress: [0-9.]+ s, ([0-9.]+) tps, `)
)

// readProgress returns the mean of the window's reports, one a second, after
// those to be skipped.
func readProgress(text string, skip, window int) (float64, error) {
	reports := progressLine.FindAllStringSubmatch(text, -1)
	if len(reports) < skip+window {
		return 0, fmt.Errorf("pgbench reported %d times, not %d:\n%s", len(reports), skip+window, text)
	}
	var sum float64
	for _, report := range reports[skip : skip+window] {
		tps, err := strconv.ParseFloat(report[1], 64)
		if err != nil {
			return 0, fmt.Errorf("read pgbench's report: %w", err)
		}
		sum += tps
	}
	return sum / float64(window), nil
}

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/dlockctl/dlockctl/internal/reconcile"
)

const (
	// cancelLimit is how long a run of reconcile may take to end after Ctrl-C.
	cancelLimit = time.Second
	// interrupted is the exit code of a program that SIGINT ended.
	interrupted = 130
)

// cancelled measures how long the program takes to end after a Ctrl-C in the middle of
// its statements.
func (r *reconciling) cancelled(w *world) contender {
	return contender{
		series: []series{
			{"reconcile-cancel-limit-" + w.name, "the limit: a second", "ms", ""},
			{"reconcile-cancel-" + w.name, "reconcile on " + w.name + " legs: from Ctrl-C to its exit", "ms", "reconcile-cancel-limit-" + w.name},
		},
		measure: func(ctx context.Context) ([]float64, error) {
			if err := r.enter(ctx, w); err != nil {
				return nil, err
			}
			took, err := r.cancel(ctx, w)
			return []float64{milliseconds(cancelLimit), milliseconds(took)}, err
		},
	}
}

// cancel starts a run and interrupts it. It fails when the run does not say that it is
// incomplete.
func (r *reconciling) cancel(ctx context.Context, w *world) (took time.Duration, err error) {
	cmd := exec.CommandContext(ctx, r.programs.path("dlockctl"), "reconcile", "-o", "json")
	cmd.Env = []string{"HOME=" + r.programs.dir, "DLOCKCTL_PAY_DSN=" + w.payDSN, "DLOCKCTL_LOCK_DSN=" + w.lockDSN}
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	if err := cmd.Start(); err != nil {
		return 0, fmt.Errorf("start reconcile: %w", err)
	}
	if err := w.midway(ctx); err != nil {
		return 0, errors.Join(err, cmd.Process.Kill(), ignoreExit(cmd.Wait()))
	}
	sent := time.Now()
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		return 0, fmt.Errorf("interrupt reconcile: %w", err)
	}
	err = ignoreExit(cmd.Wait())
	took = time.Since(sent)
	if err != nil {
		return 0, err
	}
	var report reconcile.Report
	if err := json.Unmarshal(out.Bytes(), &report); err != nil {
		return 0, fmt.Errorf("read the report of an interrupted run: %w: %s", err, bytes.TrimSpace(said.Bytes()))
	}
	if exit := cmd.ProcessState.ExitCode(); exit != interrupted || report.Complete || report.Outcome != reconcile.Incomplete {
		return 0, fmt.Errorf("an interrupted run is %s, complete %t, and exits %d", report.Outcome, report.Complete, exit)
	}
	return took, nil
}

// ignoreExit leaves the exit code to the caller.
func ignoreExit(err error) error {
	if _, exited := errors.AsType[*exec.ExitError](err); exited {
		return nil
	}
	return err
}

// underWay is whether a statement of a run has gone on for a while.
const underWay = `SELECT EXISTS (SELECT FROM pg_stat_activity WHERE datname = $1 AND backend_type = 'client backend'
  AND state = 'active' AND clock_timestamp() - query_start > interval '100 ms')`

// midway waits until a run is in the middle of a statement.
func (w *world) midway(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	return w.dbs.asSuper(ctx, "paydb", "postgres", func(conn *pgx.Conn) error {
		for busy := false; !busy; {
			if err := conn.QueryRow(ctx, underWay, w.database()).Scan(&busy); err != nil {
				return fmt.Errorf("wait for a run to be under way: %w", err)
			}
		}
		return nil
	})
}

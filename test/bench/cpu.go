package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// spent is what the system says of a process.
type spent struct {
	parent int
	// own is the processor time it has used, reaped that of its children that have
	// ended.
	own, reaped time.Duration
}

// processUsage reads a process's.
func processUsage(pid int) (spent, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return spent{}, fmt.Errorf("read the time used by a process: %w", err)
	}
	// The name, in brackets, may hold anything.
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	var numbers [5]int64
	for n, i := range []int{1, 11, 12, 13, 14} { // ppid, utime, stime, cutime, cstime
		if numbers[n], err = strconv.ParseInt(fields[i], 10, 64); err != nil {
			return spent{}, fmt.Errorf("read the time used by process %d: %w", pid, err)
		}
	}
	const tick = time.Second / 100 // USER_HZ, on every Linux
	return spent{int(numbers[0]), time.Duration(numbers[1]+numbers[2]) * tick, time.Duration(numbers[3]+numbers[4]) * tick}, nil
}

// processorTime is what everybody has used together: this program with its children
// that have ended, the server of lockdb with all its processes, and the others given.
func (d *databases) processorTime(ctx context.Context, others ...int) (time.Duration, error) {
	var sum time.Duration
	for _, who := range []int{syscall.RUSAGE_SELF, syscall.RUSAGE_CHILDREN} {
		var used syscall.Rusage
		if err := syscall.Getrusage(who, &used); err != nil {
			return 0, fmt.Errorf("read the time used by this program: %w", err)
		}
		sum += time.Duration(used.Utime.Nano() + used.Stime.Nano())
	}
	for _, pid := range others {
		used, err := processUsage(pid)
		if err != nil {
			return 0, err
		}
		sum += used.own
	}
	postgres, err := d.serverTime(ctx)
	return sum + postgres, err
}

// serverTime is what the server of lockdb has used, its processes and those that have
// ended.
func (d *databases) serverTime(ctx context.Context) (time.Duration, error) {
	status, err := d.env.Status(ctx)
	if err != nil {
		return 0, err
	}
	var postmaster int
	for _, instance := range status.Instances {
		if instance.Name == "lockdb" {
			postmaster = instance.PID
		}
	}
	main, err := processUsage(postmaster)
	if err != nil {
		return 0, err
	}
	sum := main.own + main.reaped
	found, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return 0, fmt.Errorf("list the processes: %w", err)
	}
	for _, path := range found {
		pid, err := strconv.Atoi(filepath.Base(path))
		if err != nil {
			continue
		}
		used, err := processUsage(pid)
		if errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
			continue // it has ended since
		}
		if err != nil {
			return 0, err
		}
		if used.parent == postmaster {
			sum += used.own
		}
	}
	return sum, nil
}

// weighed runs load, and returns its rate and what 1,000 pairs cost everybody, in
// seconds of processor time.
func (d *databases) weighed(ctx context.Context, s subject, workers int, window time.Duration, others ...int) (perSecond, seconds float64, err error) {
	before, err := d.processorTime(ctx, others...)
	if err != nil {
		return 0, 0, err
	}
	start := time.Now()
	if perSecond, err = load(ctx, s, workers, window); err != nil {
		return 0, 0, err
	}
	pairs := perSecond * time.Since(start).Seconds()
	after, err := d.processorTime(ctx, others...)
	return perSecond, (after - before).Seconds() * 1000 / pairs, err
}

// cpuSuffix makes the id of a series of processor time from that of its rate.
const cpuSuffix = "-cpu"

const cpuTitle = "the same run: CPU time of everybody, 1,000 pairs"

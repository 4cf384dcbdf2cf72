// Command bench measures acquire and release against what else could be had, in
// one sitting on two PostgreSQL instances of its own: see docs/benchmarks.md.
// Run it by `make bench`.
package main

import (
	"context"
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
	"runtime/pprof"
	"syscall"
	"time"

	"github.com/dlockctl/dlockctl/test/bench/report"
)

//go:embed targets.json
var targetsFile []byte

// options are the flags.
type options struct {
	rounds  int
	seconds int
	pairs   int
	only    string
	json    string
	dir     string
	profile string
	check   bool
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out, progress io.Writer) error {
	opts, err := parse(args, progress)
	if err != nil {
		return err
	}
	targets, err := report.ReadTargets(targetsFile)
	if err != nil {
		return err
	}
	if opts.check {
		return check(out, targets, resultsDir)
	}
	only, err := regexp.Compile(opts.only)
	if err != nil {
		return fmt.Errorf("-only %q is no regular expression: %w", opts.only, err)
	}
	stopProfile, err := startProfile(opts.profile)
	if err != nil {
		return err
	}
	sitting, err := sit(ctx, opts, only, progress)
	if err := errors.Join(err, stopProfile()); err != nil {
		return err
	}
	if opts.json != "" {
		if err := sitting.Write(opts.json); err != nil {
			return err
		}
	}
	return report.WriteTable(out, sitting, targets)
}

func parse(args []string, usage io.Writer) (options, error) {
	var opts options
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(usage)
	flags.IntVar(&opts.rounds, "rounds", 5, "how often each rate is measured")
	flags.IntVar(&opts.seconds, "seconds", 3, "how long each rate is measured, in seconds, after one of warming up")
	flags.IntVar(&opts.pairs, "pairs", 50, "how often each whole process is run")
	flags.StringVar(&opts.only, "only", "", "measure only the series whose id matches this regular expression, and their references")
	flags.StringVar(&opts.json, "json", "", "write the result to this file too")
	flags.StringVar(&opts.dir, "dir", "", "make the databases in this folder, on the disk to be measured (default: the temporary folder)")
	flags.StringVar(&opts.profile, "cpuprofile", "", "write a CPU profile of this program to this file")
	flags.BoolVar(&opts.check, "check", false, "measure nothing; compare the newest result in "+resultsDir+" with the targets")
	if err := flags.Parse(args); err != nil {
		return options{}, err
	}
	switch {
	case flags.NArg() > 0:
		return options{}, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	case opts.rounds < 1 || opts.seconds < 1 || opts.pairs < 1:
		return options{}, fmt.Errorf("-rounds %d -seconds %d -pairs %d: give 1 or more", opts.rounds, opts.seconds, opts.pairs)
	}
	return opts, nil
}

// resultsDir is where `make bench` leaves its results, beside this file.
const resultsDir = "results"

// check says of each target whether the newest result of the folder meets it, and returns an
// error that names those it does not.
func check(out io.Writer, targets []report.Target, dir string) error {
	sitting, path, err := report.Newest(dir)
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintf(out, "%s, made %s\n", path, sitting.MadeAt.Format(time.RFC3339)); err != nil {
		return err
	}
	var missed []error
	for _, v := range report.Compare(sitting, targets) {
		line := fmt.Sprintf("met     %s: %.3f", v.Target, v.Ratio)
		if !v.Met {
			line = fmt.Sprintf("missed  %s: %s", v.Target, v.Reason)
			missed = append(missed, fmt.Errorf("missed %s: %s", v.Target, v.Reason))
		}
		if _, err := fmt.Fprintln(out, line); err != nil {
			return err
		}
	}
	return errors.Join(missed...)
}

// startProfile returns the function that ends the profile.
func startProfile(path string) (func() error, error) {
	if path == "" {
		return func() error { return nil }, nil
	}
	file, err := os.Create(path)
	if err != nil {
		return nil, fmt.Errorf("write the profile: %w", err)
	}
	if err := pprof.StartCPUProfile(file); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return func() error {
		pprof.StopCPUProfile()
		return file.Close()
	}, nil
}

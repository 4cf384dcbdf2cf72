package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/dlockctl/dlockctl/internal/pgtest"
)

// signalWithin bounds how long a script waits until a program may be signalled, and then
// for its end: far above what either takes on a busy machine.
const signalWithin = time.Minute

// goesOn is how long the program is left alone then: what it must not do shows.
const goesOn = 500 * time.Millisecond

// inPlace runs a program in the place of its shell, so that it has the process id that
// the shell notes, and writes to files that are read meanwhile.
const inPlace = `exec >"$1/stdout" 2>"$1/stderr"; echo $$ >"$1/pid"; shift; exec "$@"`

// newcomers are the sessions of whoever connects from now on: one of the program before
// may linger.
const newcomers = `CREATE TEMP VIEW newcomer AS
	SELECT * FROM pg_stat_activity WHERE datname = current_database()
	   AND backend_start > (SELECT backend_start FROM pg_stat_activity WHERE pid = pg_backend_pid())`

// runSignals signals a program once it has come as far as the script says, however long
// it takes to get there.
func runSignals(ts *testscript.TestScript, s *stage, args []string) {
	signal, known := map[string]os.Signal{"INT": os.Interrupt, "TERM": syscall.SIGTERM}[args[0]]
	if !known {
		ts.Fatalf("there is no signal %q; INT or TERM", args[0])
	}
	want, err := strconv.Atoi(args[1])
	ts.Check(err)
	folder := s.t.TempDir()
	when := cameAbout(ts, s, folder, args[2], args[3])

	ctx, ended := context.WithCancel(s.t.Context())
	signalled := make(chan error, 1)
	go func() { signalled <- signalOnce(ctx, folder, signal, when) }()
	err = ts.Exec("sh", append([]string{"-c", inPlace, "sh", folder}, args[4:]...)...)
	ended()
	problem := <-signalled
	s.exit = 0
	if exit, isExit := errors.AsType[*exec.ExitError](err); isExit {
		s.exit = exit.ExitCode()
	} else {
		ts.Check(err)
	}
	stdout, stderr := ts.ReadFile(filepath.Join(folder, "stdout")), ts.ReadFile(filepath.Join(folder, "stderr"))
	fmt.Fprint(ts.Stdout(), stdout)
	fmt.Fprint(ts.Stderr(), stderr)
	s.showNoSecret(ts, stdout+stderr)
	if problem != nil {
		ts.Fatalf("signal when %s %s: %v; exit %d", args[2], args[3], problem, s.exit)
	}
	if s.exit != want {
		ts.Fatalf("exit %d, want %d", s.exit, want)
	}
}

// cameAbout asks for what a script waits for.
func cameAbout(ts *testscript.TestScript, s *stage, folder, where, when string) func(context.Context) (bool, error) {
	switch where {
	case "stdout", "stderr":
		pattern, err := regexp.Compile("(?m)" + when)
		ts.Check(err)
		return func(context.Context) (bool, error) {
			output, err := os.ReadFile(filepath.Join(folder, where))
			return pattern.Match(output), err
		}
	case "lock", "pay":
		// The script's own connection may be in a transaction, in which pg_stat_activity
		// stands still.
		conn := map[string]pgtest.DB{"lock": s.dbs.Lock, "pay": s.dbs.Pay}[where].Conn(s.t, "super")
		_, err := conn.Exec(s.t.Context(), newcomers)
		ts.Check(err)
		return func(ctx context.Context) (is bool, err error) {
			err = conn.QueryRow(ctx, "SELECT "+when).Scan(&is)
			return is, err
		}
	default:
		ts.Fatalf("nobody waits for %q; stdout, stderr, lock or pay", where)
		return nil
	}
}

// noted is the process whose id the shell has written, nil until it has.
func noted(folder string) *os.Process {
	text, err := os.ReadFile(filepath.Join(folder, "pid"))
	if err != nil {
		return nil
	}
	id, whole := strings.CutSuffix(string(text), "\n")
	pid, err := strconv.Atoi(id)
	if !whole || err != nil {
		return nil
	}
	process, err := os.FindProcess(pid)
	if err != nil {
		return nil
	}
	return process
}

// signalOnce signals the program when the time has come, and kills it where that does not
// come, or where it does not end. It returns once ctx, which lasts as long as the program,
// is over.
func signalOnce(ctx context.Context, folder string, signal os.Signal, when func(context.Context) (bool, error)) error {
	limit, tick := time.NewTimer(signalWithin), time.NewTicker(20*time.Millisecond)
	defer limit.Stop()
	defer tick.Stop()
	var process *os.Process
	for sent := false; ; {
		if process == nil {
			process = noted(folder)
		}
		if process != nil && !sent {
			now, err := when(ctx)
			if now && err == nil {
				<-time.After(goesOn)
				err = process.Signal(signal)
				sent = err == nil
				limit.Reset(signalWithin)
			}
			if err != nil && ctx.Err() == nil {
				return errors.Join(err, process.Kill())
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			if !sent {
				return errors.New("it ended before")
			}
			return nil
		case <-limit.C:
			err := fmt.Errorf("it did not come about within %s", signalWithin)
			if sent {
				err = fmt.Errorf("the program did not end within %s", signalWithin)
			}
			if process != nil {
				err = errors.Join(err, process.Kill())
			}
			return err
		}
	}
}

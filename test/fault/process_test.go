//go:build unix

package fault_test

import (
	"bufio"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
)

// process is a worker that runs.
type process struct {
	*exec.Cmd
	in  io.Writer
	out *bufio.Scanner
}

// order is one for a worker on this world's stores.
func (w world) order(owner, payoutID string, lease time.Duration) order {
	return order{
		Owner: owner, LockDSN: w.dbs.Lock.DSN("t_lockapp"), MoneyDSN: w.dbs.Pay.DSN("t_resource"), ProxyDSN: w.dbs.Pay.DSN("t_rail"),
		RailURL: w.rail.URL, PayoutID: payoutID, AccountID: account, Lease: lease,
	}
}

func start(t *testing.T, o order) *process {
	t.Helper()
	text, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	p := &process{Cmd: exec.CommandContext(t.Context(), os.Args[0])}
	p.Env = append(os.Environ(), orderVariable+"="+string(text))
	p.Stderr = os.Stderr
	if p.in, err = p.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := p.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.out = bufio.NewScanner(out)
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	return p
}

// next is the worker's next report; false at its end.
func (p *process) next(t *testing.T) (r report, ok bool) {
	t.Helper()
	if !p.out.Scan() {
		return r, false
	}
	if err := json.Unmarshal(p.out.Bytes(), &r); err != nil {
		t.Fatalf("the worker says %s: %v", p.out.Text(), err)
	}
	return r, true
}

// pauses reads up to the step before which the worker waits.
func (p *process) pauses(t *testing.T) report {
	t.Helper()
	for {
		r, ok := p.next(t)
		switch {
		case !ok:
			t.Fatal("the worker ended before it paused")
		case r.Paused:
			return r
		case r.Error != "":
			t.Fatalf("%s: %s", r.Step, r.Error)
		}
	}
}

// rest reads to the end of the worker, by step.
func (p *process) rest(t *testing.T) map[step]report {
	t.Helper()
	reports := map[step]report{}
	for {
		r, ok := p.next(t)
		if !ok {
			break
		}
		reports[r.Step] = r
	}
	if err := p.Wait(); err != nil {
		t.Errorf("the worker: %v, after %+v", err, reports)
	}
	return reports
}

// stop stops the process, and returns when the system says that it stands still.
func (p *process) stop(t *testing.T) {
	t.Helper()
	p.signal(t, syscall.SIGSTOP)
	var status syscall.WaitStatus
	if _, err := syscall.Wait4(p.Process.Pid, &status, syscall.WUNTRACED, nil); err != nil || !status.Stopped() {
		t.Fatalf("the worker is %v, %v; want stopped", status, err)
	}
}

// goOn lets it run again, and tells it that its pause is over.
func (p *process) goOn(t *testing.T) {
	t.Helper()
	p.signal(t, syscall.SIGCONT)
	if _, err := io.WriteString(p.in, "go on\n"); err != nil {
		t.Fatal(err)
	}
}

// kill ends it as the system does that runs out of memory.
func (p *process) kill(t *testing.T) {
	t.Helper()
	p.signal(t, syscall.SIGKILL)
	_ = p.Wait()
}

func (p *process) signal(t *testing.T, signal syscall.Signal) {
	t.Helper()
	if err := p.Process.Signal(signal); err != nil {
		t.Fatal(err)
	}
}

// payout makes one of the account.
func (w world) payout(t *testing.T) (id, key string) {
	t.Helper()
	id = uuid.NewString()
	key = "key-" + id
	_, err := w.pay.Exec(t.Context(), `INSERT INTO payout (payout_id, account_id, amount_minor, currency, idempotency_key)
		VALUES ($1, $2, 4711, 'EUR', $3)`, id, account, key)
	if err != nil {
		t.Fatal(err)
	}
	return id, key
}

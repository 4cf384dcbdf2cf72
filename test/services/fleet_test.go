//go:build unix

package services_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/dlockctl/dlockctl/internal/devenv/cluster"
	"github.com/dlockctl/dlockctl/internal/pgtest"
	"github.com/dlockctl/dlockctl/internal/service/client"
	"github.com/dlockctl/dlockctl/internal/service/railsim"
)

const (
	executors = 3
	// lease is an executor's: what it lives through without renewing, and no longer.
	lease = 1500 * time.Millisecond
	// forwarding is rail-proxy's deadline.
	forwarding = time.Second
)

// fleet is every service as a process, on two databases of their own.
type fleet struct {
	binary, dir           string
	lockServer, payServer *pgtest.Single
	lock, pay             pgtest.DB

	sim, resource, proxy, locks *service
	workers                     []*service

	payments *client.Payments
}

// all are the services, those that others ask first.
func (f *fleet) all() []*service {
	return append([]*service{f.sim, f.resource, f.proxy, f.locks}, f.workers...)
}

// newFleet makes both databases and the services, and starts them but for the
// executors. settings are environment variables for all of them.
func newFleet(t *testing.T, settings map[string]string) *fleet {
	t.Helper()
	return newFleetOn(t, settings, nil)
}

// newFleetOn is newFleet with what lock-server is told instead of where lockdb is.
func newFleetOn(t *testing.T, settings, locks map[string]string) *fleet {
	t.Helper()
	f := &fleet{binary: program(t), dir: t.TempDir(), lockServer: pgtest.Crashable(t, 16), payServer: pgtest.Crashable(t, 16)}
	f.lock, f.pay = f.lockServer.EmptyDB(t), f.payServer.EmptyDB(t)
	f.configure(t)
	f.migrate(t)
	urls := map[string]string{}
	for _, name := range []string{"lock", "pay", "rail", "sim"} {
		urls[name] = "http://127.0.0.1:" + port(t)
	}
	common := map[string]string{
		"DLOCKCTL_SERVICES_LOCK_URL": urls["lock"], "DLOCKCTL_SERVICES_PAY_URL": urls["pay"], "DLOCKCTL_SERVICES_RAIL_URL": urls["rail"],
		"DLOCKCTL_RAIL_URL": urls["sim"], "DLOCKCTL_RAIL_DEADLINE": forwarding.String(), "DLOCKCTL_SERVE_DRAIN": "5s",
	}
	maps.Copy(common, settings)
	f.sim = f.newService(t, "rail-sim", urls["sim"], common, "--state", filepath.Join(f.dir, "rail.jsonl"))
	f.resource = f.newService(t, "payment-resource", urls["pay"], with(common, "DLOCKCTL_PAY_DSN", f.pay.DSN("t_resource")))
	f.proxy = f.newService(t, "rail-proxy", urls["rail"], with(common, "DLOCKCTL_RAIL_DSN", f.pay.DSN("t_rail")))
	place := with(common, "DLOCKCTL_LOCK_DSN", f.lock.DSN("t_lockapp"))
	if locks != nil {
		place = maps.Clone(common)
		maps.Copy(place, locks)
	}
	f.locks = f.newService(t, "lock-server", urls["lock"], place)
	for n := range executors {
		f.workers = append(f.workers, f.newService(t, "payout-executor", "http://127.0.0.1:"+port(t), common,
			"--owner", fmt.Sprintf("executor-%d", n+1), "--ttl", lease.String(), "--workers", "3", "--idle", "200ms"))
	}
	for _, s := range []*service{f.sim, f.resource, f.proxy, f.locks} {
		s.start(t, f.binary)
	}
	for _, s := range []*service{f.sim, f.resource, f.proxy, f.locks} {
		s.ready(t)
	}
	var err error
	if f.payments, err = client.NewPayments(client.Options{URL: urls["pay"]}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.payments.Close)
	return f
}

// given are the ports of all services of this process: nobody listens on one whose service
// is not running.
var given struct { //nolint:gochecknoglobals // as pgtest's servers are
	mu    sync.Mutex
	ports map[int]bool
}

// port is a port for a service, which no other has.
func port(t *testing.T) string {
	t.Helper()
	given.mu.Lock()
	defer given.mu.Unlock()
	for {
		p, err := cluster.FreePort(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if !given.ports[p] {
			if given.ports == nil {
				given.ports = map[int]bool{}
			}
			given.ports[p] = true
			return strconv.Itoa(p)
		}
	}
}

// configure writes a profile of the fleet's own: the default one is the embedded
// databases.
func (f *fleet) configure(t *testing.T) {
	t.Helper()
	dir := filepath.Join(f.dir, "dlockctl")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "config.yaml"), []byte("profile: fleet\nprofiles:\n  fleet:\n    output: table\n"), 0o600); err != nil {
		t.Fatal(err)
	}
}

func with(env map[string]string, name, value string) map[string]string {
	env = maps.Clone(env)
	env[name] = value
	return env
}

// newService makes a service that is not started; it ends with the test at the latest.
func (f *fleet) newService(t *testing.T, verb, url string, env map[string]string, flags ...string) *service {
	t.Helper()
	name := verb
	if len(flags) > 1 && flags[0] == "--owner" {
		name = flags[1]
	}
	log, err := os.Create(filepath.Join(f.dir, name+".log"))
	if err != nil {
		t.Fatal(err)
	}
	s := &service{
		name: name, url: url, log: log,
		args: append([]string{"serve", verb, "--listen", url[len("http://"):]}, flags...),
		env:  f.environment(env),
	}
	t.Cleanup(func() {
		if s.running() {
			s.kill(t)
		}
		if t.Failed() {
			t.Logf("%s:\n%s", s.name, s.tail())
		}
		_ = log.Close()
	})
	return s
}

// environment is all that a process of the program gets.
func (f *fleet) environment(settings map[string]string) []string {
	env := []string{"HOME=" + f.dir, "XDG_CONFIG_HOME=" + f.dir, "XDG_STATE_HOME=" + f.dir, "TMPDIR=" + f.dir, "PATH=" + os.Getenv("PATH"), "DLOCKCTL_OPERATOR=erin@ops"}
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		env = append(env, name+"="+settings[name])
	}
	return env
}

// run runs a verb to its end, and returns what it printed and its exit code.
func (f *fleet) run(ctx context.Context, login string, args ...string) (stdout, stderr string, exit int, err error) {
	cmd := exec.CommandContext(ctx, f.binary, args...)
	cmd.Env = f.environment(map[string]string{"DLOCKCTL_LOCK_DSN": f.lock.DSN(login), "DLOCKCTL_PAY_DSN": f.pay.DSN(login), "DLOCKCTL_SEED": "true"})
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	err = cmd.Run()
	if failed, ok := errors.AsType[*exec.ExitError](err); ok {
		return out.String(), errOut.String(), failed.ExitCode(), nil
	}
	return out.String(), errOut.String(), 0, err
}

func (f *fleet) migrate(t *testing.T) {
	t.Helper()
	out, errOut, exit, err := f.run(t.Context(), "t_owner", "migrate", "up", "--target", "all")
	if err != nil || exit != 0 {
		t.Fatalf("migrate: exit %d, %v\n%s%s", exit, err, out, errOut)
	}
}

// hire starts the executors.
func (f *fleet) hire(t *testing.T) {
	t.Helper()
	for _, w := range f.workers {
		w.start(t, f.binary)
	}
	for _, w := range f.workers {
		w.ready(t)
	}
}

// mood puts the rail into a mood.
func (f *fleet) mood(t *testing.T, mood railsim.Mood) {
	t.Helper()
	text, err := json.Marshal(mood)
	if err != nil {
		t.Fatal(err)
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPut, f.sim.url+railsim.PathSimMood, bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	if response.StatusCode != http.StatusOK {
		t.Fatalf("put the rail into the mood %s: %s", mood.Name, response.Status)
	}
	if err := response.Body.Close(); err != nil {
		t.Fatal(err)
	}
}

// paid is what the rail counts, by key.
func (f *fleet) paid(t *testing.T) map[string]railsim.Payment {
	t.Helper()
	payments := map[string]railsim.Payment{}
	const page = 1000
	for offset := 0; ; offset += page {
		list := f.pageOf(t, offset, page)
		for _, p := range list.Payments {
			payments[p.IdempotencyKey] = p
		}
		if len(list.Payments) < page {
			return payments
		}
	}
}

func (f *fleet) pageOf(t *testing.T, offset, limit int) (list railsim.PaymentList) {
	t.Helper()
	url := fmt.Sprintf("%s%s?offset=%d&limit=%d", f.sim.url, railsim.PathSimPayments, offset, limit)
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if err := json.NewDecoder(response.Body).Decode(&list); err != nil || response.StatusCode != http.StatusOK {
		t.Fatalf("list what reached the rail: %s, %v", response.Status, err)
	}
	return list
}

// conn is a superuser's connection to a database that is up.
func conn(t *testing.T, db pgtest.DB) *pgx.Conn {
	t.Helper()
	return db.Conn(t, "super")
}

package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/lockstore/postgres"
	"github.com/dlockctl/dlockctl/internal/pgtest"
	"github.com/dlockctl/dlockctl/internal/service/client"
	"github.com/dlockctl/dlockctl/internal/service/httpd"
	"github.com/dlockctl/dlockctl/internal/service/lockserver"
	"github.com/dlockctl/dlockctl/internal/telemetry"
)

// throughServer are the scripts of the verbs that --server sends through lock-server,
// each with the line at which it goes on as a login that may do less, "" for none: over
// HTTP it is the credential that may, not the login. Those of lists, watch, prune and
// reap wait for what lapses, which the server's reaper takes: they have scripts of
// their own in the folder throughserver.
func throughServer() map[string]string {
	return map[string]string{
		"acquire": "login t_auditor", "revoke": "login t_auditor", "session_create": "login t_auditor",
		"run":   "# A frozen lockdb grants nothing: 200; nobody there: 204.",
		"renew": "", "release": "", "lock_show": "", "session_heartbeat": "", "session_show": "", "session_end": "",
		"audit_list": "", "audit_show": "", "audit_export": "", "audit_verify": "", "token_explain": "",
	}
}

// The same scripts, through a lock-server on the same lockdb: the same output, the same
// exit codes. Nothing in them knows of it but the environment.
//
// Mutation: return &problem.Problem from client's call as it is, or leave Sent out of
// one of its values.
func TestScriptsThroughServer(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, end := range throughServer() {
		text, err := os.ReadFile(filepath.Join(scripts, name+".txtar"))
		if err != nil {
			t.Fatal(err)
		}
		archive := txtar.Parse(text)
		if end != "" {
			before, _, found := strings.Cut(string(archive.Comment), "\n"+end+"\n")
			if !found {
				t.Fatalf("%s.txtar has no line %q", name, end)
			}
			archive.Comment = []byte(before + "\n")
		}
		if err := os.WriteFile(filepath.Join(dir, name+".txtar"), txtar.Format(archive), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, dir := range []string{dir, "throughserver"} {
		p := params(t, dir)
		setup := p.Setup
		p.Setup = func(env *testscript.Env) error {
			if err := setup(env); err != nil {
				return err
			}
			s := env.Values[stageKey{}].(*stage)
			url, err := serveLocks(s.t, s.dbs.Lock)
			env.Setenv("DLOCKCTL_SERVER_URL", url)
			return err
		}
		testscript.Run(t, p)
	}
}

// serveLocks serves a lockdb until the test ends, under the login of the scripts: what
// that may not do, the server may not either. Its reaper leaves alone what a script lets
// lapse and looks at.
func serveLocks(t testing.TB, db pgtest.DB) (url string, err error) {
	t.Helper()
	log, metrics := slog.New(slog.DiscardHandler), telemetry.NewMetrics("lock-server")
	service, err := lockserver.New(lockserver.Options{Store: postgres.Options{Config: db.Config(t, login)}, NoPayments: true, ReapEvery: time.Hour, Log: log, Metrics: metrics})
	if err != nil {
		return "", err
	}
	frame, err := httpd.New(httpd.Options{Name: "lock-server", Listen: "127.0.0.1:0", Log: log, Metrics: metrics, Ready: service.Ready})
	if err != nil {
		return "", err
	}
	service.Register(frame.API())
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- service.Run(ctx, frame.Serve) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	url = fmt.Sprintf("http://%s", frame.Addr())
	locks, err := client.NewLocks(client.Options{URL: url})
	if err != nil {
		return "", err
	}
	defer locks.Close()
	pgtest.Eventually(t, "lock-server is there", func(ctx context.Context) (bool, error) {
		_, err := locks.Show(ctx, "nobody's")
		_, away := errors.AsType[*lockstore.UnreachableError](err)
		return !away, nil
	})
	return url, nil
}

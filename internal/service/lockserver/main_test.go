package lockserver_test

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/dlockctl/dlockctl/internal/etcdtest"
	"github.com/dlockctl/dlockctl/internal/leaktest"
	"github.com/dlockctl/dlockctl/internal/lockstore/postgres"
	"github.com/dlockctl/dlockctl/internal/pgtest"
	"github.com/dlockctl/dlockctl/internal/service/httpd"
	"github.com/dlockctl/dlockctl/internal/service/lockapi"
	"github.com/dlockctl/dlockctl/internal/service/lockserver"
	"github.com/dlockctl/dlockctl/internal/service/problem"
	"github.com/dlockctl/dlockctl/internal/telemetry"
)

func TestMain(m *testing.M) {
	etcdtest.Main(m, pgtest.Main)
	leaktest.Exit()
}

// server is a lock-server at work, and a client of it.
type server struct {
	url     string
	service *lockserver.Service
	client  *http.Client
	stop    func() error
}

// options are those of a lock-server without payments on a lockdb.
func options(config *pgx.ConnConfig) lockserver.Options {
	return lockserver.Options{
		Store: postgres.Options{Config: config, AllowSameInstance: true}, NoPayments: true,
		Log: slog.New(slog.DiscardHandler), Metrics: telemetry.NewMetrics("lock-server"),
	}
}

func serve(t *testing.T, opts lockserver.Options, keysFile string) *server {
	t.Helper()
	service, err := lockserver.New(opts)
	if err != nil {
		t.Fatal(err)
	}
	frame, err := httpd.New(httpd.Options{
		Name: "lock-server", Listen: "127.0.0.1:0", KeysFile: keysFile, Log: opts.Log, Metrics: opts.Metrics, Ready: service.Ready, Drain: time.Minute,
	})
	if err != nil {
		t.Fatal(err)
	}
	service.Register(frame.API())
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- service.Run(ctx, frame.Serve) }()
	transport := &http.Transport{MaxIdleConnsPerHost: 8}
	s := &server{url: "http://" + frame.Addr().String(), service: service, client: &http.Client{Transport: transport}}
	stopped := false
	s.stop = func() error {
		stop()
		if stopped {
			return nil
		}
		stopped = true
		return <-done
	}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		if err := s.stop(); err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	return s
}

// ready returns when the server grants.
func (s *server) ready(t *testing.T) *server {
	t.Helper()
	pgtest.Eventually(t, "the server is ready", func(ctx context.Context) (bool, error) {
		status, _ := s.health(ctx, t)
		return status == http.StatusOK, nil
	})
	return s
}

// health is what /readyz says.
func (s *server) health(ctx context.Context, t *testing.T) (status int, conditions map[string]httpd.Condition) {
	t.Helper()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url+"/readyz", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	response, err := s.client.Do(request)
	if err != nil {
		return 0, nil
	}
	defer response.Body.Close()
	var health httpd.Health
	if err := json.NewDecoder(response.Body).Decode(&health); err != nil {
		t.Fatal(err)
	}
	conditions = map[string]httpd.Condition{}
	for _, c := range health.Conditions {
		conditions[c.Name] = c
	}
	return response.StatusCode, conditions
}

// answer is what came back.
type answer struct {
	status int
	header http.Header
	body   []byte
}

func (a answer) problem() *problem.Problem { return problem.Read(a.status, a.header, a.body) }

// into reads the body, and wants the request to have succeeded.
func (a answer) into(t *testing.T, v any) {
	t.Helper()
	if a.status >= 300 {
		t.Fatalf("%d %s", a.status, a.body)
	}
	if err := json.Unmarshal(a.body, v); err != nil {
		t.Fatalf("%s: %v", a.body, err)
	}
}

// caller is somebody with a credential, or without.
type caller struct {
	*server

	key string
}

func (c caller) do(t *testing.T, method, path string, body any, headers ...string) answer {
	t.Helper()
	return c.doIn(t.Context(), t, method, path, body, headers...)
}

func (c caller) doIn(ctx context.Context, t *testing.T, method, path string, body any, headers ...string) answer {
	t.Helper()
	response, err := c.send(ctx, t, method, path, body, headers...)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer{response.StatusCode, response.Header, text}
}

func (c caller) send(ctx context.Context, t *testing.T, method, path string, body any, headers ...string) (*http.Response, error) {
	t.Helper()
	text := ""
	if body != nil {
		encoded, err := json.Marshal(body)
		if err != nil {
			t.Fatal(err)
		}
		text = string(encoded)
	}
	request, err := http.NewRequestWithContext(ctx, method, c.url+path, strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	if text != "" {
		request.Header.Set("Content-Type", "application/json")
	}
	if c.key != "" {
		request.Header.Set("Authorization", "Bearer "+c.key)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
	}
	return c.client.Do(request)
}

func (c caller) post(t *testing.T, path string, body any, headers ...string) answer {
	t.Helper()
	return c.do(t, http.MethodPost, path, body, headers...)
}

// insist posts until the store is there: on a busy machine an etcd that syncs its disk may
// not answer a look in time, and is away until the next one.
func (c caller) insist(t *testing.T, path string, body any, headers ...string) answer {
	t.Helper()
	var a answer
	pgtest.Eventually(t, path+" finds the store", func(ctx context.Context) (bool, error) {
		a = c.doIn(ctx, t, http.MethodPost, path, body, headers...)
		return a.status != http.StatusServiceUnavailable || a.problem().Code != problem.Unreachable, nil
	})
	return a
}

func (c caller) get(t *testing.T, path string) answer {
	t.Helper()
	return c.do(t, http.MethodGet, path, nil)
}

func (c caller) session(t *testing.T, owner string) lockapi.Session {
	t.Helper()
	var session lockapi.Session
	c.insist(t, "/v1/sessions", lockapi.CreateSessionRequest{Owner: owner, TTLMS: 3_600_000}).into(t, &session)
	return session
}

func (c caller) acquire(t *testing.T, key string, session lockapi.Session) lockapi.Grant {
	t.Helper()
	var grant lockapi.Grant
	c.insist(t, "/v1/locks/acquire", lockapi.AcquireRequest{Key: key, SessionID: session.SessionID, TTLMS: 60_000}).into(t, &grant)
	return grant
}

// waiters returns when so many wait.
func (c caller) waiters(t *testing.T, n string) {
	t.Helper()
	pgtest.Eventually(t, n+" wait", func(ctx context.Context) (bool, error) {
		return strings.Contains(string(c.doIn(ctx, t, http.MethodGet, "/metrics", nil).body), "dlockctl_waiters "+n), nil
	})
}

// keys writes a keys file of callers with all the scopes, and returns their keys.
func keys(t *testing.T, scopes map[string][]httpd.Scope) (file string, byName map[string]string) {
	t.Helper()
	byName = map[string]string{}
	var lines strings.Builder
	for name, scopes := range scopes {
		key, line, err := httpd.NewKey(name, scopes)
		if err != nil {
			t.Fatal(err)
		}
		byName[name] = key
		lines.WriteString(line + "\n")
	}
	file = filepath.Join(t.TempDir(), "keys")
	if err := os.WriteFile(file, []byte(lines.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return file, byName
}

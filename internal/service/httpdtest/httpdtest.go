// Package httpdtest starts a framed service in a test, and tries every one of its
// operations with credentials that must not do. It is for tests.
package httpdtest

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/danielgtaylor/huma/v2"

	"github.com/dlockctl/dlockctl/internal/service/httpd"
	"github.com/dlockctl/dlockctl/internal/service/problem"
	"github.com/dlockctl/dlockctl/internal/telemetry"
)

// Service is a running service.
type Service struct {
	URL     string
	Server  *httpd.Server
	Metrics *telemetry.Metrics
	Log     *Log
	// Stop begins to drain; Stopped is closed when Serve has returned.
	Stop    context.CancelFunc
	Stopped <-chan struct{}
}

// Start serves until the test ends. What opts leaves empty is filled: loopback,
// any port, a log and metrics of the test's own.
func Start(t testing.TB, opts httpd.Options, register func(huma.API)) *Service {
	t.Helper()
	log := &Log{}
	if opts.Log == nil {
		opts.Log = slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
	if opts.Metrics == nil {
		opts.Metrics = telemetry.NewMetrics("test")
	}
	if opts.Listen == "" {
		opts.Listen = "127.0.0.1:0"
	}
	server, err := httpd.New(opts)
	if err != nil {
		t.Fatal(err)
	}
	register(server.API())
	ctx, stop := context.WithCancel(t.Context())
	stopped := make(chan struct{})
	var served error
	go func() {
		defer close(stopped)
		served = server.Serve(ctx)
	}()
	t.Cleanup(func() {
		stop()
		<-stopped
		if served != nil {
			t.Errorf("serve: %v", served)
		}
	})
	scheme := "http://"
	if opts.TLS.CertFile != "" {
		scheme = "https://"
	}
	return &Service{URL: scheme + server.Addr().String(), Server: server, Metrics: opts.Metrics, Log: log, Stop: stop, Stopped: stopped}
}

// Keys writes a keys file with a caller for each scope, named after it, and
// returns its path and the keys.
func Keys(t testing.TB) (file string, keys map[httpd.Scope]string) {
	t.Helper()
	keys = map[httpd.Scope]string{}
	var lines strings.Builder
	for _, scope := range httpd.Scopes() {
		key, line, err := httpd.NewKey(string(scope), []httpd.Scope{scope})
		if err != nil {
			t.Fatal(err)
		}
		keys[scope] = key
		lines.WriteString(line + "\n")
	}
	file = filepath.Join(t.TempDir(), "keys")
	if err := os.WriteFile(file, []byte(lines.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return file, keys
}

// Answer is what came back.
type Answer struct {
	Status int
	Header http.Header
	Body   []byte
}

// Problem reads the answer as a problem; its code is "" where it is none.
func (a Answer) Problem() *problem.Problem {
	if a.Header.Get("Content-Type") != problem.ContentType {
		return &problem.Problem{}
	}
	return problem.Read(a.Status, a.Header, a.Body)
}

// Do sends a request: a body goes as JSON, a key as a bearer's.
func (s *Service) Do(t testing.TB, method, path, key, body string) Answer {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, s.URL+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if body != "" {
		request.Header.Set("Content-Type", "application/json")
	}
	if key != "" {
		request.Header.Set("Authorization", "Bearer "+key)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close() //nolint:errcheck // it was only read
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return Answer{response.StatusCode, response.Header, text}
}

// RefusesStrangers tries every operation that register adds without a credential,
// with one that is not known, and with each scope that is too small for it, and
// then sees that the scopes it names are let in (K-12.2). Operations are called
// with an empty body: one that changes something is expected to want more.
func RefusesStrangers(t *testing.T, register func(huma.API)) {
	t.Helper()
	file, keys := Keys(t)
	stranger, _, err := httpd.NewKey("stranger", httpd.Scopes())
	if err != nil {
		t.Fatal(err)
	}
	s := Start(t, httpd.Options{Name: "test", KeysFile: file}, register)
	tried := 0
	for path, item := range s.Server.API().OpenAPI().Paths {
		for _, op := range []*huma.Operation{item.Get, item.Put, item.Post, item.Delete, item.Patch} {
			if op == nil {
				continue
			}
			tried++
			for what, key := range map[string]string{"without a credential": "", "with a wrong one": stranger, "with half of one": keys[httpd.Operate][:20]} {
				if a := s.Do(t, op.Method, path, key, ""); a.Status != http.StatusUnauthorized || a.Problem().Code != problem.Unauthenticated {
					t.Errorf("%s %s %s: %d %s, want 401 %s", op.Method, path, what, a.Status, a.Body, problem.Unauthenticated)
				}
			}
			s.tryScopes(t, op, path, keys)
		}
	}
	if tried == 0 {
		t.Error("no operation was registered: nothing was tried")
	}
}

func (s *Service) tryScopes(t *testing.T, op *huma.Operation, path string, keys map[httpd.Scope]string) {
	t.Helper()
	allowed := httpd.ScopesOf(op)
	for scope, key := range keys {
		// A stream does not end by itself: its answer is not waited for.
		status, code := s.status(t, op.Method, path, key)
		denied := status == http.StatusUnauthorized || status == http.StatusForbidden
		switch may := slices.Contains(allowed, scope); {
		case may && denied:
			t.Errorf("%s %s refuses scope %s: %d %s", op.Method, path, scope, status, code)
		case !may && (status != http.StatusForbidden || code != problem.Forbidden):
			t.Errorf("%s %s with scope %s: %d %s, want 403", op.Method, path, scope, status, code)
		}
	}
}

// status sends a request and reads no more of its answer than it has to.
func (s *Service) status(t *testing.T, method, path, key string) (status int, code string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, s.URL+path, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+key)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close() //nolint:errcheck // it was only read
	if response.Header.Get("Content-Type") != problem.ContentType {
		return response.StatusCode, ""
	}
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, problem.Read(response.StatusCode, response.Header, text).Code
}

// Log keeps what a service logs.
type Log struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write keeps a line.
func (l *Log) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(line) //nolint:wrapcheck // it never fails
}

// String returns all lines.
func (l *Log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

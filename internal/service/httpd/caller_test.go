package httpd_test

import (
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/danielgtaylor/huma/v2"

	"github.com/dlockctl/dlockctl/internal/service/httpd"
	"github.com/dlockctl/dlockctl/internal/service/httpdtest"
	"github.com/dlockctl/dlockctl/internal/service/problem"
	"github.com/dlockctl/dlockctl/internal/telemetry"
)

// An address that others can reach needs callers who say who they are.
//
// Clauses: K-12.2
// Mutation: take the loopback check out of listen
func TestRefusesToListenOpenly(t *testing.T) {
	t.Parallel()
	keys, _ := httpdtest.Keys(t)
	for _, c := range []struct {
		opts httpd.Options
		want string
	}{
		{httpd.Options{Listen: "0.0.0.0:0"}, "--keys-file"},
		{httpd.Options{Listen: ":0"}, "--keys-file"},
		{httpd.Options{Listen: "[::]:0"}, "--keys-file"},
		{httpd.Options{Listen: "127.0.0.1:0"}, ""},
		{httpd.Options{Listen: "localhost:0"}, ""},
		{httpd.Options{Listen: "0.0.0.0:0", KeysFile: keys}, ""},
		{httpd.Options{Listen: "nowhere"}, "HOST:PORT"},
		{httpd.Options{Listen: "127.0.0.1:0", KeysFile: "/nowhere/keys"}, "keys file"},
		{httpd.Options{Listen: "127.0.0.1:0", TLS: httpd.TLSFiles{CertFile: "c"}}, "belong together"},
		{httpd.Options{Listen: "127.0.0.1:0", TLS: httpd.TLSFiles{ClientCAFile: "c"}}, "--tls-cert-file"},
	} {
		c.opts.Log, c.opts.Metrics = slog.New(slog.DiscardHandler), telemetry.NewMetrics("test")
		server, err := httpd.New(c.opts)
		if err == nil {
			server.Close()
		}
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("listen on %q: %v, want %q", c.opts.Listen, err, c.want)
		}
	}
}

// Clauses: K-12.2
// Mutation: let scoped call next for every caller, or authenticate return a Caller for an unknown key
func TestEveryOperationRefusesStrangers(t *testing.T) {
	t.Parallel()
	httpdtest.RefusesStrangers(t, newEcho().register)
}

// An operation that nobody gave a scope would be open to everyone with a key.
//
// Clauses: K-12.2
// Mutation: leave unscoped out of Serve
func TestOperationWithoutScope(t *testing.T) {
	t.Parallel()
	server, err := httpd.New(httpd.Options{Listen: "127.0.0.1:0", Log: slog.New(slog.DiscardHandler), Metrics: telemetry.NewMetrics("test")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Close() })
	huma.Get(server.API(), "/v1/bare", newEcho().bare)
	if err := server.Serve(t.Context()); err == nil || !strings.Contains(err.Error(), "GET /v1/bare") {
		t.Errorf("serve: %v, want it to name GET /v1/bare", err)
	}
}

// The frame's own paths: what a supervisor needs is open, figures are not.
//
// Mutation: leave the scope out of metrics, or a path into public
func TestFramePaths(t *testing.T) {
	t.Parallel()
	file, keys := httpdtest.Keys(t)
	_, s := start(t, httpd.Options{KeysFile: file})
	for path, want := range map[string]int{
		"/livez": 200, "/readyz": 200, "/openapi.json": 200, "/openapi.yaml": 200, "/metrics": 401, "/v1/nowhere": 401,
	} {
		if a := s.Do(t, http.MethodGet, path, "", ""); a.Status != want {
			t.Errorf("GET %s without a key: %d, want %d", path, a.Status, want)
		}
	}
	for scope, want := range map[httpd.Scope]int{httpd.Audit: 200, httpd.Acquire: 403, httpd.Pay: 403} {
		if a := s.Do(t, http.MethodGet, "/metrics", keys[scope], ""); a.Status != want {
			t.Errorf("GET /metrics with %s: %d, want %d", scope, a.Status, want)
		}
	}
	if a := s.Do(t, http.MethodPost, "/v1/echo", keys[httpd.Operate], `{"text":"x"}`); !strings.Contains(string(a.Body), `"caller":"operate"`) {
		t.Errorf("the operation sees the caller %s", a.Body)
	}
}

// A keys file says no word too many about what it cannot read: somebody may have
// put the key itself there.
//
// Mutation: put fields[2] into the error, or leave the mode unchecked
func TestKeysFile(t *testing.T) {
	t.Parallel()
	key, line, err := httpd.NewKey("worker-1", []httpd.Scope{httpd.Acquire, httpd.Pay})
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(line, key) || !strings.HasPrefix(line, "worker-1 acquire,pay sha256:") {
		t.Errorf("line %q", line)
	}
	for _, c := range []struct {
		text string
		mode os.FileMode
		want string
	}{
		{line, 0o600, ""},
		{"# a comment\n\n" + line + "\n" + line + "\n", 0o640, ""},
		{line, 0o622, "chmod go-w"},
		{"", 0o600, "no line"},
		{"worker-1 acquire", 0o600, "line 1 has 2 words"},
		{"# x\nworker-1 acquire " + key, 0o600, "line 2: the third word is no hash"},
		{strings.Replace(line, "pay", "rule", 1), 0o600, `scope "rule" is unknown`},
		{strings.Replace(line, "worker-1", "a/b", 1), 0o600, `caller name "a/b" is not possible`},
		{strings.TrimSuffix(line, line[len(line)-2:]), 0o600, "no hash"},
	} {
		file := filepath.Join(t.TempDir(), "keys")
		if err := os.WriteFile(file, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(file, c.mode); err != nil {
			t.Fatal(err)
		}
		server, err := httpd.New(httpd.Options{Listen: "127.0.0.1:0", KeysFile: file, Log: slog.New(slog.DiscardHandler), Metrics: telemetry.NewMetrics("test")})
		if err == nil {
			server.Close()
		}
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v, want %q", c.text, err, c.want)
		}
		if err != nil && strings.Contains(err.Error(), key) {
			t.Errorf("the error shows the key: %v", err)
		}
	}
	for _, bad := range []string{"", "a b", "a/b", strings.Repeat("n", 65)} {
		if _, _, err := httpd.NewKey(bad, []httpd.Scope{httpd.Audit}); err == nil {
			t.Errorf("a key for %q", bad)
		}
	}
	if _, _, err := httpd.NewKey("x", nil); err == nil {
		t.Error("a key without a scope")
	}
}

// A page in a browser can reach loopback too. It is told nothing.
//
// Mutation: leave sameSite out of admit, or its look at the host
func TestRefusesBrowsers(t *testing.T) {
	t.Parallel()
	_, s := start(t, httpd.Options{})
	for _, c := range []struct {
		name, value string
		want        int
	}{
		{"X-Nothing", "x", 200},
		{"Origin", "https://evil.example", 403},
		{"Sec-Fetch-Site", "cross-site", 403},
		{"Host", "rebound.example", 421},
		{"Host", "localhost:7420", 200},
		{"Host", "[::1]:7420", 200},
	} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL+"/v1/echo", strings.NewReader(`{"text":"x"}`))
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set(c.name, c.value)
		if c.name == "Host" {
			request.Host = c.value
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if response.StatusCode != c.want {
			t.Errorf("%s: %s: %d, want %d", c.name, c.value, response.StatusCode, c.want)
		}
	}
}

// Mutation: count all callers in one limiter, or answer without Retry-After
func TestRateLimit(t *testing.T) {
	t.Parallel()
	file, keys := httpdtest.Keys(t)
	_, s := start(t, httpd.Options{KeysFile: file, Limits: httpd.Limits{Rate: 1, Burst: 3}})
	var limited httpdtest.Answer
	for range 100 { // a slow machine may have to ask more often than the burst says
		if limited = s.Do(t, http.MethodGet, "/v1/look", keys[httpd.Audit], ""); limited.Status == http.StatusTooManyRequests {
			break
		}
	}
	if limited.Problem().Code != problem.RateLimited || limited.Header.Get("Retry-After") != "1" {
		t.Errorf("asked too often: %d %s, Retry-After %q", limited.Status, limited.Body, limited.Header.Get("Retry-After"))
	}
	if a := s.Do(t, http.MethodPost, "/v1/echo", keys[httpd.Acquire], `{"text":"x"}`); a.Status != http.StatusOK {
		t.Errorf("another caller: %d", a.Status)
	}
}

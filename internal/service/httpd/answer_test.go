package httpd_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dlockctl/dlockctl/internal/service/httpd"
	"github.com/dlockctl/dlockctl/internal/service/problem"
)

// Every no is a problem detail with a code, whoever says it: an operation, the
// library, the router, the frame.
//
// Mutation: leave say out of the transformers, or elsewhere out of the mux
func TestProblems(t *testing.T) {
	t.Parallel()
	_, s := start(t, httpd.Options{})
	for _, c := range []struct {
		method, path, body string
		status             int
		code               string
	}{
		{"GET", "/v1/look", "", 409, problem.Contended},
		{"GET", "/v1/look?kye=a", "", 422, problem.Usage},
		{"POST", "/v1/echo", "{}", 422, problem.Usage},
		{"POST", "/v1/echo", "{", 400, problem.Usage},
		{"POST", "/v1/echo", "", 400, problem.Usage},
		{"GET", "/v1/nowhere", "", 404, problem.Usage},
		{"GET", "/v1/echo", "", 405, problem.Usage},
		{"GET", "/v1/break", "", 500, problem.Unexpected},
		{"GET", "/v1/panic", "", 500, problem.Unexpected},
	} {
		a := s.Do(t, c.method, c.path, "", c.body)
		p := a.Problem()
		if a.Status != c.status || p.Code != c.code || p.Type != "urn:dlockctl:problem:"+c.code || p.Status != c.status {
			t.Errorf("%s %s: %d %s, want %d %s", c.method, c.path, a.Status, a.Body, c.status, c.code)
		}
		if want := "urn:dlockctl:request:" + a.Header.Get("X-Request-Id"); p.Instance != want {
			t.Errorf("%s %s: instance %q, want %q", c.method, c.path, p.Instance, want)
		}
	}
	a := s.Do(t, "GET", "/v1/look", "", "")
	if got := a.Header.Get("Retry-After"); got != "2" || string(a.Problem().Details) != `{"n":1}` {
		t.Errorf("Retry-After %q, details %s", got, a.Problem().Details)
	}
	if got := s.Do(t, "GET", "/v1/echo", "", "").Header.Get("Allow"); got != "POST" {
		t.Errorf("Allow %q", got)
	}
}

// What an error says is for the log; a value that was sent is for nobody.
//
// Mutation: put e.Errors into the problem of a 500, or detail.Value into a flaw
func TestProblemsKeepSecrets(t *testing.T) {
	t.Parallel()
	_, s := start(t, httpd.Options{})
	broken := s.Do(t, "GET", "/v1/break", "", "")
	if strings.Contains(string(broken.Body), "hunter2") || strings.Contains(string(broken.Body), "postgres") {
		t.Errorf("the caller reads %s", broken.Body)
	}
	if !strings.Contains(s.Log.String(), "dial postgres") {
		t.Error("the log does not hold the error")
	}
	invalid := s.Do(t, "POST", "/v1/echo", "", `{"text":"x","session_id":"sssh-a-long-secret"}`)
	if invalid.Status != 422 || strings.Contains(string(invalid.Body), "sssh") || !strings.Contains(string(invalid.Body), "body.session_id") {
		t.Errorf("%d %s", invalid.Status, invalid.Body)
	}
	if panicked := s.Do(t, "GET", "/v1/panic", "", ""); strings.Contains(string(panicked.Body), "head") {
		t.Errorf("the caller reads %s", panicked.Body)
	}
	if !strings.Contains(s.Log.String(), "lost my head") || !strings.Contains(s.Log.String(), "main_test.go") {
		t.Error("the log does not say what panicked, and where")
	}
}

// A panic half-way through an answer breaks the connection: what came may not be
// taken for the whole.
//
// Mutation: return true at the end of recovered
func TestPanicHalfway(t *testing.T) {
	t.Parallel()
	_, s := start(t, httpd.Options{})
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL+"/v1/half", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return // cut off before the first byte arrived: seen, too
	}
	defer response.Body.Close()
	var sink strings.Builder
	if err := response.Write(&sink); err == nil {
		t.Errorf("half an answer was read to its end: %d bytes", sink.Len())
	}
}

// The log names the request, and none of its secrets.
//
// Mutation: log r.URL.String(), or the Authorization header
func TestRequestLog(t *testing.T) {
	t.Parallel()
	_, s := start(t, httpd.Options{})
	for _, path := range []string{"/v1/look?key=account:42", "/v1/echo"} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL+path, http.NoBody)
		if path == "/v1/echo" {
			request, err = http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL+path, strings.NewReader(`{"text":"x","session_id":"s3cret"}`))
		}
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Authorization", "Bearer dlk_password")
		request.Header.Set("X-Fencing-Token", "4711")
		request.Header.Set("X-Request-Id", "from-the-caller")
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
	}
	eventually(t, "both requests are logged", func() bool { return strings.Count(s.Log.String(), "msg=request") == 2 })
	log := s.Log.String()
	for _, want := range []string{"request_id=from-the-caller", "path=/v1/look", "status=409", "code=contended", "token=4711", "duration_ms=", "path=/v1/echo", "status=200"} {
		if !strings.Contains(log, want) {
			t.Errorf("no %s in %s", want, log)
		}
	}
	for _, secret := range []string{"dlk_password", "s3cret", "account:42"} {
		if strings.Contains(log, secret) {
			t.Errorf("%s is logged: %s", secret, log)
		}
	}
}

// Mutation: leave headers out of serve
func TestSecurityHeaders(t *testing.T) {
	t.Parallel()
	_, s := start(t, httpd.Options{})
	want := map[string]string{
		"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff",
		"Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'", "Cross-Origin-Resource-Policy": "same-origin",
	}
	for _, path := range []string{"/v1/look", "/v1/nowhere", "/livez", "/openapi.json"} {
		a := s.Do(t, "GET", path, "", "")
		got := map[string]string{}
		for name := range want {
			got[name] = a.Header.Get(name)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", path, diff)
		}
	}
}

// Mutation: leave the label's operation at "none", or Handler without the registry
func TestMetrics(t *testing.T) {
	t.Parallel()
	_, s := start(t, httpd.Options{})
	s.Do(t, "GET", "/v1/look", "", "")
	s.Do(t, "GET", "/readyz", "", "")
	for _, want := range []string{
		`dlockctl_request_duration_seconds_count{operation="get-v1-look",service="test",status="409"} 1`,
		"dlockctl_requests_in_flight 1", "dlockctl_connections ", "dlockctl_ready 1", "go_goroutines", "process_open_fds",
	} {
		// What a request counts, it may count after its answer.
		eventually(t, want+" is in /metrics", func() bool {
			return strings.Contains(string(s.Do(t, "GET", "/metrics", "", "").Body), want)
		})
	}
}

// The document is OpenAPI 3.1, names the problem as the form of every error and
// the scope of every operation.
//
// Mutation: leave RegisterTypeAlias out, or the note out of Require
func TestDocument(t *testing.T) {
	t.Parallel()
	_, s := start(t, httpd.Options{})
	a := s.Do(t, "GET", "/openapi.json", "", "")
	var doc struct {
		OpenAPI    string
		Paths      map[string]map[string]map[string]any
		Components struct{ Schemas map[string]any }
	}
	if err := json.Unmarshal(a.Body, &doc); err != nil {
		t.Fatal(err)
	}
	echo := doc.Paths["/v1/echo"]["post"]
	if doc.OpenAPI != "3.1.0" || !strings.Contains(echo["description"].(string), "Scope: acquire or operate.") {
		t.Errorf("version %s, echo %v", doc.OpenAPI, echo)
	}
	if _, found := doc.Components.Schemas["Problem"]; !found || strings.Contains(string(a.Body), "ErrorModel") {
		t.Errorf("the errors of the document are not problems: %s", a.Body)
	}
	if text := string(s.Do(t, "GET", "/openapi.yaml", "", "").Body); !strings.HasPrefix(text, "components:") {
		t.Errorf("YAML begins %.40q", text)
	}
}

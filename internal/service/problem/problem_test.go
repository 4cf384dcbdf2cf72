package problem_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dlockctl/dlockctl/internal/service/problem"
)

// What is written is read back as it was: code, details, and when to ask again.
//
// Mutation: leave GetHeaders out of Write, or RetryAfter out of Read
func TestRoundTrip(t *testing.T) {
	t.Parallel()
	sent := problem.Newf(http.StatusConflict, problem.Contended, "held by %s", "w").WithHint("wait").
		WithDetails(map[string]int64{"remaining_ms": 1500}).WithRetryAfter(1500 * time.Millisecond)
	w := httptest.NewRecorder()
	if err := sent.Write(w); err != nil {
		t.Fatal(err)
	}
	if got := w.Header().Get("Content-Type"); got != problem.ContentType || w.Code != http.StatusConflict {
		t.Errorf("%d %s", w.Code, got)
	}
	want := *sent
	want.RetryAfter = 2 * time.Second // whole seconds, never too early
	if diff := cmp.Diff(&want, problem.Read(w.Code, w.Header(), w.Body.Bytes())); diff != "" {
		t.Error(diff)
	}
}

// What is no problem is not taken for one, and keeps its status.
//
// Mutation: return the decoded value whatever it is
func TestReadsWhatIsNone(t *testing.T) {
	t.Parallel()
	for _, body := range []string{"", "<html>502</html>", "{}", `{"code":""}`, `[1]`} {
		p := problem.Read(http.StatusBadGateway, http.Header{"Retry-After": {"soon"}}, []byte(body))
		if p.Code != problem.Unexpected || p.Status != http.StatusBadGateway || p.RetryAfter != 0 {
			t.Errorf("%q: %+v", body, p)
		}
	}
}

// A problem is found in an error that wraps it, and speaks for itself.
//
// Mutation: compare the error itself in From
func TestFrom(t *testing.T) {
	t.Parallel()
	p := problem.New(http.StatusGone, "x", "")
	found, ok := problem.From(fmt.Errorf("ask: %w", p))
	if !ok || found != p || p.Error() != "Gone" {
		t.Errorf("%v %v %q", found, ok, p.Error())
	}
	if _, ok := problem.From(errors.New("none")); ok {
		t.Error("found a problem in an error that has none")
	}
}

// The two words that differ from the command line's.
//
// Mutation: take an alias out
func TestCommandLine(t *testing.T) {
	t.Parallel()
	for code, want := range map[string]string{problem.Contended: "held", problem.Fenced: "fenced_out", problem.NotFound: "not_found"} {
		if got := problem.CommandLine(code); got != want {
			t.Errorf("%s is %s on the command line, want %s", code, got, want)
		}
	}
}

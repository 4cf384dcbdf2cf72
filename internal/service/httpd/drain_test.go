package httpd_test

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dlockctl/dlockctl/internal/service/httpd"
	"github.com/dlockctl/dlockctl/internal/service/problem"
)

// asked sends a wait in the background and returns what will be answered.
func asked(t *testing.T, url, text string) <-chan string {
	t.Helper()
	answer := make(chan string, 1)
	go func() {
		client := &http.Client{Transport: &http.Transport{}}
		defer client.CloseIdleConnections()
		response, err := post(t, client, url+"/v1/wait", `{"text":"`+text+`"}`)
		if err != nil {
			answer <- "error: " + err.Error()
			return
		}
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		if err != nil {
			answer <- "error: " + err.Error()
			return
		}
		answer <- string(body)
	}()
	return answer
}

// A service that stops answers what is in flight, tells who waits, ends streams,
// and takes nobody new.
//
// Clauses: K-12.2
// Mutation: leave close(s.drain) out of Serve, or give requests the context that ends the service
func TestDrain(t *testing.T) {
	t.Parallel()
	echo, s := start(t, httpd.Options{})
	stream, err := get(t, &http.Client{Transport: &http.Transport{}}, s.URL+"/v1/events")
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Body.Close()
	<-echo.entered
	waiting, working := asked(t, s.URL, "polite"), asked(t, s.URL, "stubborn")
	<-echo.entered
	<-echo.entered

	s.Stop()
	if got := <-waiting; !strings.Contains(got, problem.Draining) {
		t.Errorf("who waits is told %s", got)
	}
	lines := bufio.NewReader(stream.Body)
	for line, err := "", error(nil); err == nil; line, err = lines.ReadString('\n') {
		_ = line
	}
	eventually(t, "new connections are refused", func() bool {
		conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", s.Server.Addr().String())
		if err == nil {
			conn.Close()
		}
		return err != nil
	})
	select {
	case <-s.Stopped:
		t.Fatal("the service stopped before what was in flight had its answer")
	default:
	}
	if health := s.Server.Health(t.Context()); health.Ready {
		t.Errorf("ready while draining: %+v", health)
	}
	echo.release <- struct{}{}
	if got := <-working; !strings.Contains(got, "released") {
		t.Errorf("what was in flight is answered %s", got)
	}
	<-s.Stopped
}

// What has not ended when the time is over is cut off, and logged.
//
// Mutation: drain without a timeout, or leave cutOff out of Serve
func TestDrainEnds(t *testing.T) {
	t.Parallel()
	echo, s := start(t, httpd.Options{Drain: 50 * time.Millisecond})
	working := asked(t, s.URL, "stubborn")
	<-echo.entered
	s.Stop()
	if got := <-working; strings.Contains(got, "released") {
		t.Errorf("cut off, and answered %s", got)
	}
	<-s.Stopped
	if !strings.Contains(s.Log.String(), "cut off") {
		t.Errorf("no word of it: %s", s.Log)
	}
}

// /readyz tells the truth, whoever asks; /livez is about the process alone.
//
// Mutation: answer 200 whatever fails, or 503 for a warning
func TestReadiness(t *testing.T) {
	t.Parallel()
	var state atomic.Value
	state.Store(httpd.Good)
	asked := atomic.Int64{}
	_, s := start(t, httpd.Options{Ready: func(context.Context) []httpd.Condition {
		asked.Add(1)
		now := state.Load().(httpd.State)
		return []httpd.Condition{{Name: "lockdb", State: now, Reason: "it is " + string(now)}}
	}})
	for _, c := range []struct {
		state  httpd.State
		status int
	}{{httpd.Good, 200}, {httpd.Warning, 200}, {httpd.Failed, 503}, {httpd.Good, 200}} {
		state.Store(c.state)
		want := `"state":"` + string(c.state) + `","reason":"it is ` + string(c.state) + `"`
		eventually(t, "readyz says "+want, func() bool {
			a := s.Do(t, http.MethodGet, "/readyz", "", "")
			return a.Status == c.status && strings.Contains(string(a.Body), want)
		})
		if a := s.Do(t, http.MethodGet, "/livez", "", ""); a.Status != http.StatusOK {
			t.Errorf("livez while %s: %d", c.state, a.Status)
		}
	}
}

// Whoever scrapes the metrics is told how the service is now, though nobody asks
// /readyz: an alert goes by that.
//
// Mutation: leave gauged out of metrics
func TestMetricsAskHowItIs(t *testing.T) {
	t.Parallel()
	var state atomic.Value
	state.Store(httpd.Good)
	_, s := start(t, httpd.Options{Ready: func(context.Context) []httpd.Condition {
		return []httpd.Condition{{Name: "lockdb", State: state.Load().(httpd.State)}}
	}})
	for _, c := range []struct {
		state httpd.State
		want  string
	}{{httpd.Good, "dlockctl_ready 1\n"}, {httpd.Failed, "dlockctl_ready 0\n"}, {httpd.Good, "dlockctl_ready 1\n"}} {
		state.Store(c.state)
		eventually(t, "the metrics say "+c.want, func() bool {
			return strings.Contains(string(s.Do(t, http.MethodGet, "/metrics", "", "").Body), c.want)
		})
	}
}

// Nobody who may ask for free has the service ask its database each time.
//
// Mutation: leave readyFor out of conditions
func TestReadinessIsKept(t *testing.T) {
	t.Parallel()
	var asked atomic.Int64
	_, s := start(t, httpd.Options{Ready: func(context.Context) []httpd.Condition {
		asked.Add(1)
		return nil
	}})
	began := time.Now()
	for range 50 {
		s.Do(t, http.MethodGet, "/readyz", "", "")
	}
	if most := 2 + int64(time.Since(began)/(500*time.Millisecond)); asked.Load() > most {
		t.Errorf("asked %d times in %s, at most %d", asked.Load(), time.Since(began), most)
	}
}

// A service that panics when it is asked how it is goes on, and is not ready: where it
// panicked is for the log.
//
// Mutation: ask Ready without told
func TestReadinessThatPanics(t *testing.T) {
	t.Parallel()
	_, s := start(t, httpd.Options{Ready: func(context.Context) []httpd.Condition { panic("lost my head") }})
	a := s.Do(t, http.MethodGet, "/readyz", "", "")
	if want := `"name":"answer","state":"failed"`; a.Status != http.StatusServiceUnavailable || !strings.Contains(string(a.Body), want) || strings.Contains(string(a.Body), "head") {
		t.Errorf("readyz: %d %s", a.Status, a.Body)
	}
	for _, text := range []string{"lost my head", "drain_test.go", a.Header.Get("X-Request-Id")} {
		if !strings.Contains(s.Log.String(), text) {
			t.Errorf("the log does not say %q: %s", text, s.Log)
		}
	}
	if a := s.Do(t, http.MethodGet, "/livez", "", ""); a.Status != http.StatusOK {
		t.Errorf("livez: %d", a.Status)
	}
}

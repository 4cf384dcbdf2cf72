package httpd_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/dlockctl/dlockctl/internal/service/httpd"
	"github.com/dlockctl/dlockctl/internal/service/httpdtest"
	"github.com/dlockctl/dlockctl/internal/service/problem"
)

// dial opens a bare connection to the service.
func dial(t *testing.T, s *httpdtest.Service) net.Conn {
	t.Helper()
	var dialer net.Dialer
	conn, err := dialer.DialContext(t.Context(), "tcp", s.Server.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// ended reads a connection to its end, which must come.
func ended(t *testing.T, conn net.Conn) string {
	t.Helper()
	if err := conn.SetReadDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(conn)
	if isTimeout(err) {
		t.Fatalf("the service did not end the connection; it said %q", text)
	}
	return string(text)
}

func isTimeout(err error) bool {
	timeout, is := err.(net.Error) //nolint:errorlint // it comes bare from the connection
	return is && timeout.Timeout()
}

// A client that trickles its header, or its body, or does nothing, is hung up on.
//
// Clauses: K-12.2
// Mutation: leave ReadHeaderTimeout or IdleTimeout out of server, or SetReadDeadline out of serve
func TestSlowClients(t *testing.T) {
	t.Parallel()
	// Far more than a loaded machine takes to read a packet that is there.
	quick := httpd.Limits{ReadHeader: 2 * time.Second, ReadBody: 2 * time.Second, Idle: 2 * time.Second}
	file, _ := httpdtest.Keys(t)
	_, open := start(t, httpd.Options{Limits: quick})
	_, guarded := start(t, httpd.Options{Limits: quick, KeysFile: file})
	clients := []struct {
		what, sent, want string
		to               *httpdtest.Service
	}{
		{"nothing", "", "", open},
		{"half a header", "POST /v1/echo HTTP/1.1\r\nHost: localhost\r\nX-A: ", "", open},
		{"half a body", "POST /v1/echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 40\r\n\r\n{\"te", problem.TooSlow, open},
		{"half a chunked body", "POST /v1/echo HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n4\r\n{\"te", problem.TooSlow, open},
		{"half a body from a stranger", "POST /v1/echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 40\r\n\r\n{\"te", problem.Unauthenticated, guarded},
		{"one request and then nothing", "GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n", `"live":true`, open},
	}
	conns := make([]net.Conn, len(clients))
	for i, c := range clients { // all of them are slow at the same time
		conns[i] = dial(t, c.to)
		if _, err := conns[i].Write([]byte(c.sent)); err != nil {
			t.Fatal(err)
		}
	}
	for i, c := range clients {
		if got := ended(t, conns[i]); !strings.Contains(got, c.want) {
			t.Errorf("%s: the service said %q, want %s in it", c.what, got, c.want)
		}
	}
}

// A client that asks for much and takes none of it is hung up on, too.
//
// Mutation: leave SetWriteDeadline out of extend
func TestClientThatDoesNotRead(t *testing.T) {
	t.Parallel()
	_, s := start(t, httpd.Options{Limits: httpd.Limits{Write: 100 * time.Millisecond, BodyBytes: 90_000}})
	conn := dial(t, s)
	text := strings.Repeat("x", 80_000)
	request := fmt.Sprintf("POST /v1/echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n{\"text\":\"%s\"}", len(text)+11, text)
	if err := conn.SetWriteDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	for range 1000 {
		if _, err := conn.Write([]byte(request)); err != nil {
			if isTimeout(err) {
				t.Fatal("the service neither read on nor hung up")
			}
			return
		}
	}
	t.Fatal("eighty megabytes of answers went somewhere unread")
}

// Clauses: K-12.2
// Mutation: leave MaxBytesReader out of readBody, or its look at ContentLength
func TestLargeRequests(t *testing.T) {
	t.Parallel()
	_, s := start(t, httpd.Options{})
	large := strings.Repeat("x", 65<<10)
	if a := s.Do(t, http.MethodPost, "/v1/echo", "", `{"text":"`+large[:60<<10]+`"}`); a.Status != http.StatusOK {
		t.Errorf("60 KiB: %d %.200s", a.Status, a.Body)
	}
	for what, head := range map[string]string{
		"declared": "Content-Length: 67000\r\n\r\n", "chunked": "Transfer-Encoding: chunked\r\n\r\n10400\r\n",
	} {
		conn := dial(t, s)
		if _, err := conn.Write([]byte("POST /v1/echo HTTP/1.1\r\nHost: localhost\r\n" + head + large)); err != nil {
			t.Fatal(err)
		}
		response, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(response.Body)
		response.Body.Close()
		if err != nil || response.StatusCode != http.StatusRequestEntityTooLarge || !strings.Contains(string(body), problem.TooLarge) {
			t.Errorf("%s: %d %s %v", what, response.StatusCode, body, err)
		}
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL+"/v1/look", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("X-Large", large)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	if response.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("65 KiB of header: %d", response.StatusCode)
	}
}

// Mutation: leave the comparison with most out of Accept, or Dec out of Close
func TestTooManyConnections(t *testing.T) {
	t.Parallel()
	_, s := start(t, httpd.Options{Limits: httpd.Limits{Connections: 2}})
	ask := func(conn net.Conn) string {
		if _, err := conn.Write([]byte("GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n")); err != nil {
			return err.Error()
		}
		line, err := bufio.NewReader(conn).ReadString('\n')
		if err != nil {
			return err.Error()
		}
		return line
	}
	first, second := dial(t, s), dial(t, s)
	for _, conn := range []net.Conn{first, second} {
		if got := ask(conn); !strings.Contains(got, "200") {
			t.Fatalf("within the limit: %s", got)
		}
	}
	if got := ask(dial(t, s)); strings.Contains(got, "200") {
		t.Errorf("the third connection was answered: %s", got)
	}
	first.Close()
	eventually(t, "a place became free", func() bool { return strings.Contains(ask(dial(t, s)), "200") })
}

// None of the limits on a slow client counts while an operation waits, and a
// stream may be silent for longer than a client may take for a piece.
//
// Clauses: K-2.8
// Mutation: leave BodyReadTimeout out of Require, or the cleared deadline out of Flush
func TestWaitsOutlastTheLimits(t *testing.T) {
	t.Parallel()
	certs := newAuthority(t).issue(t, "localhost")
	// Far more than a loaded machine takes for a request of one packet, and less
	// than the wait below.
	quick := httpd.Limits{ReadBody: 2 * time.Second, Write: 2 * time.Second}
	for _, files := range []httpd.TLSFiles{{}, certs.files} {
		t.Run("tls="+fmt.Sprint(files.CertFile != ""), func(t *testing.T) {
			t.Parallel()
			echo, s := start(t, httpd.Options{Limits: quick, TLS: files})
			client := certs.client(t)
			answer := make(chan string, 1)
			go func() {
				response, err := post(t, client, s.URL+"/v1/wait", `{"text":"x"}`)
				if err != nil {
					answer <- err.Error()
					return
				}
				defer response.Body.Close()
				text, err := io.ReadAll(response.Body)
				answer <- fmt.Sprint(response.Proto, response.StatusCode, string(text), err)
			}()
			for path, item := range s.Server.API().OpenAPI().Paths {
				if item.Post != nil && item.Post.BodyReadTimeout >= 0 {
					t.Errorf("%s: the library cuts a wait off after %s", path, item.Post.BodyReadTimeout)
				}
			}
			echo.letGo(t, answer, 2500*time.Millisecond)
			if got := <-answer; !strings.Contains(got, "released") {
				t.Errorf("a wait: %s", got)
			}
			// With a body that the operation has no use for: its deadline must not stay.
			stream, err := send(t, client, http.MethodGet, s.URL+"/v1/events", "{}")
			if err != nil {
				t.Fatal(err)
			}
			defer stream.Body.Close()
			lines := bufio.NewReader(stream.Body)
			for n := 1; n < 3; n++ {
				if line := nextEvent(t, lines); line != fmt.Sprintf("data: {\"n\":%d}\n", n) {
					t.Fatalf("event %d over %s: %q", n, stream.Proto, line)
				}
				if n == 1 {
					// Longer than the five seconds that the library gives an event.
					echo.letGo(t, nil, 5500*time.Millisecond)
				}
			}
		})
	}
}

// letGo waits for an operation to begin, lets a time pass that is longer than the
// limits, which is what is tested, and releases it. An operation that ended before is no longer
// there to be released: its answer says why.
func (s *echoService) letGo(t *testing.T, answer chan string, after time.Duration) {
	t.Helper()
	select {
	case <-s.entered:
	case early := <-answer:
		t.Fatalf("the operation did not begin: %s", early)
	}
	<-time.After(after)
	select {
	case s.release <- struct{}{}:
	case early := <-answer:
		t.Fatalf("the operation did not wait: %s", early)
	case <-time.After(patience):
		t.Fatal("the stream has ended")
	}
}

// nextEvent returns the next line with data.
func nextEvent(t *testing.T, lines *bufio.Reader) string {
	t.Helper()
	for {
		line, err := lines.ReadString('\n')
		if err != nil || strings.HasPrefix(line, "data:") {
			return line
		}
	}
}

func post(t *testing.T, client *http.Client, url, body string) (*http.Response, error) {
	t.Helper()
	return send(t, client, http.MethodPost, url, body)
}

func send(t *testing.T, client *http.Client, method, url, body string) (*http.Response, error) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	return client.Do(request)
}

func get(t *testing.T, client *http.Client, url string) (*http.Response, error) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		return nil, err
	}
	return client.Do(request)
}

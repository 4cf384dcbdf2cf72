package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"strconv"

	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/service/lockapi"
)

// wire is one keep-alive connection to lock-server. It says no more than HTTP/1.1
// needs, since what the client costs is taken from the server: both stand on one
// machine, as pgbench and its server do.
type wire struct {
	conn    net.Conn
	answers *bufio.Reader
	request bytes.Buffer
	host    string
}

func dial(ctx context.Context, address string) (*wire, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("connect to lock-server: %w", err)
	}
	return &wire{conn: conn, answers: bufio.NewReader(conn), host: address}, nil
}

func (w *wire) close() { _ = w.conn.Close() } // nothing is under way on it

// post sends a request and reads its answer into out, which may be nil.
func (w *wire) post(path string, token lockstore.Token, in, out any) error {
	body, err := json.Marshal(in)
	if err != nil {
		return err
	}
	w.request.Reset()
	fmt.Fprintf(&w.request, "POST %s HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n", path, w.host, len(body))
	if token > 0 {
		fmt.Fprintf(&w.request, "%s: %s\r\n", lockapi.TokenHeader, token)
	}
	w.request.WriteString("\r\n")
	w.request.Write(body)
	if _, err := w.conn.Write(w.request.Bytes()); err != nil {
		return fmt.Errorf("post %s: %w", path, err)
	}
	status, answer, err := w.read()
	if err != nil {
		return fmt.Errorf("read the answer to %s: %w", path, err)
	}
	if status >= 300 {
		return fmt.Errorf("post %s: status %d: %s", path, status, answer)
	}
	if out == nil {
		return nil
	}
	return json.Unmarshal(answer, out)
}

func (w *wire) read() (status int, body []byte, err error) {
	line, err := w.answers.ReadSlice('\n')
	if err != nil {
		return 0, nil, err //nolint:wrapcheck // post says what
	}
	if len(line) < 12 {
		return 0, nil, fmt.Errorf("a status line %q", line)
	}
	if status, err = strconv.Atoi(string(line[9:12])); err != nil {
		return 0, nil, fmt.Errorf("a status line %q", line)
	}
	length := -1
	for {
		line, err := w.answers.ReadSlice('\n')
		if err != nil {
			return 0, nil, err //nolint:wrapcheck // post says what
		}
		if len(line) <= 2 {
			break
		}
		if name, value, ok := bytes.Cut(line, []byte(": ")); ok && bytes.EqualFold(name, []byte("Content-Length")) {
			if length, err = strconv.Atoi(string(bytes.TrimSpace(value))); err != nil {
				return 0, nil, fmt.Errorf("a header %q", line)
			}
		}
	}
	if length < 0 {
		return 0, nil, fmt.Errorf("an answer without a length, status %d", status)
	}
	body = make([]byte, length)
	_, err = io.ReadFull(w.answers, body)
	return status, body, err //nolint:wrapcheck // post says what
}

// session opens one of the connection's own.
func (w *wire) session() (string, error) {
	var session lockapi.Session
	err := w.post("/v1/sessions", 0, lockapi.CreateSessionRequest{Owner: owner, TTLMS: 3_600_000}, &session)
	return session.SessionID, err
}

func (w *wire) acquire(key, session string, waitMS int64) (lockstore.Token, error) {
	var grant lockapi.Grant
	err := w.post("/v1/locks/acquire", 0, lockapi.AcquireRequest{Key: key, SessionID: session, TTLMS: ttl.Milliseconds(), WaitMS: waitMS}, &grant)
	return grant.Token.Token, err
}

func (w *wire) release(key, session string, token lockstore.Token) error {
	var release lockapi.Release
	err := w.post("/v1/locks/release", token, lockapi.ReleaseRequest{Key: key, SessionID: session}, &release)
	if err == nil && release.Stale {
		err = fmt.Errorf("release of %s: stale", key)
	}
	return err
}

package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/service/problem"
)

const (
	// tries is how often a safe request is sent, the first included.
	tries = 3
	// mostAnswer bounds what is read of an answer.
	mostAnswer = 64 << 20
	// longestRetryAfter is the longest advice to wait that is followed here; a longer
	// one is the caller's to decide.
	longestRetryAfter = time.Second
)

// errNoCause stands where a request failed and nobody said why.
var errNoCause = errors.New("the connection was lost")

// lostError is a request without an answer.
type lostError struct {
	// sent tells that the service may have received it.
	sent bool
	err  error
}

func (e *lostError) Error() string { return e.err.Error() }

func (e *lostError) Unwrap() error { return e.err }

// request is one call of a service.
type request struct {
	method, path string
	query        url.Values
	header       http.Header
	// in is the body, nil for none; out is what a 2xx answer is read into, nil for
	// nothing.
	in, out any
	// safe tells that it may be sent again although it may have arrived.
	safe bool
	// wait is how long the service may take by the caller's own wish.
	wait time.Duration
	// sending, when set, is called before each try leaves.
	sending func()
}

// conn speaks to one service.
type conn struct {
	base    *url.URL
	keyFile string
	timeout time.Duration
	http    *http.Client
	circuit *circuit
}

// do sends a request, again where that is safe, and returns *lostError, or the
// *problem.Problem that the service answered with. The status is that of a 2xx.
func (c *conn) do(ctx context.Context, r request) (status int, err error) {
	var body []byte
	if r.in != nil {
		if body, err = json.Marshal(r.in); err != nil {
			return 0, fmt.Errorf("encode a request: %w", err)
		}
	}
	pauses := &backoff.ExponentialBackOff{InitialInterval: 20 * time.Millisecond, RandomizationFactor: 0.5, Multiplier: 4, MaxInterval: time.Second}
	arrived := false // a try whose answer was lost
	for sent := 1; ; sent++ {
		status, err = c.try(ctx, r, body)
		if err == nil || sent == tries || !again(r, err) || lockstore.Pause(ctx, max(pauses.NextBackOff(), advice(err))) != nil {
			if arrived {
				err = unsettled(r, err)
			}
			return status, err
		}
		lost, ok := errors.AsType[*lostError](err)
		arrived = arrived || ok && lost.sent
	}
}

// unsettled is the error of a try that came after one whose answer was lost: that this
// one did nothing says nothing about that one (K-2.9).
func unsettled(r request, err error) error {
	if lost, ok := errors.AsType[*lostError](err); ok {
		return &lostError{true, lost.err}
	}
	if p, ok := problem.From(err); ok && r.method != http.MethodGet {
		switch p.Code {
		case problem.RateLimited, problem.Draining, problem.Unreachable:
			return &lostError{true, errors.New(p.Error())}
		}
	}
	return err
}

// again tells whether a request that failed may be sent once more.
func again(r request, err error) bool {
	if lost, ok := errors.AsType[*lostError](err); ok {
		return (r.safe || !lost.sent) && !errors.Is(err, errOpen)
	}
	p, ok := problem.From(err)
	if !ok {
		return false
	}
	switch p.Code {
	case problem.RateLimited: // nothing was done
		return p.RetryAfter <= longestRetryAfter
	case problem.Draining, problem.Unreachable:
		return r.safe && p.RetryAfter <= longestRetryAfter
	}
	return false
}

// advice is when the service says to ask again.
func advice(err error) time.Duration {
	if p, ok := problem.From(err); ok {
		return p.RetryAfter
	}
	return 0
}

// try sends a request once.
func (c *conn) try(ctx context.Context, r request, body []byte) (int, error) {
	if err := c.circuit.enter(time.Now()); err != nil {
		return 0, &lostError{err: err}
	}
	ctx, cancel := context.WithTimeoutCause(ctx, c.timeout+r.wait, errTooSlow)
	defer cancel()
	var sent atomic.Bool
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteHeaders: func() { sent.Store(true) }})
	req, err := c.request(ctx, r, body)
	if err != nil {
		return 0, err
	}
	if r.sending != nil {
		r.sending()
	}
	resp, err := c.http.Do(req)
	if err != nil {
		if context.Cause(ctx) == nil { // else it says nothing about the service
			c.circuit.left(time.Now(), sent.Load())
		}
		return 0, &lostError{sent.Load(), bare(ctx, err)}
	}
	defer func() { _ = resp.Body.Close() }()
	c.circuit.left(time.Now(), true)
	answer, err := io.ReadAll(io.LimitReader(resp.Body, mostAnswer+1))
	switch {
	case err != nil:
		return 0, &lostError{true, bare(ctx, err)}
	case len(answer) > mostAnswer:
		return 0, &lostError{true, fmt.Errorf("the answer is longer than %d bytes", mostAnswer)}
	case resp.StatusCode < 200 || resp.StatusCode > 299:
		return 0, refusal(resp, answer)
	case r.out == nil:
		return resp.StatusCode, nil
	}
	if err := json.Unmarshal(answer, r.out); err != nil {
		return 0, &lostError{true, errors.New("the answer is not the JSON that was asked for")}
	}
	return resp.StatusCode, nil
}

// refusal is what an answer that is no 2xx means. One that no service wrote, a
// proxy's page, says nothing about what the service did.
func refusal(resp *http.Response, answer []byte) error {
	p := problem.Read(resp.StatusCode, resp.Header, answer)
	if p.Code == problem.Unexpected {
		// The problem itself is not wrapped: it is nobody's word.
		return &lostError{true, fmt.Errorf("it answered %d %s, and not as a service of dlockctl does", resp.StatusCode, http.StatusText(resp.StatusCode))}
	}
	return p
}

// errTooSlow is a request that the service did not answer in time.
var errTooSlow = errors.New("no answer in time")

// bare is a transport's error without the address, whose query may hold a lock key,
// and with the reason why its context ended.
func bare(ctx context.Context, err error) error {
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		err = wrapped.Err
	}
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	if err == nil || errors.Is(err, io.EOF) {
		return errNoCause
	}
	return err
}

func (c *conn) request(ctx context.Context, r request, body []byte) (*http.Request, error) {
	to := c.base.JoinPath(r.path)
	to.RawQuery = r.query.Encode()
	req, err := http.NewRequestWithContext(ctx, r.method, to.String(), bytes.NewReader(body))
	if err != nil {
		return nil, errors.New("the request cannot be made")
	}
	for name, values := range r.header {
		req.Header[http.CanonicalHeaderKey(name)] = values
	}
	req.Header.Set("Accept", "application/json")
	req.Header.Set("Cache-Control", "no-store")
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if c.keyFile != "" {
		key, err := readKey(c.keyFile)
		if err != nil {
			return nil, err
		}
		req.Header.Set("Authorization", "Bearer "+key)
	}
	return req, nil
}

// host names the service in messages.
func (c *conn) host() string { return c.base.Host }

package httprail

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/dlockctl/dlockctl/internal/paystore"
	"github.com/dlockctl/dlockctl/internal/paystore/rail"
)

const (
	dialTimeout = 5 * time.Second
	// statusTimeout bounds a status query whose caller sets no deadline.
	statusTimeout = 30 * time.Second
	// mostAnswer is the longest answer that is read, header and body each.
	mostAnswer = 64 << 10
	mostKey    = 4 << 10
)

// Options configure New.
type Options struct {
	// KeyFile is a file of one line, the API's key, sent as a bearer token. It is read
	// for each request, so that a new key needs no restart. Empty sends none.
	KeyFile string
	// TLS is for a private authority or a client's certificate; nil trusts the system's.
	TLS *tls.Config
}

// Client is a rail behind a URL.
type Client struct {
	payments *url.URL
	keyFile  string
	http     *http.Client
}

var _ rail.Rail = (*Client)(nil)

// New is a client of the rail at baseURL, such as https://rail.example/v1. Nothing is
// sent yet. It returns paystore.ErrInvalid for an address that is none or holds a
// secret, and for a key that would cross the network in the clear.
func New(baseURL string, opts Options) (*Client, error) {
	base, err := url.Parse(baseURL)
	if err != nil || base.Host == "" || (base.Scheme != "http" && base.Scheme != "https") {
		return nil, fmt.Errorf("%w: the rail's address is no URL such as https://rail.example/v1", paystore.ErrInvalid)
	}
	switch {
	case base.User != nil:
		return nil, fmt.Errorf("%w: the address of the rail at %s holds a user or a password; put the key into a file", paystore.ErrInvalid, base.Host)
	case base.RawQuery != "" || base.Fragment != "":
		return nil, fmt.Errorf("%w: the address of the rail at %s has a query or a fragment; leave it out", paystore.ErrInvalid, base.Host)
	case opts.KeyFile != "" && base.Scheme == "http" && !loopback(base.Hostname()):
		return nil, fmt.Errorf("%w: the API's key would reach the rail at %s in the clear; use https", paystore.ErrInvalid, base.Host)
	}
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	return &Client{
		payments: base.JoinPath("payments"),
		keyFile:  opts.KeyFile,
		http: &http.Client{
			Transport: &http.Transport{
				DialContext: dial, TLSClientConfig: opts.TLS.Clone(), TLSHandshakeTimeout: dialTimeout, Protocols: protocols,
				// A connection belongs to one payment and its deadline; see guarded.
				DisableKeepAlives: true,
				// A small answer cannot unfold into a large one.
				DisableCompression: true, MaxResponseHeaderBytes: mostAnswer,
			},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}, nil
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// Host is the rail's host and port, for messages.
func (c *Client) Host() string { return c.payments.Host }

// Error is what came back instead of an answer. What the rail did is unknown.
type Error struct {
	Host string
	// Status is the HTTP status, 0 when there was none.
	Status int
	Err    error
}

func (e *Error) Error() string { return fmt.Sprintf("the rail at %s: %v", e.Host, e.Err) }

func (e *Error) Unwrap() error { return e.Err }

// request is the body of a payment.
type request struct {
	rail.Request

	AmountMinorStr string `json:"amount_minor_str"`
	// NotAfter keeps a payment that the rail had received and not read when it said
	// NOT_FOUND from being paid after all.
	NotAfter time.Time `json:"not_after"`
}

// Submit asks for a payment. Errors are *Error.
func (c *Client) Submit(ctx context.Context, req rail.Request) (rail.Answer, error) {
	if req.Left() <= 0 {
		return rail.Answer{}, &Error{Host: c.Host(), Err: errTooLate}
	}
	body, err := json.Marshal(request{req, req.AmountMinor.String(), req.SendBy.UTC().Truncate(time.Millisecond)})
	if err != nil {
		return rail.Answer{}, &Error{Host: c.Host(), Err: fmt.Errorf("encode the payment: %w", err)}
	}
	said, err := c.exchange(withDeadline(ctx, req.Left), http.MethodPost, c.payments, body, req.Key)
	if err == nil && said.Outcome == rail.NotFound {
		return rail.Answer{}, &Error{Host: c.Host(), Status: http.StatusOK, Err: errors.New("it answered NOT_FOUND to a payment")}
	}
	return said, err
}

// Status asks what the rail knows of a key. Errors are *Error.
func (c *Client) Status(ctx context.Context, key string) (rail.Answer, error) {
	ctx, cancel := context.WithTimeout(ctx, statusTimeout)
	defer cancel()
	about := *c.payments
	about.RawQuery = url.Values{"idempotency_key": {key}}.Encode()
	return c.exchange(ctx, http.MethodGet, &about, nil, key)
}

func (c *Client) exchange(ctx context.Context, method string, to *url.URL, body []byte, key string) (rail.Answer, error) {
	req, err := http.NewRequestWithContext(ctx, method, to.String(), bytes.NewReader(body))
	if err != nil {
		return rail.Answer{}, &Error{Host: c.Host(), Err: errors.New("the request cannot be made")}
	}
	req.GetBody = nil // nobody sends it again
	req.Header.Set("Accept", "application/json")
	// A remembered "no such payment" would let a payment out twice.
	req.Header.Set("Cache-Control", "no-store")
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if err := c.sign(req); err != nil {
		return rail.Answer{}, &Error{Host: c.Host(), Err: err}
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return rail.Answer{}, &Error{Host: c.Host(), Err: bare(err)}
	}
	defer resp.Body.Close() //nolint:errcheck // it was only read
	said, err := decode(resp, key)
	if err != nil {
		return rail.Answer{}, &Error{Host: c.Host(), Status: resp.StatusCode, Err: err}
	}
	return said, nil
}

// bare takes the URL out of an error of net/http: the host is named once.
func bare(err error) error {
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		return wrapped.Err
	}
	return err
}

// sign adds the API's key.
func (c *Client) sign(req *http.Request) error {
	if c.keyFile == "" {
		return nil
	}
	f, err := os.Open(c.keyFile)
	if err != nil {
		return fmt.Errorf("read the API's key: %w", err)
	}
	defer f.Close() //nolint:errcheck // it was only read
	text, err := io.ReadAll(io.LimitReader(f, mostKey))
	if err != nil {
		return fmt.Errorf("read the API's key: %w", err)
	}
	key := strings.TrimSpace(string(text))
	if key == "" || strings.ContainsFunc(key, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return fmt.Errorf("the file %s is not one line of plain characters: the API's key", c.keyFile)
	}
	req.Header.Set("Authorization", "Bearer "+key)
	return nil
}

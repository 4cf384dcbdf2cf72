package httprail_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dlockctl/dlockctl/internal/leaktest"
	"github.com/dlockctl/dlockctl/internal/paystore"
	"github.com/dlockctl/dlockctl/internal/paystore/rail"
	"github.com/dlockctl/dlockctl/internal/paystore/rail/httprail"
)

func TestMain(m *testing.M) {
	m.Run()
	leaktest.Exit()
}

const secret = "hunter2-planted"

// serve is a rail that answers by handle.
func serve(t *testing.T, handle http.HandlerFunc) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(handle)
	t.Cleanup(s.Close)
	return s
}

func client(t *testing.T, url string, opts httprail.Options) *httprail.Client {
	t.Helper()
	c, err := httprail.New(url, opts)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func keyFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "rail.key")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func payment(left time.Duration) rail.Request {
	return rail.Request{Key: "k 1", PayoutID: "p", AccountID: "a", AmountMinor: 9007199254740993, Currency: "EUR", SendBy: time.Now().Add(left)}
}

// The protocol of docs/rail.md, as it stands on the wire.
//
// Mutation: take a field out of request, or the key from the query.
func TestProtocol(t *testing.T) {
	t.Parallel()
	var seen []string
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		seen = append(seen, fmt.Sprintf("%s %s %s %s %s", r.Method, r.URL, r.Header.Get("Authorization"), r.Header.Get("Cache-Control"), body))
		fmt.Fprint(w, `{"idempotency_key": "k 1", "outcome": "ACKED", "reference": "R-1", "text": "booked", "amount_minor": 9007199254740993, "amount_minor_str": "9007199254740993", "currency": "EUR"}`)
	})
	c := client(t, s.URL+"/v1/", httprail.Options{KeyFile: keyFile(t, secret+"\n")})
	want := rail.Answer{Outcome: paystore.OutcomeAcked, Reference: "R-1", Text: "booked", AmountMinor: 9007199254740993, Currency: "EUR"}
	asked := payment(time.Minute)
	asked.SendBy = asked.SendBy.In(time.FixedZone("elsewhere", 3600))
	paid, err := c.Submit(t.Context(), asked)
	if diff := cmp.Diff(want, paid); err != nil || diff != "" {
		t.Errorf("submit: %v\n%s", err, diff)
	}
	known, err := c.Status(t.Context(), "k 1")
	if diff := cmp.Diff(want, known); err != nil || diff != "" {
		t.Errorf("status: %v\n%s", err, diff)
	}
	wire := []string{
		`POST /v1/payments Bearer ` + secret + ` no-store {"idempotency_key":"k 1","payout_id":"p","account_id":"a","amount_minor":9007199254740993,"currency":"EUR","amount_minor_str":"9007199254740993","not_after":"` +
			asked.SendBy.UTC().Truncate(time.Millisecond).Format(time.RFC3339Nano) + `"}`,
		`GET /v1/payments?idempotency_key=k+1 Bearer ` + secret + ` no-store `,
	}
	if diff := cmp.Diff(wire, seen); diff != "" {
		t.Errorf("on the wire (-want +got):\n%s", diff)
	}
}

// Only a whole answer of 200 about the key asked for counts. Everything else is an
// error that names the host, and neither the API's key nor the page that came.
//
// Mutation: drop a check of decode or checked.
func TestAnswersThatDoNotCount(t *testing.T) {
	t.Parallel()
	ok := func(rest string) string { return `{"idempotency_key": "k 1"` + rest + `}` }
	for name, tt := range map[string]struct {
		status     int
		body, says string
	}{
		"nothing there":     {404, ok(`, "outcome": "NOT_FOUND"`), "404 Not Found"},
		"refused":           {401, "key " + secret, "401 Unauthorized"},
		"broken":            {500, ok(`, "outcome": "ACKED"`), "500"},
		"no content":        {204, "", "204"},
		"HTML":              {200, "<html>", "not the JSON"},
		"no outcome":        {200, ok(""), `outcome ""`},
		"another outcome":   {200, ok(`, "outcome": "DONE"`), `outcome "DONE"`},
		"TIMEOUT":           {200, ok(`, "outcome": "TIMEOUT"`), `outcome "TIMEOUT"`},
		"another key":       {200, `{"idempotency_key": "k2", "outcome": "NOT_FOUND"}`, `about the key "k2"`},
		"no key":            {200, `{"outcome": "NOT_FOUND"}`, `about the key ""`},
		"two answers":       {200, ok(`, "outcome": "NOT_FOUND"`) + "{}", "follows"},
		"too long":          {200, ok(`, "outcome": "ACKED", "text": "` + strings.Repeat("x", 70000) + `"`), "longer than 65536"},
		"another amount":    {200, ok(`, "outcome": "ACKED", "amount_minor": 1, "amount_minor_str": "2"`), `"2"`},
		"an amount of text": {200, ok(`, "outcome": "ACKED", "amount_minor_str": "1.5"`), `"1.5"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(tt.status)
				_, _ = io.WriteString(w, tt.body)
			})
			c := client(t, s.URL, httprail.Options{KeyFile: keyFile(t, secret)})
			_, err := c.Status(t.Context(), "k 1")
			failed, typed := errors.AsType[*httprail.Error](err)
			if !typed || failed.Status != tt.status || !strings.Contains(err.Error(), tt.says) || !strings.Contains(err.Error(), strings.TrimPrefix(s.URL, "http://")) || strings.Contains(err.Error(), secret) {
				t.Errorf("%v", err)
			}
		})
	}
}

// PENDING decides nothing, and NOT_FOUND is no answer to a payment.
func TestUndecided(t *testing.T) {
	t.Parallel()
	var outcome atomic.Value
	s := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, `{"idempotency_key": "k 1", "outcome": %q}`, outcome.Load())
	})
	c := client(t, s.URL, httprail.Options{})
	outcome.Store("PENDING")
	if said, err := c.Status(t.Context(), "k 1"); err != nil || said.Outcome != "" {
		t.Errorf("%+v, %v", said, err)
	}
	outcome.Store("NOT_FOUND")
	if said, err := c.Status(t.Context(), "k 1"); err != nil || said.Outcome != rail.NotFound {
		t.Errorf("%+v, %v", said, err)
	}
	if _, err := c.Submit(t.Context(), payment(time.Minute)); err == nil || !strings.Contains(err.Error(), "NOT_FOUND to a payment") {
		t.Errorf("a payment: %v", err)
	}
}

// No redirect is followed: the payment would be sent again, and the key elsewhere.
//
// Mutation: leave CheckRedirect out of New.
func TestNoRedirect(t *testing.T) {
	t.Parallel()
	var elsewhere atomic.Int64
	other := serve(t, func(http.ResponseWriter, *http.Request) { elsewhere.Add(1) })
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, other.URL, http.StatusTemporaryRedirect)
	})
	c := client(t, s.URL, httprail.Options{})
	for _, err := range []error{second(c.Submit(t.Context(), payment(time.Minute))), second(c.Status(t.Context(), "k 1"))} {
		if err == nil || !strings.Contains(err.Error(), "307") {
			t.Errorf("%v", err)
		}
	}
	if n := elsewhere.Load(); n != 0 {
		t.Errorf("the other server was asked %d times", n)
	}
}

func second[T any](_ T, err error) error { return err }

// Addresses that are none, hold a secret, or would show one are refused without
// showing it.
//
// Mutation: drop a case of New.
func TestAddresses(t *testing.T) {
	t.Parallel()
	for address, says := range map[string]string{
		"": "no URL", "rail.example": "no URL", "ftp://rail.example": "no URL", "https://": "no URL", "https://rail.example:x/": "no URL",
		"https://erin:" + secret + "@rail.example": "put the key into a file", "https://rail.example?key=" + secret: "a query", "https://rail.example#x": "a fragment",
		"http://rail.example": "in the clear",
	} {
		_, err := httprail.New(address, httprail.Options{KeyFile: "/k"})
		if !errors.Is(err, paystore.ErrInvalid) || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), secret) {
			t.Errorf("%q: %v", address, err)
		}
	}
	for _, address := range []string{"https://rail.example/v1", "http://127.0.0.1:1", "http://[::1]:1", "http://localhost:1"} {
		if _, err := httprail.New(address, httprail.Options{KeyFile: "/k"}); err != nil {
			t.Errorf("%q: %v", address, err)
		}
	}
	if _, err := httprail.New("http://rail.example", httprail.Options{}); err != nil {
		t.Errorf("without a key: %v", err)
	}
}

// A key that cannot be read, or is none, sends nothing and is not shown; one that was
// changed is used at once.
//
// Mutation: read the file once, in New.
func TestKeyFile(t *testing.T) {
	t.Parallel()
	var got atomic.Value
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		got.Store(r.Header.Get("Authorization"))
		fmt.Fprint(w, `{"idempotency_key": "k 1", "outcome": "NOT_FOUND"}`)
	})
	path := keyFile(t, "first")
	c := client(t, s.URL, httprail.Options{KeyFile: path})
	for _, key := range []string{"first", "second"} {
		if err := os.WriteFile(path, []byte(key+"\r\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Status(t.Context(), "k 1"); err != nil || got.Load() != "Bearer "+key {
			t.Errorf("%v, %v", got.Load(), err)
		}
	}
	for _, text := range []string{"", "\n", secret + "\nb", secret + " b", secret + "é"} {
		_, err := client(t, s.URL, httprail.Options{KeyFile: keyFile(t, text)}).Status(t.Context(), "k 1")
		if err == nil || strings.Contains(err.Error(), secret) || !strings.Contains(err.Error(), "rail.key") {
			t.Errorf("%q: %v", text, err)
		}
	}
	if _, err := client(t, s.URL, httprail.Options{KeyFile: "/nowhere/key"}).Status(t.Context(), "k 1"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%v", err)
	}
}

// TLS with an authority of one's own, and none that is not trusted.
func TestTLS(t *testing.T) {
	t.Parallel()
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"idempotency_key": "k 1", "outcome": "ACKED"}`)
	}))
	t.Cleanup(s.Close)
	roots := x509.NewCertPool()
	roots.AddCert(s.Certificate())
	trusting := client(t, s.URL, httprail.Options{TLS: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}})
	if said, err := trusting.Submit(t.Context(), payment(time.Minute)); err != nil || said.Outcome != paystore.OutcomeAcked {
		t.Errorf("%+v, %v", said, err)
	}
	if _, err := client(t, s.URL, httprail.Options{}).Status(t.Context(), "k 1"); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("%v", err)
	}
}

// Nobody there: the error names the host.
func TestNobodyThere(t *testing.T) {
	t.Parallel()
	l := listen(t)
	address := l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	_, err := client(t, "http://"+address, httprail.Options{}).Status(t.Context(), "k 1")
	if err == nil || strings.Count(err.Error(), "the rail at "+address) != 1 || strings.Contains(err.Error(), "idempotency_key") {
		t.Errorf("%v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := client(t, "http://"+address, httprail.Options{}).Status(ctx, "k 1"); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

// What an answer may say comes back as it was meant, and no input panics.
func FuzzAnswer(f *testing.F) {
	f.Add([]byte(`{"idempotency_key": "k 1", "outcome": "ACKED", "amount_minor": 1}`))
	f.Add([]byte(`{"outcome": null}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		resp := &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(bytes.NewReader(body))}
		said, err := httprail.Decode(resp, "k 1")
		if err == nil {
			var again struct {
				Key string `json:"idempotency_key"`
			}
			if json.Unmarshal(body, &again) != nil || again.Key != "k 1" {
				t.Errorf("%q is taken: %+v", body, said)
			}
		}
	})
}

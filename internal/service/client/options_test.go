package client_test

import (
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/service/client"
)

// The key is read for each request, never followed to another address, and shows in
// no error.
//
// Mutation: read the key in NewLocks, or follow redirects.
func TestAPIKey(t *testing.T) {
	t.Parallel()
	other := serve(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(`{}`)) })
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, other.URL+r.URL.Path, http.StatusTemporaryRedirect)
	})
	file := filepath.Join(t.TempDir(), "key")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	l, err := client.NewLocks(client.Options{URL: s.URL, KeyFile: file})
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{apiKey, apiKey + "-renewed"} {
		write(key + "\n")
		_, err := l.Acquire(t.Context(), params())
		noSecret(t, err)
		if got := s.keys[len(s.keys)-1]; got != "Bearer "+key {
			t.Errorf("sent %q", got)
		}
	}
	if other.asked() > 0 {
		t.Error("a redirect was followed, with the key")
	}
	for _, bad := range []string{"", apiKey + "\n" + apiKey, apiKey + " x"} {
		write(bad)
		_, err := l.Acquire(t.Context(), params())
		if !errors.Is(err, lockstore.ErrInvalid) {
			t.Errorf("a key file that holds %q: %v", bad, err)
		}
		noSecret(t, err)
	}
	if n := s.asked(); n != 2 {
		t.Errorf("%d requests, want those two", n)
	}
}

// An address that cannot be right, or would show a secret, is refused before anything
// is sent, and not repeated.
//
// Mutation: drop a case of address.
func TestRefusedOptions(t *testing.T) {
	t.Parallel()
	for _, opts := range []client.Options{
		{URL: "locks.example"},
		{URL: "ftp://locks.example"},
		{URL: "http://erin:" + apiKey + "@locks.example"},
		{URL: "http://locks.example?key=" + apiKey},
		{URL: "http://locks.example", KeyFile: "key"},
		{URL: "http://127.0.0.1", CAFile: "ca.pem"},
		{URL: "https://locks.example", CertFile: "cert.pem"},
		{URL: "https://locks.example", CAFile: "/nowhere/ca.pem"},
		{URL: "https://locks.example", CertFile: "/nowhere/cert.pem", CertKeyFile: "/nowhere/key.pem"},
	} {
		_, err := client.NewLocks(opts)
		if !errors.Is(err, lockstore.ErrInvalid) {
			t.Errorf("%+v: %v", opts, err)
		}
		noSecret(t, err)
	}
}

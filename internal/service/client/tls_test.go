package client_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/service/client"
)

// writePEM writes a block to a file of the test's.
func writePEM(t *testing.T, path, kind string, der []byte) string {
	t.Helper()
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// selfSigned writes a client's certificate and its key.
func selfSigned(t *testing.T, dir, name string) (certFile, keyFile string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return writePEM(t, filepath.Join(dir, "cert.pem"), "CERTIFICATE", der), writePEM(t, filepath.Join(dir, "key.pem"), "PRIVATE KEY", private)
}

// The server is believed by the authorities of the file alone, and shown the client's
// certificate, which is read again for the next connection.
//
// Clauses: K-12.2
// Mutation: leave RootCAs or GetClientCertificate out of tls.
func TestMutualTLS(t *testing.T) {
	t.Parallel()
	shown := make(chan string, 10)
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		shown <- r.TLS.PeerCertificates[0].Subject.CommonName
		w.Header().Set("Connection", "close")
		_, _ = w.Write([]byte(`{}`))
	}))
	s.TLS = &tls.Config{ClientAuth: tls.RequireAnyClientCert, MinVersion: tls.VersionTLS12}
	s.StartTLS()
	t.Cleanup(s.Close)
	dir := t.TempDir()
	ca := writePEM(t, filepath.Join(dir, "ca.pem"), "CERTIFICATE", s.Certificate().Raw)
	cert, key := selfSigned(t, dir, "first")
	l, err := client.NewLocks(client.Options{URL: s.URL, CAFile: ca, CertFile: cert, CertKeyFile: key})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"first", "second"} {
		selfSigned(t, dir, name)
		if _, err := l.Acquire(t.Context(), params()); err != nil {
			t.Fatalf("with the certificate of %s: %v", name, err)
		}
		if got := <-shown; got != name {
			t.Errorf("shown the certificate of %s, want that of %s", got, name)
		}
	}
	for what, opts := range map[string]client.Options{
		"without its authority": {URL: s.URL, CertFile: cert, CertKeyFile: key}, "without a certificate": {URL: s.URL, CAFile: ca},
	} {
		l, err := client.NewLocks(opts)
		if err != nil {
			t.Fatal(err)
		}
		_, err = l.Show(t.Context(), lockKey)
		if _, ok := errors.AsType[*lockstore.UnreachableError](err); !ok {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// proxiedVariable makes this test program one that asks a server by way of a proxy of
// its environment, which Go reads once in a process.
const proxiedVariable = "DLOCKCTL_TEST_PROXIED_URL"

// A proxy of the environment sees nothing that http carries.
//
// Mutation: Proxy: http.ProxyFromEnvironment in connect.
func TestNoProxyForHTTP(t *testing.T) {
	t.Parallel()
	if url := os.Getenv(proxiedVariable); url != "" {
		l, err := client.NewLocks(client.Options{URL: url})
		if err != nil {
			t.Fatal(err)
		}
		_, err = l.Show(t.Context(), lockKey)
		t.Logf("child: %v", err)
		return
	}
	proxy := serve(t, page(http.StatusBadGateway))
	for scheme, want := range map[string]bool{"http": false, "https": true} {
		before := proxy.asked()
		child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestNoProxyForHTTP$", "-test.v")
		child.Env = append(os.Environ(), proxiedVariable+"="+scheme+"://locks.invalid:7420", "HTTP_PROXY="+proxy.URL, "HTTPS_PROXY="+proxy.URL, "http_proxy="+proxy.URL, "https_proxy="+proxy.URL, "NO_PROXY=", "no_proxy=")
		out, err := child.CombinedOutput()
		if err != nil || !bytes.Contains(out, []byte("child: ")) {
			t.Fatalf("%v: %s", err, out)
		}
		if got := proxy.asked() > before; got != want {
			t.Errorf("%s by way of the proxy: %t, want %t: %s", scheme, got, want, out)
		}
		if strings.Contains(string(out), string(sessionID)) {
			t.Errorf("a secret shows: %s", out)
		}
	}
}

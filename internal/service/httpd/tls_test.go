package httpd_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"math/big"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/dlockctl/dlockctl/internal/service/httpd"
	"github.com/dlockctl/dlockctl/internal/service/httpdtest"
	"github.com/dlockctl/dlockctl/internal/service/problem"
)

// authority signs certificates for a test.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  []byte
}

// pair is a certificate and its key, in memory and in files.
type pair struct {
	of    *authority
	files httpd.TLSFiles
	cert  tls.Certificate
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: serial(t), Subject: pkix.Name{CommonName: "test authority"}, NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().AddDate(1, 0, 0), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return &authority{cert, key, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})}
}

func serial(t *testing.T) *big.Int {
	t.Helper()
	n, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// issue makes a certificate for a name, good for a year, for both ends.
func (a *authority) issue(t *testing.T, name string) *pair {
	return a.issueUntil(t, name, time.Now().AddDate(1, 0, 0))
}

func (a *authority) issueUntil(t *testing.T, name string, until time.Time) *pair {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: serial(t), Subject: pkix.Name{CommonName: name}, DNSNames: []string{"localhost"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: until,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, &key.PublicKey, a.key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	certPEM := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	keyPEM := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})
	cert, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	files := httpd.TLSFiles{CertFile: filepath.Join(dir, "cert.pem"), KeyFile: filepath.Join(dir, "key.pem")}
	overwrite(t, files.CertFile, certPEM)
	overwrite(t, files.KeyFile, keyPEM)
	return &pair{a, files, cert}
}

func overwrite(t *testing.T, file string, text []byte) {
	t.Helper()
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
}

// client trusts the pair's authority, speaks HTTP/2 where it is offered, and
// shows the certificates.
func (p *pair) client(t *testing.T, shown ...*pair) *http.Client {
	t.Helper()
	roots := x509.NewCertPool()
	roots.AddCert(p.of.cert)
	config := &tls.Config{RootCAs: roots, ServerName: "localhost", MinVersion: tls.VersionTLS12}
	for _, s := range shown {
		config.Certificates = append(config.Certificates, s.cert)
	}
	transport := &http.Transport{TLSClientConfig: config, ForceAttemptHTTP2: true}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// A new certificate is shown to new connections without a restart, and no request
// is lost meanwhile, not even while the two files do not belong together.
//
// Mutation: return the first value from get, or store what read returned with its error
func TestCertificateReload(t *testing.T) {
	t.Parallel()
	authority := newAuthority(t)
	old, renewed := authority.issue(t, "old"), authority.issue(t, "renewed")
	_, s := start(t, httpd.Options{TLS: old.files})
	kept := old.client(t)
	presented := func(client *http.Client) string {
		response, err := get(t, client, s.URL+"/livez")
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		_, _ = io.Copy(io.Discard, response.Body)
		return response.TLS.PeerCertificates[0].Subject.CommonName
	}
	if got := presented(kept); got != "old" {
		t.Fatalf("at first the certificate of %s is shown", got)
	}
	copyFile(t, renewed.files.CertFile, old.files.CertFile)
	eventually(t, "the half-replaced pair is noticed", func() bool {
		presented(old.client(t))
		return strings.Contains(s.Log.String(), "reload failed")
	})
	if got := presented(old.client(t)); got != "old" {
		t.Fatalf("with half a pair the certificate of %s is shown", got)
	}
	if text := string(plain(t, old.client(t), s.URL+"/readyz")); !strings.Contains(text, "certificate_reload") {
		t.Errorf("/readyz does not tell: %s", text)
	}
	copyFile(t, renewed.files.KeyFile, old.files.KeyFile)
	eventually(t, "the new certificate is shown", func() bool { return presented(old.client(t)) == "renewed" })
	if got := presented(kept); got != "old" {
		t.Errorf("the connection that was open shows %s", got)
	}
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	text, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	// By renaming, as certbot and Kubernetes do: another file in the old one's place.
	next := to + ".next"
	overwrite(t, next, text)
	if err := os.Rename(next, to); err != nil {
		t.Fatal(err)
	}
}

func plain(t *testing.T, client *http.Client, url string) []byte {
	t.Helper()
	response, err := get(t, client, url)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// A caller is let in by certificate where the keys file names it, for the scopes
// named there; without a certificate of the authority it does not come to speak.
//
// Clauses: K-12.2
// Mutation: make ClientAuth tls.RequestClientCert, or let authenticate take any verified name
func TestMutualTLS(t *testing.T) {
	t.Parallel()
	authority, foreign := newAuthority(t), newAuthority(t)
	server := authority.issue(t, "server")
	worker, unnamed, stranger := authority.issue(t, "worker"), authority.issue(t, "unnamed"), foreign.issue(t, "worker")
	files := server.files
	files.ClientCAFile = filepath.Join(t.TempDir(), "ca.pem")
	overwrite(t, files.ClientCAFile, authority.pem)
	line, err := httpd.CertLine("worker", []httpd.Scope{httpd.Audit})
	if err != nil {
		t.Fatal(err)
	}
	keys := filepath.Join(t.TempDir(), "keys")
	overwrite(t, keys, []byte(line+"\n"))
	_, s := start(t, httpd.Options{TLS: files, KeysFile: keys})

	status := func(client *http.Client, path string) (int, string) {
		response, err := get(t, client, s.URL+path)
		if err != nil {
			return 0, err.Error()
		}
		defer response.Body.Close()
		text, _ := io.ReadAll(response.Body)
		return response.StatusCode, string(text)
	}
	if got, text := status(server.client(t, worker), "/v1/look"); got != http.StatusConflict {
		t.Errorf("worker: %d %s, want the operation's answer", got, text)
	}
	response, err := post(t, server.client(t, worker), s.URL+"/v1/echo", `{"text":"x"}`)
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	if response.StatusCode != http.StatusForbidden {
		t.Errorf("worker beyond its scope: %d", response.StatusCode)
	}
	if got, text := status(server.client(t, unnamed), "/v1/look"); got != http.StatusUnauthorized || !strings.Contains(text, problem.Unauthenticated) {
		t.Errorf("a certificate that the keys file does not name: %d %s", got, text)
	}
	for what, client := range map[string]*http.Client{"no certificate": server.client(t), "another authority's": server.client(t, stranger)} {
		if got, text := status(client, "/livez"); got != 0 {
			t.Errorf("%s: %d %s, want the handshake refused", what, got, text)
		}
	}

	// The authority is replaced: who was let in is not any more.
	overwrite(t, files.ClientCAFile, foreign.pem)
	eventually(t, "the new authority is in force", func() bool {
		got, _ := status(server.client(t, stranger), "/v1/look")
		return got == http.StatusConflict
	})
	if got, text := status(server.client(t, worker), "/livez"); got != 0 {
		t.Errorf("the old authority's certificate: %d %s", got, text)
	}
}

// A key that is taken out of the file stops on the connection it used, a new one
// starts, and a broken file leaves those that were in force.
//
// Mutation: return the first value from get, or look at the keys once per connection
func TestKeysReload(t *testing.T) {
	t.Parallel()
	file, keys := httpdtest.Keys(t)
	_, s := start(t, httpd.Options{KeysFile: file})
	allowed := func(key string) bool {
		return s.Do(t, http.MethodGet, "/v1/look", key, "").Status == http.StatusConflict
	}
	if !allowed(keys[httpd.Audit]) {
		t.Fatal("the key does not work to begin with")
	}
	overwrite(t, file, []byte("rubbish"))
	eventually(t, "the broken file is noticed", func() bool {
		return allowed(keys[httpd.Audit]) && strings.Contains(s.Log.String(), "reload failed")
	})
	if ready := s.Do(t, http.MethodGet, "/readyz", "", ""); !allowed(keys[httpd.Audit]) || !bytes.Contains(ready.Body, []byte("keys_reload")) {
		t.Errorf("a broken file: %s", ready.Body)
	}
	key, line, err := httpd.NewKey("new", []httpd.Scope{httpd.Audit})
	if err != nil {
		t.Fatal(err)
	}
	overwrite(t, file, []byte(line))
	eventually(t, "the new key works", func() bool { return allowed(key) })
	if allowed(keys[httpd.Audit]) {
		t.Error("the key that was taken out still works")
	}
}

// HTTP/2 is spoken over TLS, and nowhere else.
//
// Mutation: set SetUnencryptedHTTP2, or leave h2 out of NextProtos
func TestHTTP2OnlyOverTLS(t *testing.T) {
	t.Parallel()
	certs := newAuthority(t).issue(t, "server")
	_, s := start(t, httpd.Options{TLS: certs.files})
	response, err := get(t, certs.client(t), s.URL+"/livez")
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	if response.Proto != "HTTP/2.0" {
		t.Errorf("over TLS: %s", response.Proto)
	}
	_, bare := start(t, httpd.Options{})
	conn := dial(t, bare)
	if _, err := conn.Write([]byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")); err != nil {
		t.Fatal(err)
	}
	if got := ended(t, conn); !strings.HasPrefix(got, "HTTP/1.1 4") {
		t.Errorf("without TLS: %q", got)
	}
	old := certs.client(t)
	old.Transport.(*http.Transport).TLSClientConfig.MaxVersion = tls.VersionTLS12
	if response, err := get(t, old, s.URL+"/livez"); err == nil {
		response.Body.Close()
		t.Errorf("TLS 1.2: %d", response.StatusCode)
	}
}

// A certificate that is about to end is spoken of, one that has ended is a failure.
//
// Mutation: return Good from condition
func TestCertificateExpiry(t *testing.T) {
	t.Parallel()
	authority := newAuthority(t)
	for state, until := range map[string]time.Time{
		`"certificate","state":"ok"`:      time.Now().AddDate(0, 3, 0),
		`"certificate","state":"warning"`: time.Now().Add(72 * time.Hour),
		`"certificate","state":"failed"`:  time.Now().Add(-time.Minute),
	} {
		certs := authority.issueUntil(t, "server", until)
		_, s := start(t, httpd.Options{TLS: certs.files})
		client := certs.client(t)
		client.Transport.(*http.Transport).TLSClientConfig.Time = func() time.Time { return until.Add(-time.Minute) }
		if text := string(plain(t, client, s.URL+"/readyz")); !strings.Contains(text, state) {
			t.Errorf("until %s: %s, want %s", until, text, state)
		}
	}
}

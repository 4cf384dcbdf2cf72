package httpd

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"time"
)

// credentials is what the TLS files hold.
type credentials struct {
	config *tls.Config
	leaf   *x509.Certificate
}

// validate refuses a half of a pair.
func (f TLSFiles) validate() error {
	switch {
	case (f.CertFile == "") != (f.KeyFile == ""):
		return errors.New("a certificate and its key belong together; give both --tls-cert-file and --tls-key-file")
	case f.ClientCAFile != "" && f.CertFile == "":
		return errors.New("client certificates need TLS; give --tls-cert-file and --tls-key-file beside --client-ca-file")
	}
	return nil
}

func (f TLSFiles) used() bool { return f.CertFile != "" }

func (f TLSFiles) files() []string {
	files := []string{f.CertFile, f.KeyFile}
	if f.ClientCAFile != "" {
		files = append(files, f.ClientCAFile)
	}
	return files
}

// read makes a TLS configuration of the files.
func (f TLSFiles) read() (*credentials, error) {
	pair, err := tls.LoadX509KeyPair(f.CertFile, f.KeyFile)
	if err != nil {
		return nil, fmt.Errorf("read the certificate %s: %w", f.CertFile, err)
	}
	config := &tls.Config{
		MinVersion:   tls.VersionTLS13,
		Certificates: []tls.Certificate{pair},
		NextProtos:   []string{"h2", "http/1.1"},
	}
	if f.ClientCAFile != "" {
		pem, err := os.ReadFile(f.ClientCAFile)
		if err != nil {
			return nil, fmt.Errorf("read the authority of the clients: %w", err)
		}
		config.ClientCAs = x509.NewCertPool()
		if !config.ClientCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("read the authority of the clients %s: there is no certificate in it", f.ClientCAFile)
		}
		config.ClientAuth = tls.RequireAndVerifyClientCert
		// A resumed session would be a certificate checked yesterday.
		config.SessionTicketsDisabled = true
	}
	return &credentials{config: config, leaf: pair.Leaf}, nil
}

// soon is when an expiring certificate is spoken of.
const soon = 14 * 24 * time.Hour

// condition tells how long the service's own certificate will do.
func (c *credentials) condition(now time.Time) Condition {
	const name = "certificate"
	ends := c.leaf.NotAfter.UTC().Format(time.RFC3339)
	switch left := c.leaf.NotAfter.Sub(now); {
	case left <= 0:
		return Condition{Name: name, State: Failed, Reason: "the certificate expired at " + ends}
	case left < soon:
		return Condition{Name: name, State: Warning, Reason: "the certificate expires at " + ends}
	}
	return Condition{Name: name, State: Good}
}

package client

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/dlockctl/dlockctl/internal/lockstore"
)

const (
	dialTimeout    = 5 * time.Second
	defaultTimeout = 10 * time.Second
	// mostIdle is how many connections are kept for the next requests.
	mostIdle = 128
	mostKey  = 4 << 10
)

// Options say how a service is reached.
type Options struct {
	// URL is the service's address, such as https://locks.example:7420.
	URL string
	// KeyFile is a file of one line, the API key. It is read for each request, so that
	// a new key needs no restart. Empty sends none.
	KeyFile string
	// CAFile is a PEM file of the authorities that are trusted; empty is the system's.
	CAFile string
	// CertFile and CertKeyFile are the client's certificate, read again for each
	// handshake; empty shows none.
	CertFile, CertKeyFile string
	// Timeout bounds each try of a request, beside the caller's context; 0 is 10 s.
	// What a caller waits for by its own wish counts on top.
	Timeout time.Duration
	// Wrap, when set, is put around the transport, to trace requests.
	Wrap func(http.RoundTripper) http.RoundTripper
}

// connect makes a conn with connections of its own. Nothing is sent yet. It returns
// lockstore.ErrInvalid for an address that is none or holds a secret, for a key that
// would cross the network in the clear, and for a certificate that cannot be read.
func (o Options) connect(longestCircuit time.Duration) (*conn, error) {
	base, err := o.address()
	if err != nil {
		return nil, err
	}
	tlsConfig, err := o.tls()
	if err != nil {
		return nil, err
	}
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true) // a stuck HTTP/2 connection would hold up all its streams
	var transport http.RoundTripper = &http.Transport{
		// The environment's proxy sees what http carries, keys and answers included.
		Proxy: func(r *http.Request) (*url.URL, error) {
			if r.URL.Scheme != "https" {
				return nil, nil //nolint:nilnil // that is how the transport is told "no proxy"
			}
			return http.ProxyFromEnvironment(r)
		},
		DialContext: (&net.Dialer{Timeout: dialTimeout, KeepAlive: 15 * time.Second}).DialContext, TLSHandshakeTimeout: dialTimeout,
		TLSClientConfig: tlsConfig, Protocols: protocols,
		MaxIdleConns: mostIdle, MaxIdleConnsPerHost: mostIdle, IdleConnTimeout: 90 * time.Second,
		DisableCompression: true, MaxResponseHeaderBytes: 64 << 10,
	}
	if o.Wrap != nil {
		transport = o.Wrap(transport)
	}
	timeout := o.Timeout
	if timeout <= 0 {
		timeout = defaultTimeout
	}
	return &conn{
		base: base, keyFile: o.KeyFile, timeout: timeout, circuit: newCircuit(longestCircuit),
		http: &http.Client{
			Transport:     transport,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}, nil
}

func (o Options) address() (*url.URL, error) {
	base, err := url.Parse(o.URL)
	switch {
	case err != nil || base.Host == "" || (base.Scheme != "http" && base.Scheme != "https"):
		return nil, fmt.Errorf("%w: the service's address is no URL such as http://127.0.0.1:7420", lockstore.ErrInvalid)
	case base.User != nil:
		return nil, fmt.Errorf("%w: the address of the service at %s holds a user or a password; put the key into a file", lockstore.ErrInvalid, base.Host)
	case base.RawQuery != "" || base.Fragment != "":
		return nil, fmt.Errorf("%w: the address of the service at %s has a query or a fragment; leave it out", lockstore.ErrInvalid, base.Host)
	case o.KeyFile != "" && base.Scheme == "http" && !loopback(base.Hostname()):
		return nil, fmt.Errorf("%w: the API key would reach the service at %s in the clear; use https", lockstore.ErrInvalid, base.Host)
	case (o.CAFile != "" || o.CertFile != "" || o.CertKeyFile != "") && base.Scheme == "http":
		return nil, fmt.Errorf("%w: certificates are given, and the address of the service at %s begins with http; use https", lockstore.ErrInvalid, base.Host)
	case (o.CertFile == "") != (o.CertKeyFile == ""):
		return nil, fmt.Errorf("%w: the client's certificate and its key are two files; give both or none", lockstore.ErrInvalid)
	}
	return base, nil
}

func (o Options) tls() (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if o.CAFile != "" {
		pem, err := os.ReadFile(o.CAFile)
		if err != nil {
			return nil, fmt.Errorf("%w: read the authorities: %w", lockstore.ErrInvalid, err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("%w: %s holds no certificate in PEM", lockstore.ErrInvalid, o.CAFile)
		}
	}
	if o.CertFile == "" {
		return config, nil
	}
	load := func() (*tls.Certificate, error) {
		pair, err := tls.LoadX509KeyPair(o.CertFile, o.CertKeyFile)
		if err != nil {
			return nil, fmt.Errorf("%w: read the client's certificate: %w", lockstore.ErrInvalid, err)
		}
		return &pair, nil
	}
	config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return load() }
	_, err := load()
	return config, err
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// readKey reads the API key; no error shows what is in the file.
func readKey(file string) (string, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("%w: read the API key: %w", lockstore.ErrInvalid, err)
	}
	key := strings.TrimSpace(string(text))
	if key == "" || len(key) > mostKey || strings.ContainsAny(key, " \t\r\n\x00") {
		return "", fmt.Errorf("%w: %s is not a file of one line that holds an API key", lockstore.ErrInvalid, file)
	}
	return key, nil
}

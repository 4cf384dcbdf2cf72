package httpd

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/dlockctl/dlockctl/internal/telemetry"
)

// Server is a framed service.
type Server struct {
	opts     Options
	limits   Limits
	api      huma.API
	mux      *http.ServeMux
	listener *bounded
	http     *telemetry.HTTPMetrics

	// tls and keys are nil where there are none.
	tls     *watched[*credentials]
	keys    *watched[*keyring]
	rates   *rates
	origins *http.CrossOriginProtection

	readiness   readiness
	openAPIJSON func() ([]byte, error)
	openAPIYAML func() ([]byte, error)

	idPrefix string
	requests atomic.Uint64
	// drain is closed when the service begins to stop.
	drain chan struct{}
}

// New reads certificate and keys and listens. It refuses an address that others
// can reach without mutual TLS or API keys (K-12.2). Nothing is answered before
// Serve; a server that is not served is closed by Close.
func New(opts Options) (*Server, error) {
	opts.Drain = cmp.Or(opts.Drain, 20*time.Second)
	s := &Server{
		opts: opts, limits: opts.Limits.orDefaults(), mux: http.NewServeMux(), http: opts.Metrics.HTTP(),
		rates: newRates(opts.Limits), origins: http.NewCrossOriginProtection(), drain: make(chan struct{}),
		// Ids of two processes must not meet in one log.
		idPrefix: rand.Text()[:8] + "-",
	}
	if err := s.readFiles(); err != nil {
		return nil, err
	}
	listener, err := listen(opts)
	if err != nil {
		return nil, err
	}
	s.listener = &bounded{Listener: listener, most: int64(s.limits.Connections), metrics: s.http}
	s.api = newAPI(s.mux, opts.Name, opts.Version)
	s.api.UseMiddleware(s.scoped)
	s.openAPIJSON = sync.OnceValues(func() ([]byte, error) { return json.Marshal(s.api.OpenAPI()) })
	s.openAPIYAML = sync.OnceValues(s.api.OpenAPI().YAML)
	return s, nil
}

func (l Limits) orDefaults() Limits {
	l.BodyBytes = cmp.Or(l.BodyBytes, 64<<10)
	l.HeaderBytes = cmp.Or(l.HeaderBytes, 16<<10)
	l.ReadHeader = cmp.Or(l.ReadHeader, 5*time.Second)
	l.ReadBody = cmp.Or(l.ReadBody, 10*time.Second)
	l.Write = cmp.Or(l.Write, 10*time.Second)
	l.Idle = cmp.Or(l.Idle, 2*time.Minute)
	l.Connections = cmp.Or(l.Connections, 4096)
	return l
}

// readFiles reads certificate and keys for the first time.
func (s *Server) readFiles() error {
	files := s.opts.TLS
	if err := files.validate(); err != nil {
		return err
	}
	var err error
	if files.used() {
		if s.tls, err = watch(files.files(), files.read, s.reloaded("certificate")); err != nil {
			return err
		}
	}
	switch {
	case s.opts.KeysFile != "":
		read := func() (*keyring, error) { return readKeys(s.opts.KeysFile) }
		if s.keys, err = watch([]string{s.opts.KeysFile}, read, s.reloaded("keys")); err != nil {
			return err
		}
	case files.ClientCAFile != "":
		return errors.New("a client certificate says who calls, not what it may do; give --keys-file with a line NAME SCOPE[,SCOPE] cert for each")
	}
	return nil
}

// reloaded tells of a file that was read again.
func (s *Server) reloaded(what string) func(error) {
	return func(err error) {
		if err != nil {
			s.http.Reloads.WithLabelValues(what, "failed").Inc()
			s.opts.Log.Error("reload failed, what was in force stays", slog.String("what", what), slog.String("error", err.Error()))
			return
		}
		s.http.Reloads.WithLabelValues(what, "ok").Inc()
		s.opts.Log.Info("reloaded", slog.String("what", what))
	}
}

// API is where the operations are registered, before Serve.
func (s *Server) API() huma.API { return s.api }

// Addr is the address that the service listens on.
func (s *Server) Addr() net.Addr { return s.listener.Addr() }

// Close stops listening. After Serve it does nothing.
func (s *Server) Close() error { return s.listener.Close() } //nolint:wrapcheck // says what and where

// Serve answers until the context ends, then drains: no new connection, waits and
// streams are told (see Draining), requests in flight are answered. What has not
// ended when Options.Drain is over is cut off and logged. It returns an error when
// an operation requires no scope, or when listening breaks.
func (s *Server) Serve(ctx context.Context) error {
	if err := unscoped(s.api); err != nil {
		return err
	}
	// Requests outlive the context that ends the service, by as long as it drains.
	life, cutOff := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cutOff(nil)
	server := s.server(life)
	served := make(chan error, 1)
	go func() { served <- s.accept(server) }()
	s.announce()
	select {
	case err := <-served:
		return fmt.Errorf("serve %s: %w", s.opts.Name, err)
	case <-ctx.Done():
	}
	close(s.drain)
	s.http.Ready.Set(0)
	s.opts.Log.Info("draining", slog.Duration("for", s.opts.Drain))
	drain, cancel := context.WithTimeout(life, s.opts.Drain)
	defer cancel()
	if err := server.Shutdown(drain); err != nil {
		cutOff(errors.New("the service has stopped"))
		s.opts.Log.Warn("cut off what had not ended", slog.Duration("after", s.opts.Drain), slog.String("error", err.Error()))
		_ = server.Close() // what it closes is lost anyway
	}
	if err := <-served; !errors.Is(err, http.ErrServerClosed) {
		s.opts.Log.Warn("listening had ended before", slog.String("error", err.Error()))
	}
	s.opts.Log.Info("stopped")
	return nil
}

// server sets every limit that net/http has, but for those on a whole request:
// an operation may wait long (see exchange and serve for what bounds the rest).
func (s *Server) server(life context.Context) *http.Server {
	server := &http.Server{
		Handler:           s.handler(),
		ReadHeaderTimeout: s.limits.ReadHeader,
		IdleTimeout:       s.limits.Idle,
		MaxHeaderBytes:    s.limits.HeaderBytes,
		BaseContext:       func(net.Listener) context.Context { return life },
		ErrorLog:          slog.NewLogLogger(s.opts.Log.Handler(), slog.LevelDebug),
		Protocols:         new(http.Protocols),
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams: 256, SendPingTimeout: s.limits.Idle / 4,
			PingTimeout: s.limits.Write, WriteByteTimeout: s.limits.Write,
		},
	}
	server.Protocols.SetHTTP1(true)
	server.Protocols.SetHTTP2(s.tls != nil)
	if s.tls != nil {
		server.TLSConfig = &tls.Config{
			MinVersion: tls.VersionTLS13,
			GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
				return s.tls.get().config, nil
			},
			// net/http wants one of the two, though the one above decides.
			GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
				return &s.tls.get().config.Certificates[0], nil
			},
		}
	}
	return server
}

func (s *Server) accept(server *http.Server) error {
	if s.tls != nil {
		return server.ServeTLS(s.listener, "", "") //nolint:wrapcheck // Serve does
	}
	return server.Serve(s.listener) //nolint:wrapcheck // Serve does
}

// announce says where the service listens and how it is guarded.
func (s *Server) announce() {
	guard := "none (loopback)"
	switch {
	case s.opts.TLS.ClientCAFile != "":
		guard = "mutual TLS"
	case s.keys != nil:
		guard = "API keys"
	}
	s.opts.Log.Info("listening", slog.String("service", s.opts.Name), slog.String("address", s.Addr().String()), slog.String("callers", guard))
	addr, isTCP := s.Addr().(*net.TCPAddr)
	if isTCP && !addr.IP.IsLoopback() && s.tls == nil {
		s.opts.Log.Warn("API keys and session ids travel in the clear: there is no TLS; give --tls-cert-file and --tls-key-file, or let a proxy end it on this host")
	}
}

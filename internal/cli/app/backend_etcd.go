package app

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"time"

	"github.com/dlockctl/dlockctl/internal/config"
	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/lockstore/etcd"
)

// EtcdOptions say how the etcd cluster of the configuration is reached. Nothing is sent.
func (a *App) EtcdOptions() (etcd.Options, error) {
	cfg, err := a.Config()
	if err != nil {
		return etcd.Options{}, err
	}
	password, err := cfg.Etcd.Password()
	if err != nil {
		return etcd.Options{}, UsageError("", "%v (from %s)", err, cfg.Origin("etcd.password_file"))
	}
	trust, err := etcdTLS(cfg)
	if err != nil {
		return etcd.Options{}, err
	}
	return etcd.Options{
		Endpoints: cfg.Etcd.Endpoints, TLS: trust, Username: cfg.Etcd.User, Password: password, Prefix: cfg.Etcd.Prefix, MarkDir: cfg.MarkDir,
	}, nil
}

// etcdTLS is whom the client believes and what it shows, nil for plain text.
func etcdTLS(cfg *config.Config) (*tls.Config, error) {
	if !cfg.Etcd.Secure() {
		return nil, nil //nolint:nilnil // plain text is no error
	}
	trust := &tls.Config{MinVersion: tls.VersionTLS12}
	if file := cfg.Etcd.CAFile; file != "" {
		pem, err := os.ReadFile(file)
		if err != nil {
			return nil, UsageError("", "read the authorities of etcd: %v (from %s)", err, cfg.Origin("etcd.ca_file"))
		}
		trust.RootCAs = x509.NewCertPool()
		if !trust.RootCAs.AppendCertsFromPEM(pem) {
			return nil, UsageError("give the file with the authority that signed the members' certificates", "%s holds no certificate in PEM (from %s)", file, cfg.Origin("etcd.ca_file"))
		}
	}
	if cfg.Etcd.CertFile != "" {
		// Read again for each connection: a service outlives its certificate.
		load := func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			pair, err := tls.LoadX509KeyPair(cfg.Etcd.CertFile, cfg.Etcd.KeyFile)
			return &pair, err //nolint:wrapcheck // it names the file
		}
		if _, err := load(nil); err != nil {
			return nil, UsageError("", "read the client's certificate for etcd: %v (from %s)", err, cfg.Origin("etcd.cert_file"))
		}
		trust.GetClientCertificate = load
	}
	return trust, nil
}

// etcdOptions are EtcdOptions for a purpose.
func (a *App) etcdOptions(cfg *config.Config, purpose Purpose) (etcd.Options, error) {
	opts, err := a.EtcdOptions()
	if err != nil {
		return etcd.Options{}, err
	}
	opts.Purpose = etcdPurpose(purpose)
	if purpose >= Changing {
		a.Badge()
	}
	if purpose >= Changing && cfg.Pay.Configured() {
		pay, err := a.PayConfig()
		if err != nil {
			return etcd.Options{}, err
		}
		opts.PayHighest = a.payHighest(soon(pay))
	}
	return opts, nil
}

func etcdPurpose(purpose Purpose) etcd.Purpose {
	switch purpose {
	case Granting:
		return etcd.Granting
	case Changing:
		return etcd.Changing
	default:
		return etcd.Reading
	}
}

// openEtcd opens the store for a purpose, and compares the environment before anything
// is changed. Whoever grants first under a named one marks the cluster.
func openEtcd(ctx context.Context, opts etcd.Options, environment string) (*etcd.Store, error) {
	store, err := etcd.Open(ctx, opts)
	if err != nil {
		return nil, inTheWay(ctx, opts, err)
	}
	if opts.Purpose >= etcd.Changing {
		err = store.CheckEnvironment(ctx, environment)
	}
	if err == nil && opts.Purpose >= etcd.Granting && environment != "" {
		err = store.MarkEnvironment(ctx, environment)
	}
	if err != nil {
		store.Close()
		return nil, err
	}
	return store, nil
}

// probeTime bounds one look at what is in the way to a member.
const probeTime = 2 * time.Second

// inTheWay adds to an unreachable cluster what is in the way to a member: etcd's
// client tries again until its time is over, and then says no more than that.
func inTheWay(ctx context.Context, opts etcd.Options, err error) error {
	unreachable, is := errors.AsType[*lockstore.UnreachableError](err)
	if !is || !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	for _, endpoint := range opts.Endpoints {
		u, parseErr := url.Parse(endpoint)
		if parseErr != nil {
			continue
		}
		if reason := probe(ctx, u.Host, opts.TLS); reason != nil {
			return &lockstore.UnreachableError{Doing: unreachable.Doing, Err: fmt.Errorf("%s: %w", u.Host, reason)}
		}
	}
	return err
}

// probe connects, and with TLS reads what the member says first: that it wants another
// certificate comes only then.
func probe(ctx context.Context, address string, trust *tls.Config) error {
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	if trust == nil {
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
		if err == nil {
			err = conn.Close()
		}
		return err //nolint:wrapcheck // the caller names the address
	}
	trust = trust.Clone()
	trust.NextProtos = []string{"h2"}
	conn, err := (&tls.Dialer{Config: trust}).DialContext(ctx, "tcp", address)
	if err != nil {
		return err //nolint:wrapcheck // the caller names the address
	}
	defer conn.Close() //nolint:errcheck // it was a look
	if deadline, has := ctx.Deadline(); has {
		err = conn.SetReadDeadline(deadline)
	}
	if err == nil {
		_, err = conn.Read(make([]byte, 1))
	}
	if timeout, is := errors.AsType[net.Error](err); is && timeout.Timeout() {
		return nil
	}
	return err //nolint:wrapcheck // the caller names the address
}

// ServeEtcd opens the etcd cluster for a lock-server, which grants only while the
// store's own check says that it may.
func (a *App) ServeEtcd(ctx context.Context, highest func(context.Context) (lockstore.Token, error)) (*etcd.Store, error) {
	cfg, err := a.Config()
	if err != nil {
		return nil, err
	}
	opts, err := a.EtcdOptions()
	if err != nil {
		return nil, err
	}
	opts.Purpose, opts.PayHighest = etcd.Changing, highest
	store, err := openEtcd(ctx, opts, cfg.Environment)
	if err != nil {
		return nil, err
	}
	if cfg.Environment == "" {
		return store, nil
	}
	if err := store.MarkEnvironment(ctx, cfg.Environment); err != nil {
		store.Close()
		return nil, err
	}
	return store, nil
}

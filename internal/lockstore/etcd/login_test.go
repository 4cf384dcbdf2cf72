package etcd_test

import (
	"crypto"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"math/big"
	"testing"
	"time"

	"github.com/dlockctl/dlockctl/internal/etcdtest"
	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/lockstore/etcd"
)

// named is a client's trust with a certificate of the cluster's authority that has a name.
func named(t *testing.T, cluster *etcdtest.Cluster, name string) *tls.Config {
	t.Helper()
	files := cluster.Certificates()
	authority, err := tls.LoadX509KeyPair(files.CA, files.Key) // one key serves all of them
	if err != nil {
		t.Fatal(err)
	}
	leaf := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	key := authority.PrivateKey.(crypto.Signer)
	der, err := x509.CreateCertificate(rand.Reader, leaf, authority.Leaf, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	trust := cluster.TLS().Clone()
	trust.Certificates = []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}
	return trust
}

// The audit names who logs in by a certificate by its common name, with etcd's
// authentication off and on, however the certificate is given; a user with a password goes
// before it. A certificate that nobody asked for names nobody.
//
// Clauses: K-3.3, K-10.1
// Mutation: leave listen out of Open, or the certificate out of name; or name it before
// the user.
func TestAuditNamesTheCertificate(t *testing.T) {
	t.Parallel()
	cluster := etcdtest.Start(t, etcdtest.Options{Nodes: 1, TLS: true})
	opts := etcd.Options{Endpoints: cluster.Endpoints(), TLS: named(t, cluster, "locks"), DialTimeout: 20 * time.Second, Timeout: 20 * time.Second}
	byCallback := opts
	byCallback.TLS = cluster.TLS().Clone()
	byCallback.TLS.Certificates = nil
	byCallback.TLS.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		return &opts.TLS.Certificates[0], nil
	}
	revoked := func(opts etcd.Options, want string) {
		t.Helper()
		alice := newClient(t, opts, "alice", time.Minute)
		if _, err := alice.Revoke(t.Context(), lockstore.RevokeParams{Key: "k", Token: alice.lock(t, "k"), Operator: "erin", Reason: "stuck"}); err != nil {
			t.Fatal(err)
		}
		if rows, err := alice.Revocations(t.Context(), lockstore.RevocationFilter{Limit: 1}); err != nil || len(rows) != 1 || rows[0].LoginRole != want {
			t.Errorf("the audit: %+v, %v, want the login %q", rows, err, want)
		}
	}
	revoked(opts, "locks")
	revoked(byCallback, "locks")

	const password = "s3cret-of-the-test"
	enableAuth(t, cluster.Client(t), password)
	revoked(opts, "locks")
	opts.TLS = named(t, cluster, "somebody")
	opts.Username, opts.Password = "root", password
	revoked(opts, "root")

	open := options(t) // a member that asks for no certificate, over plain text
	open.TLS = named(t, cluster, "locks")
	revoked(open, "")
}

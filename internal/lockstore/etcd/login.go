package etcd

import (
	"crypto/tls"
	"crypto/x509"
	"sync/atomic"
)

// login is whom the cluster has let in, for the audit (K-3.3): the user whose password it
// has checked, or the name in the certificate that it asked for. etcd asks for one only to
// hold it against its authorities, and takes its common name for a user where
// authentication is on.
type login struct {
	user string
	// certificate is the common name that was shown last: a service outlives its
	// certificate.
	certificate atomic.Pointer[string]
}

// name is "" for a client that the cluster lets in without asking who it is.
func (l *login) name() string {
	if shown := l.certificate.Load(); l.user == "" && shown != nil {
		return *shown
	}
	return l.user
}

// listen has trust tell which certificate is shown. It is asked only by a server that
// wants one; nil for plain text stays.
func (l *login) listen(trust *tls.Config) *tls.Config {
	if trust == nil {
		return nil
	}
	trust = trust.Clone()
	choose, own := trust.GetClientCertificate, trust.Certificates
	trust.GetClientCertificate = func(asked *tls.CertificateRequestInfo) (pair *tls.Certificate, err error) {
		if choose == nil {
			pair = fitting(own, asked)
		} else if pair, err = choose(asked); err != nil {
			return nil, err
		}
		name := commonName(pair)
		l.certificate.Store(&name)
		return pair, nil
	}
	return trust
}

// fitting is the certificate that crypto/tls would show by itself: the first that the
// server takes, or an empty one.
func fitting(own []tls.Certificate, asked *tls.CertificateRequestInfo) *tls.Certificate {
	for i := range own {
		if asked.SupportsCertificate(&own[i]) == nil {
			return &own[i]
		}
	}
	return &tls.Certificate{}
}

func commonName(pair *tls.Certificate) string {
	if len(pair.Certificate) == 0 {
		return ""
	}
	leaf := pair.Leaf
	if leaf == nil {
		parsed, err := x509.ParseCertificate(pair.Certificate[0])
		if err != nil {
			return ""
		}
		leaf = parsed
	}
	return leaf.Subject.CommonName
}

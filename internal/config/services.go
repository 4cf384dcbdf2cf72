package config

import (
	"net/url"
	"strconv"
	"time"
)

// Serve says how a service of `dlockctl serve` is framed.
type Serve struct {
	// Listen is host:port; empty means the service's own port on loopback.
	Listen string `mapstructure:"listen"`
	// The certificate and its key, who signs the callers' certificates, and who may
	// call: all read again when they change (docs/security.md).
	TLSCertFile  string `mapstructure:"tls_cert_file"`
	TLSKeyFile   string `mapstructure:"tls_key_file"`
	ClientCAFile string `mapstructure:"client_ca_file"`
	KeysFile     string `mapstructure:"keys_file"`
	// Drain is how long requests in flight have once the service stops.
	Drain time.Duration `mapstructure:"drain"`
	// Rate is the most requests a second of one caller with a credential; 0 for no
	// bound.
	Rate int `mapstructure:"rate"`
	// LogFormat is text or json, LogLevel debug, info, warn or error.
	LogFormat string `mapstructure:"log_format"`
	LogLevel  string `mapstructure:"log_level"`
}

// Services says where the services find one another, and with which credential.
type Services struct {
	LockURL string `mapstructure:"lock_url"`
	PayURL  string `mapstructure:"pay_url"`
	RailURL string `mapstructure:"rail_url"`

	Credential `mapstructure:",squash"`
}

// Server says where the lock verbs find lock-server instead of lockdb.
type Server struct {
	URL string `mapstructure:"url"`

	Credential `mapstructure:",squash"`
}

// Credential is what a client shows, and whom it believes; empty files are none.
type Credential struct {
	// KeyFile holds an API key, one line.
	KeyFile string `mapstructure:"key_file"`
	// CAFile holds the authorities that are believed instead of the system's.
	CAFile string `mapstructure:"ca_file"`
	// CertFile and CertKeyFile are a client certificate.
	CertFile    string `mapstructure:"cert_file"`
	CertKeyFile string `mapstructure:"cert_key_file"`
}

// Payment holds payment-resource's switch of K-4.5.
type Payment struct {
	Fencing Fencing `mapstructure:"fencing"`
}

// Proxy holds rail-proxy's switch of K-4.5.
type Proxy struct {
	Fencing Fencing `mapstructure:"fencing"`
}

// Fencing is switched off for a negative control, and for nothing else (K-4.5).
type Fencing struct {
	Enabled bool `mapstructure:"enabled"`
}

func (c *Config) validateServices() error {
	switch {
	case c.Serve.Drain < 0:
		return c.refuse("serve.drain", "serve.drain %s is negative", c.Serve.Drain)
	case c.Serve.Rate < 0:
		return c.refuse("serve.rate", "serve.rate %d is negative; give requests per second, or 0 for no bound", c.Serve.Rate)
	case c.Rail.Deadline <= 0:
		return c.refuse("rail.deadline", "rail.deadline %s is not above 0", c.Rail.Deadline)
	}
	for _, address := range []struct{ key, value string }{
		{"services.lock_url", c.Services.LockURL},
		{"services.pay_url", c.Services.PayURL},
		{"services.rail_url", c.Services.RailURL},
		{"server.url", c.Server.URL},
	} {
		if u, err := url.Parse(address.value); err != nil || u.User != nil {
			return c.refuse(address.key, "%s is malformed or holds a password, so it is not shown; an API key belongs into a file", address.key)
		}
	}
	// Without fencing one payout can be paid twice: not where money is real.
	profile, protected := c.Protection()
	for key, fencing := range map[string]Fencing{"payment.fencing.enabled": c.Payment.Fencing, "rail.proxy.fencing.enabled": c.Rail.Proxy.Fencing} {
		if protected && !fencing.Enabled {
			return c.refuse(key, "%s is off, and profile %s is protected: fencing is switched off for negative controls only", key, profile)
		}
	}
	return nil
}

// serviceTexts are the values of the services' keys.
func (c *Config) serviceTexts() map[string]string {
	texts := map[string]string{
		"serve.listen": c.Serve.Listen, "serve.tls_cert_file": c.Serve.TLSCertFile, "serve.tls_key_file": c.Serve.TLSKeyFile,
		"serve.client_ca_file": c.Serve.ClientCAFile, "serve.keys_file": c.Serve.KeysFile, "serve.drain": c.Serve.Drain.String(),
		"serve.rate": strconv.Itoa(c.Serve.Rate), "serve.log_format": c.Serve.LogFormat, "serve.log_level": c.Serve.LogLevel,
		"services.lock_url": c.Services.LockURL, "services.pay_url": c.Services.PayURL, "services.rail_url": c.Services.RailURL,
		"server.url": c.Server.URL,
	}
	for section, credential := range map[string]Credential{"services": c.Services.Credential, "server": c.Server.Credential} {
		texts[section+".key_file"], texts[section+".ca_file"] = credential.KeyFile, credential.CAFile
		texts[section+".cert_file"], texts[section+".cert_key_file"] = credential.CertFile, credential.CertKeyFile
	}
	return texts
}

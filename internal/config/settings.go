package config

import "strings"

// Setting is one key and the ways to give it. The table of them is the only
// list: defaults, environment and flags are all read from it.
type Setting struct {
	// Key is the key in the file and in a profile.
	Key string
	// Flag is the command-line flag, "" for none: a DSN is no argument, since
	// arguments show in ps.
	Flag string
	// Default is the value when nothing is given.
	Default any
	// FileOnly keys are guards: read from the file alone, so that no flag and no
	// variable loosens them.
	FileOnly bool
	// Secret values are shown masked.
	Secret bool
}

// Keys lists every key in the order of the documentation.
func Keys() []Setting { return settings() }

// settings lists every key in the order of the documentation.
func settings() []Setting {
	return []Setting{
		{Key: "profile", Flag: "profile", Default: DevProfile},
		{Key: "environment", Flag: "environment", Default: ""},
		{Key: "protected", Default: false, FileOnly: true},
		{Key: "backend", Flag: "backend", Default: Postgres},
		{Key: "etcd.endpoints", Flag: "etcd-endpoints", Default: ""},
		{Key: "etcd.prefix", Default: "dlockctl/"},
		{Key: "etcd.ca_file", Default: ""},
		{Key: "etcd.cert_file", Default: ""},
		{Key: "etcd.key_file", Default: ""},
		{Key: "etcd.user", Default: ""},
		{Key: "etcd.password_file", Default: ""},
		{Key: "syncguard.lock_table", Default: "syncguard_locks"},
		{Key: "syncguard.fence_table", Default: "syncguard_fence_counters"},
		{Key: "lock.dsn", Default: ""},
		{Key: "lock.dsn_file", Flag: "lock-dsn-file", Default: ""},
		{Key: "pay.dsn", Default: ""},
		{Key: "pay.dsn_file", Flag: "pay-dsn-file", Default: ""},
		{Key: "rail.dsn", Default: ""},
		{Key: "rail.dsn_file", Flag: "rail-dsn-file", Default: ""},
		{Key: "rail.url", Flag: "rail-url", Default: ""},
		{Key: "rail.key_file", Flag: "rail-key-file", Default: ""},
		{Key: "rail.deadline", Flag: "rail-deadline", Default: "10s"},
		{Key: "rail.proxy.fencing.enabled", Default: true},
		{Key: "payment.fencing.enabled", Default: true},
		{Key: "serve.listen", Flag: "listen", Default: ""},
		{Key: "serve.tls_cert_file", Flag: "tls-cert-file", Default: ""},
		{Key: "serve.tls_key_file", Flag: "tls-key-file", Default: ""},
		{Key: "serve.client_ca_file", Flag: "client-ca-file", Default: ""},
		{Key: "serve.keys_file", Flag: "keys-file", Default: ""},
		{Key: "serve.drain", Flag: "drain", Default: "20s"},
		{Key: "serve.rate", Flag: "rate", Default: 2000},
		{Key: "serve.log_format", Flag: "log-format", Default: "text"},
		{Key: "serve.log_level", Flag: "log-level", Default: "info"},
		{Key: "services.lock_url", Flag: "lock-url", Default: "http://127.0.0.1:7420"},
		{Key: "services.pay_url", Flag: "pay-url", Default: "http://127.0.0.1:7421"},
		{Key: "services.rail_url", Flag: "rail-proxy-url", Default: "http://127.0.0.1:7422"},
		{Key: "services.key_file", Flag: "key-file", Default: ""},
		{Key: "services.ca_file", Flag: "ca-file", Default: ""},
		{Key: "services.cert_file", Flag: "cert-file", Default: ""},
		{Key: "services.cert_key_file", Flag: "cert-key-file", Default: ""},
		{Key: "server.url", Flag: "server", Default: ""},
		{Key: "server.key_file", Default: ""},
		{Key: "server.ca_file", Default: ""},
		{Key: "server.cert_file", Default: ""},
		{Key: "server.cert_key_file", Default: ""},
		{Key: "operator", Flag: "operator", Default: ""},
		{Key: "session", Flag: "session", Default: "", Secret: true},
		{Key: "output", Flag: "output", Default: "table"},
		{Key: "color", Flag: "color", Default: "auto"},
		{Key: "timeout", Flag: "timeout", Default: "30s"},
		{Key: "allow_same_instance", Flag: "allow-same-instance", Default: false},
		{Key: "no_payments", Default: false, FileOnly: true},
		{Key: "mark_dir", Flag: "mark-dir", Default: ""},
		{Key: "restore.auto", Default: AutoOff},
		{Key: "restore.operator_dsn_file", Default: ""},
		{Key: "restore.pay_operator_dsn_file", Default: ""},
		{Key: "state_dir", Flag: "state-dir", Default: ""},
		{Key: "pg_bin", Flag: "pg-bin", Default: ""},
		{Key: "seed", Default: false},
	}
}

// Env is the environment variable of the key: lock.dsn is DLOCKCTL_LOCK_DSN.
func (s Setting) Env() string {
	return "DLOCKCTL_" + strings.ToUpper(strings.ReplaceAll(s.Key, ".", "_"))
}

// twin is the key that means the same in another form: whoever gives one of
// them on a higher layer takes the other, from a lower one, back.
func (s Setting) twin() string {
	if db, found := strings.CutSuffix(s.Key, ".dsn"); found {
		return db + ".dsn_file"
	}
	if db, found := strings.CutSuffix(s.Key, ".dsn_file"); found {
		return db + ".dsn"
	}
	return ""
}

// Layer is a place where a value can be given.
type Layer string

// The layers, lowest first.
const (
	Default Layer = "default"
	File    Layer = "file"
	Profile Layer = "profile"
	Env     Layer = "env"
	Flag    Layer = "flag"
)

// Origin is where a value came from: the layer, and the name it has there.
type Origin struct {
	Layer Layer
	// Name is the flag, the variable, the profile or the file.
	Name string
}

// String returns the origin as it reads in a message.
func (o Origin) String() string {
	switch o.Layer {
	case Profile:
		return "profile " + o.Name
	case File:
		return "file " + o.Name
	case Env, Flag:
		return o.Name
	default:
		return "the default"
	}
}

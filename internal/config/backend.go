package config

import (
	"fmt"
	"net"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// What keeps the locks (K-10).
const (
	// Postgres is lockdb.
	Postgres = "postgres"
	// Etcd takes the cluster's revision as token.
	Etcd = "etcd"
	// SyncGuard works on the tables of the npm library, in a PostgreSQL database.
	SyncGuard = "syncguard"
)

// Backends lists what keeps locks, the default first.
func Backends() []string { return []string{Postgres, Etcd, SyncGuard} }

// EtcdCluster says how to reach an etcd cluster, and below which prefix of it the
// locks are.
type EtcdCluster struct {
	// Endpoints are the client addresses of the members, https://host:port for TLS.
	Endpoints []string `mapstructure:"endpoints"`
	// Prefix is what every key of ours begins with.
	Prefix string `mapstructure:"prefix"`
	// CAFile holds the authorities that are believed instead of the system's.
	CAFile string `mapstructure:"ca_file"`
	// CertFile and KeyFile are a client certificate.
	CertFile string `mapstructure:"cert_file"`
	KeyFile  string `mapstructure:"key_file"`
	// User logs in with the password in PasswordFile; empty where auth is off.
	User         string `mapstructure:"user"`
	PasswordFile string `mapstructure:"password_file"`
}

// SyncGuardTables are the names of SyncGuard's tables.
type SyncGuardTables struct {
	LockTable  string `mapstructure:"lock_table"`
	FenceTable string `mapstructure:"fence_table"`
}

// Secure tells that the members are reached over TLS.
func (e EtcdCluster) Secure() bool {
	return len(e.Endpoints) > 0 && strings.HasPrefix(e.Endpoints[0], "https://")
}

// Describe says where the cluster is. An address that may hold a password, which only
// the profile in force is refused for, is dots.
func (e EtcdCluster) Describe() string {
	shown := make([]string, len(e.Endpoints))
	for i, endpoint := range e.Endpoints {
		shown[i] = endpoint
		if strings.Contains(endpoint, "@") {
			shown[i] = masked
		}
	}
	return Etcd + " " + strings.Join(shown, ",")
}

// Password returns what PasswordFile holds, "" where none is named. No error of it
// shows the password.
func (e EtcdCluster) Password() (string, error) {
	if e.PasswordFile == "" {
		return "", nil
	}
	const most = 4 << 10 // far above any password
	text, err := readSecret("password file", e.PasswordFile, most, private)
	if err != nil {
		return "", err
	}
	password := strings.TrimRight(text, "\r\n")
	if password == "" || strings.ContainsAny(password, "\r\n\x00") {
		return "", fmt.Errorf("the password file %s does not hold one line; write the password into it, and nothing else", e.PasswordFile)
	}
	return password, nil
}

// SharesInstance tells that locks and money may stand on one PostgreSQL instance: by
// the laptop's override, or because the locks stand on none (K-6.1).
func (c *Config) SharesInstance() bool { return c.AllowSameInstance || c.Backend == Etcd }

// maxIdentifier is the longest name that PostgreSQL keeps whole.
const maxIdentifier = 63

// tableName is what SyncGuard itself accepts as the name of a table.
var tableName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`) })

func (c *Config) validateBackend() error {
	if !slices.Contains(Backends(), c.Backend) {
		return c.refuse("backend", "backend is %q; it may be %s", c.Backend, strings.Join(Backends(), ", "))
	}
	if err := c.validateEtcd(); err != nil {
		return err
	}
	for _, table := range []struct{ key, name string }{
		{"syncguard.lock_table", c.SyncGuard.LockTable}, {"syncguard.fence_table", c.SyncGuard.FenceTable},
	} {
		if !tableName().MatchString(table.name) || len(table.name) > maxIdentifier {
			return c.refuse(table.key, "%s %q is no name that SyncGuard takes; give letters, digits and underscores, at most %d, the first no digit, and the schema by search_path",
				table.key, table.name, maxIdentifier)
		}
		for _, owned := range []struct{ prefix, whose string }{{"dlockctl_syncguard_", "this program's"}, {"pg_", "PostgreSQL's"}} {
			if strings.HasPrefix(strings.ToLower(table.name), owned.prefix) {
				return c.refuse(table.key, "%s %q begins with %s, as %s own tables do; give another name", table.key, table.name, owned.prefix, owned.whose)
			}
		}
	}
	if c.SyncGuard.LockTable == c.SyncGuard.FenceTable {
		return c.refuse("syncguard.fence_table", "syncguard.lock_table and syncguard.fence_table are both %q; give two names", c.SyncGuard.FenceTable)
	}
	return nil
}

func (c *Config) validateEtcd() error {
	e := c.Etcd
	if c.Backend == Etcd && len(e.Endpoints) == 0 {
		return c.refuse("backend", "backend is etcd, and etcd.endpoints is not set; give the members' client addresses, such as https://etcd-1.example:2379,https://etcd-2.example:2379")
	}
	for _, endpoint := range e.Endpoints {
		u, err := url.Parse(endpoint)
		switch {
		case strings.Contains(endpoint, "@"):
			return c.refuse("etcd.endpoints", "an address in etcd.endpoints holds a password, so it is not shown; a user belongs into etcd.user, its password into a file")
		case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Port() == "" || u.Hostname() == "" || u.Path != "" || u.RawQuery != "" || u.Fragment != "":
			return c.refuse("etcd.endpoints", "etcd.endpoints has %q; give https://host:port, or http://host:port without TLS", endpoint)
		case strings.HasPrefix(endpoint, "https://") != e.Secure():
			return c.refuse("etcd.endpoints", "etcd.endpoints has http:// and https:// addresses; a password sent to one would not be safe on the way to the other: give all of them one scheme")
		}
	}
	if len(e.Endpoints) == 0 {
		return nil
	}
	for _, file := range []struct{ key, path string }{{"etcd.ca_file", e.CAFile}, {"etcd.cert_file", e.CertFile}, {"etcd.key_file", e.KeyFile}} {
		if file.path != "" && !e.Secure() {
			return c.refuse(file.key, "%s is set, and etcd.endpoints are http://: nothing would be checked by it; give https:// addresses, or take it out", file.key)
		}
	}
	switch {
	case (e.CertFile == "") != (e.KeyFile == ""):
		return c.refuse("etcd.cert_file", "etcd.cert_file and etcd.key_file belong together, and one of them is missing")
	case e.User == "" && e.PasswordFile != "":
		return c.refuse("etcd.password_file", "etcd.password_file is set, and etcd.user is not; say whose password it is")
	case e.PasswordFile != "" && !e.Secure() && slices.ContainsFunc(e.Endpoints, func(endpoint string) bool { return !onLoopback(endpoint) }):
		return c.refuse("etcd.password_file", "the password would reach etcd in the clear; give https:// addresses in etcd.endpoints")
	case e.User != "" && e.PasswordFile == "" && e.CertFile == "":
		return c.refuse("etcd.user", "etcd.user is %q, and etcd.password_file is not set; write the password into a file of mode 0600 and give its path", e.User)
	}
	return nil
}

// onLoopback tells that an address leads to this machine.
func onLoopback(endpoint string) bool {
	u, err := url.Parse(endpoint)
	if err != nil {
		return false
	}
	ip := net.ParseIP(u.Hostname())
	return u.Hostname() == "localhost" || ip != nil && ip.IsLoopback()
}

// backendTexts are the values of the backends' keys.
func (c *Config) backendTexts() map[string]string {
	return map[string]string{
		"backend":        c.Backend,
		"etcd.endpoints": strings.Join(c.Etcd.Endpoints, ","), "etcd.prefix": c.Etcd.Prefix,
		"etcd.ca_file": c.Etcd.CAFile, "etcd.cert_file": c.Etcd.CertFile, "etcd.key_file": c.Etcd.KeyFile,
		"etcd.user": c.Etcd.User, "etcd.password_file": c.Etcd.PasswordFile,
		"syncguard.lock_table": c.SyncGuard.LockTable, "syncguard.fence_table": c.SyncGuard.FenceTable,
	}
}

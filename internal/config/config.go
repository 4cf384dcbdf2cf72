// Package config turns flags, environment, profile and file into one typed
// Config, and remembers where each value came from. Nobody else imports viper.
//
// Precedence, highest first: flag, DLOCKCTL_* environment, profile, file,
// default. An unknown key is an error, for a mistyped one would otherwise be a
// setting that silently does not apply.
package config

import (
	"errors"
	"fmt"
	"maps"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/dlockctl/dlockctl/internal/instance"
)

// DevProfile is the profile that stands when nothing is configured: the two
// embedded instances.
const DevProfile = "dev"

// DevEnvironment is what the embedded instances are marked as.
const DevEnvironment = "dev"

// Config is what a command runs with.
type Config struct {
	// Profile is the name of the profile in force.
	Profile  string `mapstructure:"profile"`
	Settings `mapstructure:",squash"`
	// Profiles are all those in the file, by lower-case name.
	Profiles map[string]Settings `mapstructure:"profiles"`

	// File is the configuration file that was read, "" for none.
	File    string            `mapstructure:"-"`
	origins map[string]Origin `mapstructure:"-"`
}

// Settings are the keys that may stand in a profile as well as outside one.
type Settings struct {
	// Environment is what both databases must be marked as, when they are marked;
	// empty means unmarked ones only.
	Environment string `mapstructure:"environment"`
	// Protected profiles want --confirm=<profile> for whatever destroys.
	Protected bool `mapstructure:"protected"`

	// Backend is what keeps the locks: one of Backends (K-10).
	Backend   string          `mapstructure:"backend"`
	Etcd      EtcdCluster     `mapstructure:"etcd"`
	SyncGuard SyncGuardTables `mapstructure:"syncguard"`

	// Lock is lockdb; with the backend syncguard, the database with its tables.
	Lock Database `mapstructure:"lock"`
	Pay  Database `mapstructure:"pay"`
	// Rail is paydb once more, under the login that may write the rail's marks and
	// attempts (K-4.6), without one it is Pay; and the payment rail itself.
	Rail Rail `mapstructure:"rail"`
	// Operator is who acts, in audit rows; empty means user@host.
	Operator string `mapstructure:"operator"`
	// Session is the caller's own session, a secret (K-2.12); empty for none.
	Session Secret `mapstructure:"session"`
	Output  string `mapstructure:"output"`
	Color   string `mapstructure:"color"`
	// Timeout is the deadline of a whole command.
	Timeout time.Duration `mapstructure:"timeout"`
	// AllowSameInstance lets locks and money stand on one instance (K-6.1).
	AllowSameInstance bool `mapstructure:"allow_same_instance"`
	// NoPayments says that this deployment has no paydb, so that none is missing
	// as evidence (K-7.6).
	NoPayments bool `mapstructure:"no_payments"`
	// MarkDir is the folder of the outside mark, the same for all who grant
	// (K-7.6); empty for none.
	MarkDir string `mapstructure:"mark_dir"`
	// Restore says what lock-server may do by itself after a fail-over.
	Restore  Restore  `mapstructure:"restore"`
	Serve    Serve    `mapstructure:"serve"`
	Services Services `mapstructure:"services"`
	Server   Server   `mapstructure:"server"`
	Payment  Payment  `mapstructure:"payment"`
	// StateDir is where the embedded instances live; empty means the user's
	// state folder.
	StateDir string `mapstructure:"state_dir"`
	// PGBin is the folder of the PostgreSQL programs; empty means search.
	PGBin string `mapstructure:"pg_bin"`
	// Seed makes the seed location part of the profile's migrations (K-9.4).
	Seed bool `mapstructure:"seed"`
}

// Database says how to reach one database: at most one of the two is set.
type Database struct {
	DSN     Secret `mapstructure:"dsn"`
	DSNFile string `mapstructure:"dsn_file"`
}

// Rail says how to reach paydb as rail-proxy does, and the rail.
type Rail struct {
	Database `mapstructure:",squash"`

	// URL is the payment rail's own (docs/rail.md).
	URL string `mapstructure:"url"`
	// KeyFile holds the key of its API; empty for none.
	KeyFile string `mapstructure:"key_file"`
	// Deadline is how long rail-proxy waits for the rail's answer (K-4.11).
	Deadline time.Duration `mapstructure:"deadline"`
	Proxy    Proxy         `mapstructure:"proxy"`
}

// Secret is a string that prints as dots, wherever it may end up.
type Secret string

const masked = "•••"

// String masks the secret for fmt and for encoders of text.
func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return masked
}

// GoString masks the secret for %#v.
func (s Secret) GoString() string { return s.String() }

// MarshalText masks the secret in JSON and YAML.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// Reveal returns the secret itself.
func (s Secret) Reveal() string { return string(s) }

// Configured tells whether the database has an address at all.
func (d Database) Configured() bool { return d.DSN != "" || d.DSNFile != "" }

// Read returns the connection string. No error of it shows the string.
func (d Database) Read() (string, error) {
	if d.DSN != "" {
		return d.DSN.Reveal(), nil
	}
	const most = 64 << 10 // far above any DSN
	// There are DSNs without a secret: their files may be everybody's.
	text, err := readSecret("DSN file", d.DSNFile, most, anyMode)
	if err != nil {
		return "", err
	}
	dsn := strings.TrimSpace(text)
	switch {
	case dsn == "":
		return "", fmt.Errorf("the DSN file %s is empty; write one connection string into it", d.DSNFile)
	case strings.ContainsAny(dsn, "\n\r\x00"):
		return "", fmt.Errorf("the DSN file %s has more than one line; write one connection string into it", d.DSNFile)
	}
	return dsn, nil
}

// Embedded tells that the command runs on the two embedded instances: the dev
// profile stands and neither database is configured, nor an etcd. One configured
// and one embedded database would be a mixture nobody asked for.
func (c *Config) Embedded() bool {
	return c.Profile == DevProfile && c.Backend != Etcd && !c.Lock.Configured() && !c.Pay.Configured()
}

// Protection returns the name of the profile whose protection is in force, and
// whether one is: the profile that stands, or, for the address of a protected
// profile's environment reached by another way, that one.
func (c *Config) Protection() (profile string, protected bool) {
	if c.Protected {
		return c.Profile, true
	}
	for _, name := range slices.Sorted(maps.Keys(c.Profiles)) {
		if p := c.Profiles[name]; p.Protected && p.Environment != "" && p.Environment == c.Environment {
			return name, true
		}
	}
	return "", false
}

// Origin says where the value of a key came from.
func (c *Config) Origin(key string) Origin { return c.origins[key] }

func (c *Config) validate() error {
	if c.Timeout < time.Millisecond {
		return c.refuse("timeout", "timeout %s is too short; give a duration with its unit, such as 30s", c.Timeout)
	}
	if c.Environment != "" {
		if err := instance.ValidEnvironment(c.Environment); err != nil {
			return c.refuse("environment", "%w", err)
		}
	}
	if c.NoPayments && (c.Pay.Configured() || c.Embedded()) {
		return c.refuse("no_payments", "no_payments is set, and there is a paydb; take one of the two out")
	}
	// Below the folder of whoever calls, a mark would be missing that stands elsewhere.
	if c.MarkDir != "" && !filepath.IsAbs(c.MarkDir) {
		return c.refuse("mark_dir", "mark_dir %q is relative; give the whole path, for all who grant must find the same mark", c.MarkDir)
	}
	if u, err := url.Parse(c.Rail.URL); err != nil || u.User != nil || u.RawQuery != "" {
		return c.refuse("rail.url", "rail.url is malformed, or holds a password or a query, so it is not shown; the key of the API belongs into rail.key_file")
	}
	if err := errors.Join(c.validateBackend(), c.validateRestore(), c.validateServices()); err != nil {
		return err
	}
	for _, db := range []struct {
		name string
		Database
	}{{"lock", c.Lock}, {"pay", c.Pay}, {"rail", c.Rail.Database}} {
		if IsDSN(db.DSNFile) {
			// The value is not shown: it may hold a password, and an argument
			// shows in ps anyway.
			return c.refuse(db.name+".dsn_file", "%s.dsn_file is a connection string, not the path of a file; write it into a file of mode 0600 and give its path", db.name)
		}
		if db.DSN != "" && db.DSNFile != "" {
			return c.refuse(db.name+".dsn", "both %s.dsn and %s.dsn_file are given; give one of them", db.name, db.name)
		}
	}
	return nil
}

// refuse names where the refused value came from.
func (c *Config) refuse(key, format string, args ...any) error {
	return fmt.Errorf(format+" (from %s)", append(args, c.Origin(key))...)
}

// ErrNoProfile is returned by Load for a profile that the file does not have.
var ErrNoProfile = errors.New("no such profile")

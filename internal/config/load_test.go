package config_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dlockctl/dlockctl/internal/config"
)

// sources builds Sources over a file's text, an environment and flags.
func sources(t *testing.T, file string, env, flags map[string]string) config.Sources {
	t.Helper()
	src := config.Sources{
		Env:  func(name string) string { return env[name] },
		Flag: func(name string) (string, bool) { v, ok := flags[name]; return v, ok },
	}
	if file != "" {
		src.File = filepath.Join(t.TempDir(), "config.yaml")
		if err := os.WriteFile(src.File, []byte(file), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return src
}

// Every key takes its value from the highest layer that gives one: flag >
// DLOCKCTL_* > profile > file > default. The table goes down the layers one by
// one for each key.
//
// Mutation: swap the order of readEnv and readFlags in Load.
func TestPrecedence(t *testing.T) {
	t.Parallel()
	keys := []struct {
		key, flag, env string
		values         [5]string // default, file, profile, env, flag
		get            func(*config.Config) string
	}{
		{"operator", "operator", "DLOCKCTL_OPERATOR", [5]string{"", "o-file", "o-profile", "o-env", "o-flag"}, func(c *config.Config) string { return c.Operator }},
		{"output", "output", "DLOCKCTL_OUTPUT", [5]string{"table", "wide", "yaml", "csv", "json"}, func(c *config.Config) string { return c.Output }},
		{"color", "color", "DLOCKCTL_COLOR", [5]string{"auto", "always", "never", "always", "never"}, func(c *config.Config) string { return c.Color }},
		{"timeout", "timeout", "DLOCKCTL_TIMEOUT", [5]string{"30s", "1s", "2s", "3s", "4s"}, func(c *config.Config) string { return c.Timeout.String() }},
		{"allow_same_instance", "allow-same-instance", "DLOCKCTL_ALLOW_SAME_INSTANCE", [5]string{"false", "true", "false", "true", "false"}, func(c *config.Config) string { return fmt.Sprint(c.AllowSameInstance) }},
		{"mark_dir", "mark-dir", "DLOCKCTL_MARK_DIR", [5]string{"", "/m/file", "/m/profile", "/m/env", "/m/flag"}, func(c *config.Config) string { return c.MarkDir }},
		{"restore.auto", "", "DLOCKCTL_RESTORE_AUTO", [5]string{"off", "safe", "off", "safe", ""}, func(c *config.Config) string { return c.Restore.Auto }},
		{"restore.operator_dsn_file", "", "DLOCKCTL_RESTORE_OPERATOR_DSN_FILE", [5]string{"", "/a/file", "/a/profile", "/a/env", ""}, func(c *config.Config) string { return c.Restore.OperatorDSNFile }},
		{"restore.pay_operator_dsn_file", "", "DLOCKCTL_RESTORE_PAY_OPERATOR_DSN_FILE", [5]string{"", "/a/file", "/a/profile", "/a/env", ""}, func(c *config.Config) string { return c.Restore.PayOperatorDSNFile }},
		{"state_dir", "state-dir", "DLOCKCTL_STATE_DIR", [5]string{"", "/s/file", "/s/profile", "/s/env", "/s/flag"}, func(c *config.Config) string { return c.StateDir }},
		{"pg_bin", "pg-bin", "DLOCKCTL_PG_BIN", [5]string{"", "/b/file", "/b/profile", "/b/env", "/b/flag"}, func(c *config.Config) string { return c.PGBin }},
		{"seed", "", "DLOCKCTL_SEED", [5]string{"false", "true", "false", "true", ""}, func(c *config.Config) string { return fmt.Sprint(c.Seed) }},
		{"lock.dsn", "", "DLOCKCTL_LOCK_DSN", [5]string{"", "host=file", "host=profile", "host=env", ""}, func(c *config.Config) string { return c.Lock.DSN.Reveal() }},
		{"pay.dsn", "", "DLOCKCTL_PAY_DSN", [5]string{"", "host=file", "host=profile", "host=env", ""}, func(c *config.Config) string { return c.Pay.DSN.Reveal() }},
		{"rail.dsn", "", "DLOCKCTL_RAIL_DSN", [5]string{"", "host=file", "host=profile", "host=env", ""}, func(c *config.Config) string { return c.Rail.DSN.Reveal() }},
		{"rail.dsn_file", "rail-dsn-file", "DLOCKCTL_RAIL_DSN_FILE", [5]string{"", "/r/file", "/r/profile", "/r/env", "/r/flag"}, func(c *config.Config) string { return c.Rail.DSNFile }},
		{"rail.url", "rail-url", "DLOCKCTL_RAIL_URL", [5]string{"", "http://file", "http://profile", "http://env", "http://flag"}, func(c *config.Config) string { return c.Rail.URL }},
		{"rail.key_file", "rail-key-file", "DLOCKCTL_RAIL_KEY_FILE", [5]string{"", "/k/file", "/k/profile", "/k/env", "/k/flag"}, func(c *config.Config) string { return c.Rail.KeyFile }},
		{"rail.deadline", "rail-deadline", "DLOCKCTL_RAIL_DEADLINE", [5]string{"10s", "1s", "2s", "3s", "4s"}, func(c *config.Config) string { return c.Rail.Deadline.String() }},
		{"rail.proxy.fencing.enabled", "", "DLOCKCTL_RAIL_PROXY_FENCING_ENABLED", [5]string{"true", "false", "true", "false", ""}, func(c *config.Config) string { return fmt.Sprint(c.Rail.Proxy.Fencing.Enabled) }},
		{"payment.fencing.enabled", "", "DLOCKCTL_PAYMENT_FENCING_ENABLED", [5]string{"true", "false", "true", "false", ""}, func(c *config.Config) string { return fmt.Sprint(c.Payment.Fencing.Enabled) }},
		{"serve.listen", "listen", "DLOCKCTL_SERVE_LISTEN", [5]string{"", ":1", ":2", ":3", ":4"}, func(c *config.Config) string { return c.Serve.Listen }},
		{"serve.tls_cert_file", "tls-cert-file", "DLOCKCTL_SERVE_TLS_CERT_FILE", [5]string{"", "/f/file", "/f/profile", "/f/env", "/f/flag"}, func(c *config.Config) string { return c.Serve.TLSCertFile }},
		{"serve.tls_key_file", "tls-key-file", "DLOCKCTL_SERVE_TLS_KEY_FILE", [5]string{"", "/f/file", "/f/profile", "/f/env", "/f/flag"}, func(c *config.Config) string { return c.Serve.TLSKeyFile }},
		{"serve.client_ca_file", "client-ca-file", "DLOCKCTL_SERVE_CLIENT_CA_FILE", [5]string{"", "/f/file", "/f/profile", "/f/env", "/f/flag"}, func(c *config.Config) string { return c.Serve.ClientCAFile }},
		{"serve.keys_file", "keys-file", "DLOCKCTL_SERVE_KEYS_FILE", [5]string{"", "/f/file", "/f/profile", "/f/env", "/f/flag"}, func(c *config.Config) string { return c.Serve.KeysFile }},
		{"serve.drain", "drain", "DLOCKCTL_SERVE_DRAIN", [5]string{"20s", "1s", "2s", "3s", "4s"}, func(c *config.Config) string { return c.Serve.Drain.String() }},
		{"serve.rate", "rate", "DLOCKCTL_SERVE_RATE", [5]string{"2000", "1", "2", "3", "4"}, func(c *config.Config) string { return fmt.Sprint(c.Serve.Rate) }},
		{"serve.log_format", "log-format", "DLOCKCTL_SERVE_LOG_FORMAT", [5]string{"text", "json", "text", "json", "text"}, func(c *config.Config) string { return c.Serve.LogFormat }},
		{"serve.log_level", "log-level", "DLOCKCTL_SERVE_LOG_LEVEL", [5]string{"info", "debug", "warn", "error", "info"}, func(c *config.Config) string { return c.Serve.LogLevel }},
		{"services.lock_url", "lock-url", "DLOCKCTL_SERVICES_LOCK_URL", [5]string{"http://127.0.0.1:7420", "http://file", "http://profile", "http://env", "http://flag"}, func(c *config.Config) string { return c.Services.LockURL }},
		{"services.pay_url", "pay-url", "DLOCKCTL_SERVICES_PAY_URL", [5]string{"http://127.0.0.1:7421", "http://file", "http://profile", "http://env", "http://flag"}, func(c *config.Config) string { return c.Services.PayURL }},
		{"services.rail_url", "rail-proxy-url", "DLOCKCTL_SERVICES_RAIL_URL", [5]string{"http://127.0.0.1:7422", "http://file", "http://profile", "http://env", "http://flag"}, func(c *config.Config) string { return c.Services.RailURL }},
		{"services.key_file", "key-file", "DLOCKCTL_SERVICES_KEY_FILE", [5]string{"", "/f/file", "/f/profile", "/f/env", "/f/flag"}, func(c *config.Config) string { return c.Services.KeyFile }},
		{"services.ca_file", "ca-file", "DLOCKCTL_SERVICES_CA_FILE", [5]string{"", "/f/file", "/f/profile", "/f/env", "/f/flag"}, func(c *config.Config) string { return c.Services.CAFile }},
		{"services.cert_file", "cert-file", "DLOCKCTL_SERVICES_CERT_FILE", [5]string{"", "/f/file", "/f/profile", "/f/env", "/f/flag"}, func(c *config.Config) string { return c.Services.CertFile }},
		{"services.cert_key_file", "cert-key-file", "DLOCKCTL_SERVICES_CERT_KEY_FILE", [5]string{"", "/f/file", "/f/profile", "/f/env", "/f/flag"}, func(c *config.Config) string { return c.Services.CertKeyFile }},
		{"server.url", "server", "DLOCKCTL_SERVER_URL", [5]string{"", "http://file", "http://profile", "http://env", "http://flag"}, func(c *config.Config) string { return c.Server.URL }},
		{"server.key_file", "", "DLOCKCTL_SERVER_KEY_FILE", [5]string{"", "/f/file", "/f/profile", "/f/env", ""}, func(c *config.Config) string { return c.Server.KeyFile }},
		{"server.ca_file", "", "DLOCKCTL_SERVER_CA_FILE", [5]string{"", "/f/file", "/f/profile", "/f/env", ""}, func(c *config.Config) string { return c.Server.CAFile }},
		{"server.cert_file", "", "DLOCKCTL_SERVER_CERT_FILE", [5]string{"", "/f/file", "/f/profile", "/f/env", ""}, func(c *config.Config) string { return c.Server.CertFile }},
		{"server.cert_key_file", "", "DLOCKCTL_SERVER_CERT_KEY_FILE", [5]string{"", "/f/file", "/f/profile", "/f/env", ""}, func(c *config.Config) string { return c.Server.CertKeyFile }},
		{"backend", "backend", "DLOCKCTL_BACKEND", [5]string{"postgres", "syncguard", "postgres", "syncguard", "postgres"}, func(c *config.Config) string { return c.Backend }},
		{"etcd.endpoints", "etcd-endpoints", "DLOCKCTL_ETCD_ENDPOINTS", [5]string{"", "http://file:1", "http://profile:1,http://p2:1", "http://env:1,http://e2:1", "http://flag:1"}, func(c *config.Config) string { return strings.Join(c.Etcd.Endpoints, ",") }},
		{"etcd.prefix", "", "DLOCKCTL_ETCD_PREFIX", [5]string{"dlockctl/", "/file/", "/profile/", "/env/", ""}, func(c *config.Config) string { return c.Etcd.Prefix }},
		{"etcd.ca_file", "", "DLOCKCTL_ETCD_CA_FILE", [5]string{"", "/f/file", "/f/profile", "/f/env", ""}, func(c *config.Config) string { return c.Etcd.CAFile }},
		{"etcd.cert_file", "", "DLOCKCTL_ETCD_CERT_FILE", [5]string{"", "/f/file", "/f/profile", "/f/env", ""}, func(c *config.Config) string { return c.Etcd.CertFile }},
		{"etcd.key_file", "", "DLOCKCTL_ETCD_KEY_FILE", [5]string{"", "/f/file", "/f/profile", "/f/env", ""}, func(c *config.Config) string { return c.Etcd.KeyFile }},
		{"etcd.user", "", "DLOCKCTL_ETCD_USER", [5]string{"", "u-file", "u-profile", "u-env", ""}, func(c *config.Config) string { return c.Etcd.User }},
		{"etcd.password_file", "", "DLOCKCTL_ETCD_PASSWORD_FILE", [5]string{"", "/f/file", "/f/profile", "/f/env", ""}, func(c *config.Config) string { return c.Etcd.PasswordFile }},
		{"syncguard.lock_table", "", "DLOCKCTL_SYNCGUARD_LOCK_TABLE", [5]string{"syncguard_locks", "l_file", "l_profile", "l_env", ""}, func(c *config.Config) string { return c.SyncGuard.LockTable }},
		{"syncguard.fence_table", "", "DLOCKCTL_SYNCGUARD_FENCE_TABLE", [5]string{"syncguard_fence_counters", "f_file", "f_profile", "f_env", ""}, func(c *config.Config) string { return c.SyncGuard.FenceTable }},
		{"lock.dsn_file", "lock-dsn-file", "DLOCKCTL_LOCK_DSN_FILE", [5]string{"", "/l/file", "/l/profile", "/l/env", "/l/flag"}, func(c *config.Config) string { return c.Lock.DSNFile }},
		{"pay.dsn_file", "pay-dsn-file", "DLOCKCTL_PAY_DSN_FILE", [5]string{"", "/p/file", "/p/profile", "/p/env", "/p/flag"}, func(c *config.Config) string { return c.Pay.DSNFile }},
	}
	layers := []config.Layer{config.Default, config.File, config.Profile, config.Env, config.Flag}
	for _, k := range keys {
		for top := range layers {
			if layers[top] == config.Flag && k.flag == "" {
				continue
			}
			t.Run(k.key+"/"+string(layers[top]), func(t *testing.T) {
				t.Parallel()
				file, env, flags := "", map[string]string{}, map[string]string{}
				if top >= 1 {
					file = yamlOf(k.key, k.values[1], "")
				}
				if top >= 2 {
					file += "profile: prod\nprofiles:\n  prod:\n" + yamlOf(k.key, k.values[2], "    ")
				}
				if top >= 3 {
					env[k.env] = k.values[3]
				}
				if top >= 4 {
					flags[k.flag] = k.values[4]
				}
				cfg, err := config.Load(sources(t, file, env, flags))
				if err != nil {
					t.Fatal(err)
				}
				if got := k.get(cfg); got != k.values[top] {
					t.Errorf("%s = %q, want %q", k.key, got, k.values[top])
				}
				if got := cfg.Origin(k.key).Layer; got != layers[top] {
					t.Errorf("origin of %s = %s, want %s", k.key, got, layers[top])
				}
			})
		}
	}
}

func yamlOf(key, value, indent string) string {
	if outer, inner, nested := strings.Cut(key, "."); nested {
		return fmt.Sprintf("%s%s:\n%s", indent, outer, yamlOf(inner, value, indent+"  "))
	}
	return fmt.Sprintf("%s%s: %q\n", indent, key, value)
}

func TestProfileChoice(t *testing.T) {
	t.Parallel()
	file := "profile: a\nprofiles:\n  a: {operator: oa}\n  b: {operator: ob}\n  c: {operator: oc}\n"
	for _, c := range []struct {
		name       string
		env, flags map[string]string
		want       string
	}{
		{"file", nil, nil, "oa"},
		{"environment", map[string]string{"DLOCKCTL_PROFILE": "b"}, nil, "ob"},
		{"flag", map[string]string{"DLOCKCTL_PROFILE": "b"}, map[string]string{"profile": "c"}, "oc"},
	} {
		cfg, err := config.Load(sources(t, file, c.env, c.flags))
		if err != nil {
			t.Fatal(err)
		}
		if cfg.Operator != c.want || "o"+cfg.Profile != c.want {
			t.Errorf("%s: operator %q of profile %q, want %q", c.name, cfg.Operator, cfg.Profile, c.want)
		}
	}
}

// A DSN given on a higher layer takes back a DSN file from a lower one, and
// the other way round; both on one layer contradict each other.
//
// Mutation: take the twin block out of lay.
func TestDSNTwins(t *testing.T) {
	t.Parallel()
	dsnFile := filepath.Join(t.TempDir(), "dsn")
	if err := os.WriteFile(dsnFile, []byte("host=from-file\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, file string
		env, flags map[string]string
		want       string
	}{
		{"environment over file", "lock: {dsn_file: /nowhere}", map[string]string{"DLOCKCTL_LOCK_DSN": "host=env"}, nil, "host=env"},
		{"flag over environment", "", map[string]string{"DLOCKCTL_LOCK_DSN": "host=env"}, map[string]string{"lock-dsn-file": dsnFile}, "host=from-file"},
		{"profile over file", "lock: {dsn: host=file}\nprofile: p\nprofiles: {p: {lock: {dsn_file: " + dsnFile + "}}}", nil, nil, "host=from-file"},
	} {
		cfg, err := config.Load(sources(t, c.file, c.env, c.flags))
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		if got, err := cfg.Lock.Read(); got != c.want || err != nil {
			t.Errorf("%s: %q, %v", c.name, got, err)
		}
	}
	both := map[string]string{"DLOCKCTL_PAY_DSN": "host=a", "DLOCKCTL_PAY_DSN_FILE": "/b"}
	if _, err := config.Load(sources(t, "", both, nil)); err == nil || !strings.Contains(err.Error(), "both pay.dsn and pay.dsn_file") {
		t.Errorf("both in the environment: %v", err)
	}
	if _, err := config.Load(sources(t, "pay: {dsn: host=a, dsn_file: /b}", nil, nil)); err == nil || !strings.Contains(err.Error(), "both pay.dsn and pay.dsn_file") {
		t.Errorf("both in the file: %v", err)
	}
}

// Each refusal names the key, the value (unless it may be a secret) and where
// it came from; none shows a DSN.
//
// Mutation: Unmarshal instead of UnmarshalExact.
func TestRefusals(t *testing.T) {
	t.Parallel()
	const secret = "hunter2secret"
	for _, c := range []struct {
		name, file string
		env, flags map[string]string
		want       []string
	}{
		{"unknown key", "operater: x", nil, nil, []string{"configuration: unknown key operater", "config.yaml"}},
		{"unknown nested key", "lock: {dns: " + secret + "}", nil, nil, []string{"lock", "unknown key dns"}},
		{"unknown key in an idle profile", "profiles: {p: {tiemout: 1s}}", nil, nil, []string{"unknown key tiemout"}},
		{"profile in a profile", "profiles: {p: {profile: q}}", nil, nil, []string{"unknown key profile"}},
		{"list for a DSN", "lock: {dsn: [" + secret + "]}", nil, nil, []string{"lock.dsn: it is a list, and must be one value", "config.yaml"}},
		{"map for a DSN", "lock: {dsn: {password: " + secret + "}}", nil, nil, []string{"lock.dsn: it is a section of keys, and must be one value"}},
		{"text for a map", "lock: " + secret, nil, nil, []string{"lock: it is a value, and must be a section of keys"}},
		{"the DSN as the whole file", "postgres://u:" + secret + "@h/db", nil, nil, []string{"config.yaml"}},
		{"broken YAML", "lock: [" + secret, nil, nil, []string{"config.yaml"}},
		{"profiles is a list", "profiles: [a]", nil, nil, []string{"profiles"}},
		{"no such profile", "profiles: {prod: {}}", nil, map[string]string{"profile": "Prod"}, []string{`"Prod" is not in`, "known are prod", "lower case"}},
		{"no profile at all", "", map[string]string{"DLOCKCTL_PROFILE": "prod"}, nil, []string{`"prod"`, "there are none"}},
		{"timeout without a unit in the file", "timeout: 30", nil, nil, []string{"timeout 30ns is too short", "30s", "config.yaml"}},
		{"timeout without a unit", "", map[string]string{"DLOCKCTL_TIMEOUT": "30"}, nil, []string{"timeout: it is no duration", "such as 30s", "DLOCKCTL_TIMEOUT"}},
		{"no number", "", map[string]string{"DLOCKCTL_SERVE_RATE": "many"}, nil, []string{"serve.rate: it is not a whole number", "DLOCKCTL_SERVE_RATE"}},
		{"negative timeout", "", nil, map[string]string{"timeout": "-1s"}, []string{"timeout -1s is too short", "--timeout"}},
		{"a mark below whoever calls", "", map[string]string{"DLOCKCTL_MARK_DIR": "marks"}, nil, []string{`mark_dir "marks" is relative`, "DLOCKCTL_MARK_DIR"}},
		{"a policy that there is not", "restore: {auto: always}", nil, nil, []string{`restore.auto is "always"; it may be off or safe`, "config.yaml"}},
		{"an operator's DSN for its file", "restore: {operator_dsn_file: 'postgres://u:" + secret + "@h/db'}", nil, nil, []string{"restore.operator_dsn_file is a connection string"}},
		{"no payments, and a paydb", "no_payments: true\npay: {dsn_file: /p}", nil, nil, []string{"there is a paydb", "config.yaml"}},
		{"no payments, and the embedded paydb", "no_payments: true", nil, nil, []string{"there is a paydb"}},
		{"no payments by a variable", "", map[string]string{"DLOCKCTL_NO_PAYMENTS": "true"}, nil, []string{"DLOCKCTL_NO_PAYMENTS is not read"}},
		{"fencing off where it is protected", "profiles: {prod: {protected: true}}", map[string]string{"DLOCKCTL_PAYMENT_FENCING_ENABLED": "false"}, map[string]string{"profile": "prod"}, []string{"payment.fencing.enabled is off", "prod is protected", "DLOCKCTL_PAYMENT_FENCING_ENABLED"}},
		{"the rail's fencing off where it is protected", "profiles: {prod: {protected: true, rail: {proxy: {fencing: {enabled: false}}}}}", nil, map[string]string{"profile": "prod"}, []string{"rail.proxy.fencing.enabled is off"}},
		{"a key in an address", "", map[string]string{"DLOCKCTL_SERVER_URL": "http://u:" + secret + "@h"}, nil, []string{"server.url is malformed or holds a password", "DLOCKCTL_SERVER_URL"}},
		{"a rate below nothing", "", nil, map[string]string{"rate": "-1"}, []string{"serve.rate -1 is negative", "--rate"}},
		{"a drain below nothing", "", nil, map[string]string{"drain": "-1s"}, []string{"serve.drain -1s is negative", "--drain"}},
		{"no time for the rail", "rail: {deadline: 0s}", nil, nil, []string{"rail.deadline 0s is not above 0"}},
		{"no boolean", "", map[string]string{"DLOCKCTL_SEED": "perhaps"}, nil, []string{"seed: it is neither true nor false", "DLOCKCTL_SEED"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			_, err := config.Load(sources(t, c.file, c.env, c.flags))
			if err == nil {
				t.Fatal("accepted")
			}
			for _, part := range c.want {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("message %q does not say %q", err, part)
				}
			}
			if strings.Contains(err.Error(), secret) || strings.Contains(err.Error(), "\n") {
				t.Errorf("message shows the secret or has several lines: %q", err)
			}
		})
	}
}

func TestNothingConfigured(t *testing.T) {
	t.Parallel()
	cfg, err := config.Load(sources(t, "", nil, nil))
	if err != nil {
		t.Fatal(err)
	}
	if !cfg.Embedded() || cfg.Timeout != 30*time.Second || cfg.Output != "table" || cfg.File != "" {
		t.Errorf("got %+v", cfg)
	}
	cfg, err = config.Load(sources(t, "", map[string]string{"DLOCKCTL_PAY_DSN": "host=h"}, nil))
	if err != nil {
		t.Fatal(err)
	}
	if cfg.Embedded() {
		t.Error("one configured database is mixed with an embedded one")
	}
}

func TestDefaultFile(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	write := func(parts ...string) {
		path := filepath.Join(append([]string{home}, parts...)...)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("operator: "+parts[0]+"\nlock: {dsn_file: here}"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(".config", "dlockctl", "config.yaml")
	write("xdg", "dlockctl", "config.yaml")
	for want, env := range map[string]map[string]string{
		".config": {"HOME": home},
		"xdg":     {"HOME": home, "XDG_CONFIG_HOME": filepath.Join(home, "xdg")},
		"":        {"HOME": filepath.Join(home, "empty")},
	} {
		cfg, err := config.Load(sources(t, "", env, nil))
		if err != nil {
			t.Fatal(err)
		}
		if cfg.Operator != want {
			t.Errorf("operator = %q, want %q", cfg.Operator, want)
		}
		// A relative path in the file is relative to the file.
		if want != "" && cfg.Lock.DSNFile != filepath.Join(home, want, "dlockctl", "here") {
			t.Errorf("dsn_file = %q", cfg.Lock.DSNFile)
		}
	}
	missing := config.Sources{File: filepath.Join(home, "no.yaml"), Env: func(string) string { return "" }, Flag: func(string) (string, bool) { return "", false }}
	if _, err := config.Load(missing); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a named file that is missing: %v", err)
	}
}

// Mutation: read at most `most` bytes in readSecret, and no more.
func TestDSNFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for text, want := range map[string]string{
		"postgres://u:p@h/db\n":       "postgres://u:p@h/db",
		"  host=h password='a b'\r\n": "host=h password='a b'",
		"":                            "",
		"\n":                          "",
		"host=a\nhost=b":              "",
	} {
		path := filepath.Join(dir, fmt.Sprintf("f%x", text))
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := config.Database{DSNFile: path}.Read()
		if got != want || (err == nil) != (want != "") {
			t.Errorf("file %q: %q, %v", text, got, err)
		}
	}
	long := filepath.Join(dir, "long")
	if err := os.WriteFile(long, []byte("host=h"+strings.Repeat(" ", 64<<10)), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := (config.Database{DSNFile: long}).Read(); err == nil || !strings.Contains(err.Error(), "is longer than 65536 bytes") {
		t.Errorf("a long file: %q, %v", got, err)
	}
	if _, err := (config.Database{DSNFile: filepath.Join(dir, "no")}).Read(); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("missing file: %v", err)
	}
}

// Mutation: take String off Secret.
func TestSecretPrintsMasked(t *testing.T) {
	t.Parallel()
	cfg, err := config.Load(sources(t, "", map[string]string{"DLOCKCTL_LOCK_DSN": "postgres://u:hunter2@h/db"}, nil))
	if err != nil {
		t.Fatal(err)
	}
	asJSON, err := json.Marshal(cfg)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{fmt.Sprint(cfg), fmt.Sprintf("%+v %#v %s %q", cfg, cfg, cfg.Lock, cfg.Lock.DSN), string(asJSON)} {
		if strings.Contains(text, "hunter2") {
			t.Errorf("shows the secret: %s", text)
		}
	}
	if diff := cmp.Diff("postgres://u:hunter2@h/db", cfg.Lock.DSN.Reveal()); diff != "" {
		t.Error(diff)
	}
}

package config_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dlockctl/dlockctl/internal/config"
)

// Protection is the file's to say: the profile that stands, or the one whose
// environment is reached by another way.
//
// Mutation: look at the profile in force alone.
func TestProtection(t *testing.T) {
	t.Parallel()
	const file = `
profiles:
  prod: {protected: true, environment: prod-eu}
  open: {environment: prod-us}
  bare: {protected: true}
`
	for _, c := range []struct {
		name       string
		env, flags map[string]string
		want       string
	}{
		{"nothing", nil, nil, ""},
		{"profile", nil, map[string]string{"profile": "prod"}, "prod"},
		{"profile without an environment", nil, map[string]string{"profile": "bare"}, "bare"},
		{"open profile", nil, map[string]string{"profile": "open"}, ""},
		{"its environment", map[string]string{"DLOCKCTL_ENVIRONMENT": "prod-eu"}, nil, "prod"},
		{"its environment over an open profile", map[string]string{"DLOCKCTL_PROFILE": "open"}, map[string]string{"environment": "prod-eu"}, "prod"},
		{"another environment under its name", nil, map[string]string{"profile": "prod", "environment": "test"}, "prod"},
	} {
		cfg, err := config.Load(sources(t, file, c.env, c.flags))
		if err != nil {
			t.Fatal(err)
		}
		got, protected := cfg.Protection()
		if got != c.want || protected != (c.want != "") {
			t.Errorf("%s: protected by %q (%v), want %q", c.name, got, protected, c.want)
		}
	}
	for _, value := range []string{"true", "false"} {
		if _, err := config.Load(sources(t, file, map[string]string{"DLOCKCTL_PROTECTED": value}, nil)); err == nil || !strings.Contains(err.Error(), "DLOCKCTL_PROTECTED") {
			t.Errorf("DLOCKCTL_PROTECTED=%s: %v", value, err)
		}
	}
}

// The embedded instances are an environment of their own; others have none
// unless one is named.
func TestEnvironment(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		file string
		env  map[string]string
		want string
	}{
		{"", nil, "dev"},
		{"", map[string]string{"DLOCKCTL_LOCK_DSN": "host=h"}, ""},
		{"", map[string]string{"DLOCKCTL_ENVIRONMENT": "prod"}, "prod"},
		{"environment: file\n", nil, "file"},
	} {
		cfg, err := config.Load(sources(t, c.file, c.env, nil))
		if err != nil || cfg.Environment != c.want {
			t.Errorf("%q, %v: environment %q, %v, want %q", c.file, c.env, cfg.Environment, err, c.want)
		}
	}
	for _, name := range []string{"Prod", "a b", "-a", strings.Repeat("a", 64), "prod\n"} {
		if _, err := config.Load(sources(t, "", map[string]string{"DLOCKCTL_ENVIRONMENT": name}, nil)); err == nil {
			t.Errorf("environment %q is taken", name)
		}
	}
}

// Every key of the table is shown, and none but those.
//
// Mutation: leave a key out of Values.
func TestValues(t *testing.T) {
	t.Parallel()
	env := map[string]string{}
	keys := []string{
		"profile", "environment", "protected",
		"backend", "etcd.endpoints", "etcd.prefix", "etcd.ca_file", "etcd.cert_file", "etcd.key_file", "etcd.user", "etcd.password_file", "syncguard.lock_table", "syncguard.fence_table",
		"lock.dsn", "lock.dsn_file", "pay.dsn", "pay.dsn_file", "rail.dsn", "rail.dsn_file", "rail.url", "rail.key_file",
		"rail.deadline", "rail.proxy.fencing.enabled", "payment.fencing.enabled", "serve.listen", "serve.tls_cert_file", "serve.tls_key_file",
		"serve.client_ca_file", "serve.keys_file", "serve.drain", "serve.rate", "serve.log_format", "serve.log_level",
		"services.lock_url", "services.pay_url", "services.rail_url", "services.key_file", "services.ca_file", "services.cert_file",
		"services.cert_key_file", "server.url", "server.key_file", "server.ca_file", "server.cert_file", "server.cert_key_file",
		"operator", "session", "output", "color",
		"timeout", "allow_same_instance", "no_payments", "mark_dir", "restore.auto", "restore.operator_dsn_file", "restore.pay_operator_dsn_file", "state_dir", "pg_bin", "seed",
	}
	given := map[string]string{
		"backend": "etcd", "etcd.endpoints": "https://a:1,https://b:2", "etcd.prefix": "/p/", "etcd.ca_file": "/etcd.ca_file", "etcd.cert_file": "/etcd.cert_file", "etcd.key_file": "/etcd.key_file",
		"etcd.user": "u", "etcd.password_file": "/etcd.password_file", "syncguard.lock_table": "l", "syncguard.fence_table": "f",
		"environment": "e", "lock.dsn": "host=h password=hunter2", "pay.dsn_file": "/p", "operator": "o", "session": "hunter2", "output": "json",
		"color": "never", "timeout": "5s", "allow_same_instance": "true", "mark_dir": "/m", "restore.auto": "safe", "restore.operator_dsn_file": "/lo", "restore.pay_operator_dsn_file": "/po", "rail.url": "https://rail.example/v1", "rail.key_file": "/k", "state_dir": "/s", "pg_bin": "/b", "seed": "true",
		"rail.deadline": "7s", "rail.proxy.fencing.enabled": "false", "payment.fencing.enabled": "false", "serve.listen": ":1",
		"serve.tls_cert_file": "/serve.tls_cert_file", "serve.tls_key_file": "/serve.tls_key_file", "serve.client_ca_file": "/serve.client_ca_file", "serve.keys_file": "/serve.keys_file",
		"serve.drain": "7s", "serve.rate": "7", "serve.log_format": "json", "serve.log_level": "warn",
		"services.lock_url": "http://services-lock-url", "services.pay_url": "http://services-pay-url", "services.rail_url": "http://services-rail-url", "services.key_file": "/services.key_file",
		"services.ca_file": "/services.ca_file", "services.cert_file": "/services.cert_file", "services.cert_key_file": "/services.cert_key_file", "server.url": "http://server-url",
		"server.key_file": "/server.key_file", "server.ca_file": "/server.ca_file", "server.cert_file": "/server.cert_file", "server.cert_key_file": "/server.cert_key_file",
	}
	want := map[string]string{"profile": "dev", "protected": "false", "no_payments": "false", "lock.dsn_file": "", "pay.dsn": "", "rail.dsn": "", "rail.dsn_file": ""}
	for key, value := range given {
		env["DLOCKCTL_"+strings.ToUpper(strings.ReplaceAll(key, ".", "_"))] = value
		want[key] = value
	}
	want["lock.dsn"], want["session"] = "host=h password=•••", "•••"
	cfg, err := config.Load(sources(t, "", env, nil))
	if err != nil {
		t.Fatal(err)
	}
	var order []string
	got := map[string]string{}
	for _, v := range cfg.Values() {
		order = append(order, v.Key)
		got[v.Key] = v.Text
	}
	if diff := cmp.Diff(keys, order); diff != "" {
		t.Errorf("keys (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("values (-want +got):\n%s", diff)
	}
}

// The file that init writes is read as it stands, is its owner's alone, and is
// never written over another.
//
// Mutation: open it without O_EXCL.
func TestInit(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "new", "folder", "config.yaml")
	if err := config.Init(path); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	if err := config.Init(path); !errors.Is(err, fs.ErrExist) {
		t.Errorf("over another: %v", err)
	}
	none := func(string) string { return "" }
	if _, err := config.Load(config.Sources{File: path, Env: none, Flag: func(string) (string, bool) { return "", false }}); err != nil {
		t.Errorf("as it stands: %v", err)
	}
	// With the comments taken off, every key in it is known.
	var lines []string
	for line := range strings.Lines(config.InitText()) {
		trimmed := strings.TrimLeft(line, " ")
		body, commented := strings.CutPrefix(trimmed, "# ")
		if commented && strings.Contains(body, ":") && !strings.Contains(body, "Or: ") && (body[0] >= 'a' && body[0] <= 'z' || body[0] == ' ') {
			line = line[:len(line)-len(trimmed)] + body
		}
		lines = append(lines, line)
	}
	src := sources(t, strings.Join(lines, ""), nil, map[string]string{"profile": "prod"})
	cfg, err := config.Load(src)
	if err != nil {
		t.Fatalf("%v in:\n%s", err, strings.Join(lines, ""))
	}
	if !cfg.Protected || cfg.Environment != "prod" || !strings.HasSuffix(cfg.Lock.DSNFile, "lockdb-prod.dsn") || cfg.Operator != "alice@ops" {
		t.Errorf("got %+v", cfg)
	}
}

func FuzzLoad(f *testing.F) {
	for _, seed := range []string{config.InitText(), "profiles:\n  a: {lock: {dsn: x}}\n", "timeout: .nan\n", "profiles: [1]\n", "lock: 1\n", "a: &a [*a]\n", "\x00"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		path := filepath.Join(t.TempDir(), "c.yaml")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		cfg, err := config.Load(config.Sources{File: path, Env: func(string) string { return "" }, Flag: func(string) (string, bool) { return "", false }})
		switch {
		case err != nil && strings.Contains(err.Error(), "\n"):
			t.Errorf("an error of several lines: %q", err)
		case err == nil && cfg.Timeout <= 0:
			t.Errorf("timeout %s is taken", cfg.Timeout)
		}
	})
}

package config_test

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dlockctl/dlockctl/internal/config"
)

// Each refusal of a backend names the value and what to write instead, and shows no
// password.
//
// Mutation: take a case out of validateEtcd or validateBackend.
func TestBackendRefusals(t *testing.T) {
	t.Parallel()
	const secret = "hunter2secret"
	for _, c := range []struct {
		name, file string
		want       []string
	}{
		{"a backend that there is not", "backend: redis", []string{`backend is "redis"; it may be postgres, etcd, syncguard`, "config.yaml"}},
		{"etcd without a place", "backend: etcd", []string{"backend is etcd, and etcd.endpoints is not set", "https://etcd-1.example:2379"}},
		{"no address", "etcd: {endpoints: ['etcd-1:2379']}", []string{`etcd.endpoints has "etcd-1:2379"; give https://host:port`}},
		{"no port", "etcd: {endpoints: ['https://etcd-1']}", []string{`etcd.endpoints has "https://etcd-1"; give https://host:port`}},
		{"a path", "etcd: {endpoints: ['https://etcd-1:2379/v3']}", []string{`etcd.endpoints has "https://etcd-1:2379/v3"`}},
		{"a password in an address", "etcd: {endpoints: ['https://u:" + secret + "@etcd-1:2379']}", []string{"holds a password, so it is not shown", "etcd.user"}},
		{"half of it in the clear", "etcd: {endpoints: ['https://a:1', 'http://b:1']}", []string{"http:// and https:// addresses"}},
		{"a certificate for nothing", "etcd: {endpoints: ['http://a:1'], ca_file: /ca}", []string{"etcd.ca_file is set, and etcd.endpoints are http://"}},
		{"half a certificate", "etcd: {endpoints: ['https://a:1'], cert_file: /c}", []string{"etcd.cert_file and etcd.key_file belong together"}},
		{"a user without a password", "etcd: {endpoints: ['https://a:1'], user: u}", []string{`etcd.user is "u", and etcd.password_file is not set`}},
		{"a password without a user", "etcd: {endpoints: ['https://a:1'], password_file: /p}", []string{"etcd.password_file is set, and etcd.user is not"}},
		{"a password in the clear", "etcd: {endpoints: ['http://127.0.0.1:1', 'http://a:1'], user: u, password_file: /p}", []string{"would reach etcd in the clear"}},
		{"a table that SyncGuard does not take", "syncguard: {lock_table: app.locks}", []string{`syncguard.lock_table "app.locks"`, "search_path"}},
		{"the audit's own table", "syncguard: {lock_table: dlockctl_syncguard_audit}", []string{`syncguard.lock_table "dlockctl_syncguard_audit"`, "this program's own"}},
		{"the history in capitals", "syncguard: {fence_table: DLOCKCTL_syncguard_history}", []string{`syncguard.fence_table "DLOCKCTL_syncguard_history"`, "this program's own"}},
		{"a catalogue", "syncguard: {lock_table: pg_class}", []string{`syncguard.lock_table "pg_class"`, "PostgreSQL's own"}},
		{"one table for both", "syncguard: {lock_table: t, fence_table: t}", []string{`are both "t"`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			_, err := config.Load(sources(t, c.file, nil, nil))
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

// An etcd beside a paydb is no contradiction, a list may stand in the file or be
// parted by commas in the environment, and files are found beside the file. With
// etcd nothing is embedded.
//
// Mutation: take c.Backend != Etcd out of Embedded.
func TestEtcdBesidePaydb(t *testing.T) {
	t.Parallel()
	file := "etcd:\n  endpoints:\n  - https://a:2379\n  - https://b:2379\n  ca_file: ca.pem\n  user: dlock\n  password_file: etcd.password\n"
	src := sources(t, file, map[string]string{"DLOCKCTL_BACKEND": "etcd"}, nil)
	cfg, err := config.Load(src)
	if err != nil {
		t.Fatal(err)
	}
	want := config.EtcdCluster{
		Endpoints: []string{"https://a:2379", "https://b:2379"}, Prefix: "dlockctl/", CAFile: filepath.Join(filepath.Dir(src.File), "ca.pem"),
		User: "dlock", PasswordFile: filepath.Join(filepath.Dir(src.File), "etcd.password"),
	}
	if diff := cmp.Diff(want, cfg.Etcd); diff != "" {
		t.Errorf("etcd (-want +got):\n%s", diff)
	}
	if got := (config.EtcdCluster{Endpoints: []string{"https://a:1", "https://u:hunter2@b:1"}}).Describe(); got != "etcd https://a:1,•••" {
		t.Errorf("described as %q", got)
	}
	if cfg.Embedded() || !cfg.Etcd.Secure() {
		t.Errorf("embedded %v, secure %v", cfg.Embedded(), cfg.Etcd.Secure())
	}
	src = sources(t, file, map[string]string{"DLOCKCTL_BACKEND": "etcd", "DLOCKCTL_ETCD_ENDPOINTS": "https://c:1,https://d:1", "DLOCKCTL_PAY_DSN": "host=p", "DLOCKCTL_LOCK_DSN": "host=l"}, nil)
	if cfg, err = config.Load(src); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"https://c:1", "https://d:1"}, cfg.Etcd.Endpoints); diff != "" {
		t.Errorf("endpoints (-want +got):\n%s", diff)
	}
}

// A file of a password holds one line, is read whole or not at all, and is nobody
// else's.
//
// Mutation: return the whole text as the password; or leave most+1 or private out of
// what reads it.
func TestEtcdPassword(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for text, want := range map[string]string{"se cret\n": "se cret", "secret\r\n": "secret", "secret": "secret", "": "", "\n": "", "a\nb\n": ""} {
		path := filepath.Join(dir, "p")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := config.EtcdCluster{PasswordFile: path}.Password()
		if got != want || (err == nil) != (want != "") {
			t.Errorf("file %q: %q, %v", text, got, err)
		}
		if err != nil && (strings.Contains(err.Error(), "a\nb") || !strings.Contains(err.Error(), path)) {
			t.Errorf("file %q: %v", text, err)
		}
	}
	long := filepath.Join(dir, "long")
	for _, c := range []struct {
		length int
		want   string
	}{{4096, ""}, {4097, "is longer than 4096 bytes"}} {
		if err := os.WriteFile(long, []byte(strings.Repeat("x", c.length)), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := config.EtcdCluster{PasswordFile: long}.Password()
		if (c.want == "") != (len(got) == c.length) || (c.want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%d bytes: %d of them, %v", c.length, len(got), err)
		}
	}
	if got, err := (config.EtcdCluster{}).Password(); got != "" || err != nil {
		t.Errorf("no file: %q, %v", got, err)
	}
}

// A password that others can read or change is refused; the group may read it.
//
// Mutation: leave private out of Password, or take a bit out of 0o027.
func TestEtcdPasswordMode(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		return // its files have no such modes
	}
	path := filepath.Join(t.TempDir(), "p")
	if err := os.WriteFile(path, []byte("hunter2secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for mode, accepted := range map[os.FileMode]bool{0o400: true, 0o600: true, 0o640: true, 0o660: false, 0o620: false, 0o644: false, 0o602: false, 0o601: false} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		_, err := config.EtcdCluster{PasswordFile: path}.Password()
		if (err == nil) != accepted {
			t.Errorf("mode %04o: %v", mode, err)
		}
		if err != nil && (!strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), fmt.Sprintf("%04o", mode)) || !strings.Contains(err.Error(), "chmod 600") || strings.Contains(err.Error(), "hunter2")) {
			t.Errorf("mode %04o: %v", mode, err)
		}
	}
}

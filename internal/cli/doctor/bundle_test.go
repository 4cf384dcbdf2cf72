package doctor_test

import (
	"archive/tar"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dlockctl/dlockctl/internal/cli"
	"github.com/dlockctl/dlockctl/internal/cli/app"
	"github.com/dlockctl/dlockctl/internal/ui"
)

// unpack reads a bundle.
func unpack(t *testing.T, path string) map[string]string {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	packed, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for archive := tar.NewReader(packed); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(archive)
		if err != nil {
			t.Fatal(err)
		}
		files[strings.TrimPrefix(header.Name, "dlockctl-bundle/")] = string(text)
	}
}

// A bundle holds every answer and no secret, wherever that was planted: in the
// connection strings, as a session id, in a reason that somebody pasted one into.
//
// Clauses: K-2.12
// Mutation: have cleaner return the text as it is, or print sessions in full.
func TestBundleHoldsNoSecret(t *testing.T) {
	t.Parallel()
	p := newPatient(t)
	env := p.env(t, "t_operator")
	run := func(args ...string) (app.Exit, string, string) {
		streams, out, errOut := ui.Test("", env)
		return cli.Run(t.Context(), app.New(streams, args), args), out.String(), errOut.String()
	}
	const planted = "hunter2-planted"
	exit, out, errOut := run("acquire", "account:42", "--owner", "alice", "--jq", ".session_id")
	if exit != app.OK {
		t.Fatalf("acquire: exit %d, %s", exit, errOut)
	}
	session := strings.TrimSpace(out)
	if exit, _, errOut := run("acquire", "account:43", "--owner", "bob"); exit != app.OK {
		t.Fatalf("acquire: exit %d, %s", exit, errOut)
	}
	reason := "stuck; see postgres://ops:" + planted + "@db/lockdb, password=" + planted + "2, Bearer " + planted + "3"
	if exit, _, errOut := run("revoke", "account:43", "--any-token", "--yes", "--reason", reason); exit != app.OK {
		t.Fatalf("revoke: exit %d, %s", exit, errOut)
	}
	env["DLOCKCTL_SESSION"] = session
	path := filepath.Join(t.TempDir(), "bundle.tar.gz")
	if exit, out, errOut := run("doctor", "--bundle", path); exit != app.OK || !strings.Contains(out, path) {
		t.Fatalf("doctor --bundle: exit %d\n%s%s", exit, out, errOut)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the bundle is %v, %v", info.Mode(), err)
	}
	files := unpack(t, path)
	dsn, err := url.Parse(env["DLOCKCTL_LOCK_DSN"])
	if err != nil {
		t.Fatal(err)
	}
	password, _ := dsn.User.Password()
	if password == "" {
		t.Fatal("the test's own connection string has no password to look for")
	}
	for name, text := range files {
		for what, secret := range map[string]string{"what was pasted into a reason": planted, "a session": session, "a password": password} {
			if strings.Contains(text, secret) {
				t.Errorf("%s shows %s", name, what)
			}
		}
	}
	complete(t, files)
	if exit, _, errOut := run("doctor", "--bundle", path); exit != app.Refused || !strings.Contains(errOut, "already") {
		t.Errorf("over a file that is there: exit %d, %s", exit, errOut)
	}
}

// complete wants every part answered, and the answers to be those of the verbs.
func complete(t *testing.T, files map[string]string) {
	t.Helper()
	var index struct {
		Parts []struct {
			Command, File, Stderr string
			Exit                  int `json:"exit_code"`
		}
	}
	if err := json.Unmarshal([]byte(files["index.json"]), &index); err != nil {
		t.Fatal(err)
	}
	if len(index.Parts) < 12 || files["README.txt"] == "" {
		t.Errorf("the bundle lists %d parts", len(index.Parts))
	}
	for _, part := range index.Parts {
		if !json.Valid([]byte(files[part.File])) {
			t.Errorf("%s left %q, exit %d: %s", part.Command, files[part.File], part.Exit, part.Stderr)
		}
	}
	for file, want := range map[string]string{
		"lock-list-limit-1000.json": "account:42", "audit-list-limit-200.json": "[redacted]",
		"doctor.json": "lockdb_guards", "migrate-status.json": "V2__", "config-show-origin.json": "lock.dsn",
	} {
		if !strings.Contains(files[file], want) {
			t.Errorf("%s does not hold %q: %s", file, want, files[file])
		}
	}
}

package devenv_test

import (
	"archive/zip"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dlockctl/dlockctl/internal/devenv"
)

// The library's own download, from a server in this process: fetched, checked, unpacked, run as the unprivileged user;
// asked for once, and removed by destroy. Nothing is started by the library.
//
// Mutation: drop the chmod in fetchBinaries (as root); let download return the library's error in spite of the files.
func TestDownload(t *testing.T) {
	t.Parallel()
	jar := jarOf(t, bin(t, 16))
	var mu sync.Mutex
	var asked []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		asked = append(asked, filepath.Ext(r.URL.Path))
		mu.Unlock()
		if strings.HasSuffix(r.URL.Path, ".sha256") {
			sum := sha256.Sum256(jar)
			_, _ = w.Write([]byte(hex.EncodeToString(sum[:])))
			return
		}
		_, _ = w.Write(jar)
	}))
	defer server.Close()

	env, told := open(t, devenv.Options{
		StateDir: folder(t), Env: func(name string) string { return map[string]string{"DLOCKCTL_PG_REPOSITORY": server.URL}[name] },
	})
	env.SearchBelow(folder(t)) // a machine without PostgreSQL
	status := up(t, env)
	for _, i := range status.Instances {
		if want := filepath.Join(env.Dir(), "pgsql", "bin"); i.PGBin != want {
			t.Errorf("%s runs from %s, want %s", i.Name, i.PGBin, want)
		}
	}
	if !strings.Contains(told.text.String(), "downloading PostgreSQL 16") {
		t.Errorf("nothing was said of the download:\n%s", told.text.String())
	}
	if err := env.Down(t.Context()); err != nil {
		t.Fatal(err)
	}
	up(t, env)
	mu.Lock()
	defer mu.Unlock()
	if diff := cmp.Diff([]string{".jar", ".sha256"}, asked); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
	if err := env.Destroy(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(env.Dir()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("destroy left %s: %v", env.Dir(), err)
	}
}

// jarOf packs what the library expects: a zip of a tar.xz with bin/initdb, bin/pg_ctl and bin/postgres. They hand over
// to real ones, because 60 MB of these take the library's unpacker a minute under the race detector.
func jarOf(t *testing.T, realBin string) []byte {
	t.Helper()
	prefix := t.TempDir()
	for _, name := range []string{"initdb", "pg_ctl", "postgres"} {
		program(t, filepath.Join(prefix, "bin", name), `exec "`+filepath.Join(realBin, name)+`" "$@"`)
	}
	var txz, jar bytes.Buffer
	cmd := exec.CommandContext(t.Context(), "tar", "-C", prefix, "-c", "-J", "bin")
	cmd.Stdout = &txz
	if err := cmd.Run(); err != nil {
		t.Fatalf("pack %s: %v", prefix, err)
	}
	archive := zip.NewWriter(&jar)
	file, err := archive.CreateHeader(&zip.FileHeader{Name: "postgres-linux-x86_64.txz", Method: zip.Store})
	if err != nil {
		t.Fatal(err)
	}
	_, err = file.Write(txz.Bytes())
	if err := errors.Join(err, archive.Close()); err != nil {
		t.Fatal(err)
	}
	return jar.Bytes()
}

// Mutation: return the bare error of Fetch; leave the half of a failed download in place.
func TestNoPostgreSQLAndNoNetwork(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.NotFoundHandler())
	server.Close() // nobody listens there any more
	for name, fetch := range map[string]devenv.Fetcher{
		"no network": devenv.Download(server.URL),
		"half a download": func(_ context.Context, into, _ string) error {
			return os.MkdirAll(filepath.Join(into, "bin"), 0o755)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			env, _ := open(t, devenv.Options{StateDir: folder(t), Fetch: fetch, Env: func(string) string { return "" }})
			env.SearchBelow(folder(t))
			_, err := env.Up(t.Context())
			if err == nil {
				t.Fatal("up without PostgreSQL succeeded")
			}
			for _, part := range []string{"no PostgreSQL found", "download failed", "install postgresql-16", "--pg-bin"} {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("error %q does not say %q", err, part)
				}
			}
			for _, i := range must(env.Status(t.Context())).Instances {
				if i.State != devenv.Absent {
					t.Errorf("%s is %s", i.Name, i.State)
				}
			}
		})
	}
}

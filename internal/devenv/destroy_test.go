package devenv_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dlockctl/dlockctl/internal/devenv"
)

// Mutation: os.RemoveAll(e.dir) in destroy.
func TestDestroyLeavesForeignFiles(t *testing.T) {
	t.Parallel()
	state := folder(t)
	env, told := open(t, devenv.Options{StateDir: state, PGBin: bin(t, 16)})
	status := up(t, env)
	foreign := []string{
		filepath.Join(state, "notes.txt"),
		filepath.Join(env.Dir(), "notes.txt"),
		filepath.Join(env.Dir(), "paydb", "dump.sql"),
	}
	for _, path := range foreign {
		write(t, path, "mine")
	}
	for _, dir := range []string{env.Dir(), filepath.Join(env.Dir(), "lockdb")} {
		write(t, filepath.Join(dir, ".dlockctl-new-1"), "left by a killed command")
	}
	if err := env.Destroy(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, path := range foreign {
		if got := string(must(os.ReadFile(path))); got != "mine" {
			t.Errorf("%s holds %q", path, got)
		}
	}
	for _, path := range foreign[1:] {
		if !strings.Contains(told.text.String(), path) {
			t.Errorf("nothing was said of %s:\n%s", path, told.text.String())
		}
	}
	if _, err := os.Lstat(filepath.Join(env.Dir(), "lockdb")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the folder of lockdb, where nothing is foreign, is still there: %v", err)
	}
	for _, i := range status.Instances {
		for _, path := range []string{i.DataDir, i.DSNFile, i.LogFile} {
			if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("%s is still there: %v", path, err)
			}
		}
		if left := livingIn(t, i.DataDir); len(left) > 0 {
			t.Errorf("%s still runs: %v", i.Name, left)
		}
	}
	for _, path := range foreign[1:] {
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
}

// Mutation: drop the look for the marker in made.
func TestDestroyRefusesWhatDevDidNotMake(t *testing.T) {
	t.Parallel()
	state := folder(t)
	mine := filepath.Join(state, "dev", "lockdb", "instance.json")
	write(t, mine, "{}")
	env, err := devenv.Open(devenv.Options{StateDir: state, PGBin: bin(t, 16)})
	if err != nil {
		t.Fatal(err)
	}
	if err := env.Destroy(t.Context()); err == nil || !strings.Contains(err.Error(), "did not make it") {
		t.Errorf("destroy = %v, want a refusal", err)
	}
	if _, err := env.Up(t.Context()); err == nil || !strings.Contains(err.Error(), "was not made by dlockctl dev") {
		t.Errorf("up = %v, want a refusal", err)
	}
	if got := string(must(os.ReadFile(mine))); got != "{}" {
		t.Errorf("the foreign file holds %q", got)
	}
}

// Mutation: follow links in removeFolder and in postgres.destroy (os.Stat for os.Lstat).
func TestDestroyFollowsNoLink(t *testing.T) {
	t.Parallel()
	state, elsewhere := folder(t), folder(t)
	env, _ := open(t, devenv.Options{StateDir: state})
	// A marked folder whose parts lead elsewhere.
	write(t, filepath.Join(env.Dir(), ".made-by-dlockctl-dev"), "")
	for _, name := range []string{"lockdb/instance.json", "lockdb/data/PG_VERSION", "pgsql/bin/initdb"} {
		write(t, filepath.Join(elsewhere, name), "{}")
	}
	for _, name := range []string{"lockdb", "pgsql"} {
		if err := os.Symlink(filepath.Join(elsewhere, name), filepath.Join(env.Dir(), name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := env.Destroy(t.Context()); err != nil {
		t.Errorf("destroy: %v", err)
	}
	for _, name := range []string{"lockdb/instance.json", "lockdb/data/PG_VERSION", "pgsql/bin/initdb"} {
		if _, err := os.Lstat(filepath.Join(elsewhere, name)); err != nil {
			t.Errorf("destroy went through a link: %v", err)
		}
	}
	for _, name := range []string{"lockdb", "pgsql"} {
		if err := os.Remove(filepath.Join(env.Dir(), name)); err != nil {
			t.Fatal(err)
		}
	}

	// The folder itself is a link.
	linked := folder(t)
	if err := os.Symlink(env.Dir(), filepath.Join(linked, "dev")); err != nil {
		t.Fatal(err)
	}
	other, err := devenv.Open(devenv.Options{StateDir: linked})
	if err != nil {
		t.Fatal(err)
	}
	if err := other.Destroy(t.Context()); err == nil || !strings.Contains(err.Error(), "a link is not followed") {
		t.Errorf("destroy through a link = %v, want a refusal", err)
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

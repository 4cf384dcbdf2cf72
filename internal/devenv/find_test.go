package devenv_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dlockctl/dlockctl/internal/devenv"
)

// fakePostgreSQL makes a folder of programs that know their version and nothing else.
func fakePostgreSQL(t *testing.T, dir, version string) string {
	t.Helper()
	for _, name := range []string{"initdb", "pg_ctl", "postgres"} {
		program(t, filepath.Join(dir, name), fmt.Sprintf("echo '%s (PostgreSQL) %s'", name, version))
	}
	return dir
}

func program(t *testing.T, path, script string) {
	t.Helper()
	writeProgram(t, path, []byte("#!/bin/sh\n"+script+"\n"))
}

// The order: told, 16, the newest, a download.
//
// Mutation: drop targetMajor from better; take the first candidate.
func TestFindPrefers16ThenTheNewest(t *testing.T) {
	t.Parallel()
	root := folder(t)
	dir := func(parts ...string) string { return filepath.Join(append([]string{root}, parts...)...) }
	var told string
	vars := map[string]string{"PATH": dir("path") + ":relative"}
	fetched := errors.New("asked for a download")
	find := func() (string, error) {
		env, err := devenv.Open(devenv.Options{
			StateDir: dir("state"), PGBin: told, Env: func(name string) string { return vars[name] },
			Fetch: func(context.Context, string, string) error { return fetched },
		})
		if err != nil {
			t.Fatal(err)
		}
		env.SearchBelow(root)
		return env.Find(t.Context())
	}
	want := func(step, dir string) {
		t.Helper()
		if got, err := find(); err != nil || got != dir {
			t.Errorf("%s: found %q (%v), want %q", step, got, err, dir)
		}
	}

	if _, err := find(); !errors.Is(err, fetched) {
		t.Errorf("nothing installed: %v, want a download", err)
	}
	fakePostgreSQL(t, dir("usr/lib/postgresql/14/bin"), "14.11")
	if _, err := find(); !errors.Is(err, fetched) || !strings.Contains(err.Error(), "14.11") || !strings.Contains(err.Error(), "15 or newer") {
		t.Errorf("only an old one installed: %v, want it named with what is needed", err)
	}
	program(t, dir("usr/lib/postgresql/19/bin/pg_ctl"), "echo pg_ctl '(PostgreSQL) 19.0'") // client side only
	want("15", fakePostgreSQL(t, dir("usr/lib/postgresql/15/bin"), "15.2"))
	want("18 over 15", fakePostgreSQL(t, dir("usr/pgsql-18/bin"), "18.1 (Fedora)"))
	want("16 over 18", fakePostgreSQL(t, dir("opt/homebrew/opt/postgresql@16/bin"), "16.4"))
	if err := os.RemoveAll(dir("opt")); err != nil {
		t.Fatal(err)
	}
	program(t, dir("path/pg_config"), "echo "+dir("own/16/bin"))
	want("16 that pg_config names", fakePostgreSQL(t, dir("own/16/bin"), "16.1"))
	if err := os.Remove(dir("path/pg_config")); err != nil {
		t.Fatal(err)
	}
	fakePostgreSQL(t, dir("linked/16/bin"), "16.2")
	if err := os.Symlink(dir("linked/16/bin/pg_ctl"), dir("path/pg_ctl")); err != nil {
		t.Fatal(err)
	}
	want("16 behind a link in PATH", dir("linked/16/bin"))

	vars["DLOCKCTL_PG_BIN"] = dir("usr/lib/postgresql/15")
	want("told by the environment, the folder above bin", dir("usr/lib/postgresql/15/bin"))
	told = dir("usr/pgsql-18/bin")
	want("told by the option", told)
	told = dir("usr/lib/postgresql/14/bin")
	if _, err := find(); err == nil || !strings.Contains(err.Error(), "14.11") || !strings.Contains(err.Error(), "too old") {
		t.Errorf("told an old one: %v, want a refusal", err)
	}
	told = dir("nowhere")
	if _, err := find(); err == nil || !strings.Contains(err.Error(), told) || errors.Is(err, fetched) {
		t.Errorf("told a wrong one: %v, want a refusal and no download", err)
	}
}

// Data of one major version is never given to another.
//
// Mutation: ignore major in toldBinaries and bestOnMachine.
func TestOtherMajorVersionIsRefused(t *testing.T) {
	t.Parallel()
	state := folder(t)
	env, _ := open(t, devenv.Options{StateDir: state, PGBin: bin(t, 15)})
	up(t, env)
	if err := env.Down(t.Context()); err != nil {
		t.Fatal(err)
	}
	other, err := devenv.Open(devenv.Options{StateDir: state, PGBin: bin(t, 16)})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := other.Up(t.Context()); err == nil || !strings.Contains(err.Error(), "was made by 15") {
		t.Errorf("up with 16 on data of 15 = %v, want a refusal", err)
	}

	// Untold, the binaries of before are kept, although 16 would be preferred.
	untold, err := devenv.Open(devenv.Options{StateDir: state, Env: func(string) string { return "" }})
	if err != nil {
		t.Fatal(err)
	}
	untold.SearchBelow(folder(t))
	up(t, untold)
}

// A search that is broken off says so, and does not go on to download.
//
// Mutation: drop the look at the context from findBinaries.
func TestBrokenOffSearchDownloadsNothing(t *testing.T) {
	t.Parallel()
	stopped := errors.New("stopped by the caller")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(stopped)
	fetched := false
	env, _ := open(t, devenv.Options{StateDir: folder(t), Env: func(string) string { return "" }, Fetch: func(context.Context, string, string) error {
		fetched = true
		return nil
	}})
	if _, err := env.Up(ctx); !errors.Is(err, stopped) || fetched {
		t.Errorf("up: %v, fetched %t, want it stopped", err, fetched)
	}
}

package devenv_test

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/dlockctl/dlockctl/internal/devenv"
)

// Status looks without the lock, so it writes nothing: not even the identifier
// of an instance that a dev up beside it is about to record.
//
// Mutation: let status call identify.
func TestStatusWritesNothing(t *testing.T) {
	t.Parallel()
	state := folder(t)
	env, _ := open(t, devenv.Options{StateDir: state, PGBin: bin(t, 16)})
	up(t, env)
	record := filepath.Join(state, "dev", "lockdb", "instance.json")
	text, err := os.ReadFile(record)
	if err != nil {
		t.Fatal(err)
	}
	unrecorded := regexp.MustCompile(`"system_identifier": *[0-9]+`).ReplaceAll(text, []byte(`"system_identifier": 0`))
	if bytes.Equal(unrecorded, text) {
		t.Fatalf("no identifier in %s", text)
	}
	if err := os.WriteFile(record, unrecorded, 0o600); err != nil {
		t.Fatal(err)
	}
	status, err := env.Status(t.Context())
	if err != nil || status.Instances[0].State != devenv.Running {
		t.Errorf("status: %+v, %v", status, err)
	}
	after, err := os.ReadFile(record)
	if err != nil || !bytes.Equal(after, unrecorded) {
		t.Errorf("status wrote %s, %v", after, err)
	}
}

// A state folder whose name reads as a pattern matches itself and nothing else:
// neither up nor destroy touches what lies beside it.
//
// Mutation: look for half-made instances with filepath.Glob.
func TestFolderNameIsNoPattern(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"a[b]c", "a[", "st*r", "q?"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			base := folder(t)
			victim := filepath.Join(base, map[string]string{"a[b]c": "abc", "a[": "a", "st*r": "stAr", "q?": "qq"}[name], "dev", "lockdb.part-V", "data", "precious")
			if err := os.MkdirAll(filepath.Dir(victim), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(victim, []byte("precious"), 0o600); err != nil {
				t.Fatal(err)
			}
			state := filepath.Join(base, name)
			if err := os.Mkdir(state, 0o755); err != nil {
				t.Fatal(err)
			}
			env, err := devenv.Open(devenv.Options{StateDir: state, PGBin: bin(t, 16)})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := env.Up(t.Context()); err != nil {
				t.Errorf("up: %v", err)
			}
			if err := env.Destroy(t.Context()); err != nil {
				t.Errorf("destroy: %v", err)
			}
			if _, err := os.Stat(victim); err != nil {
				t.Errorf("another folder's file: %v", err)
			}
		})
	}
}

package devenv_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/dlockctl/dlockctl/internal/devenv"
)

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

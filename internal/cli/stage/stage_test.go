package stage_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dlockctl/dlockctl/internal/cli/app"
	"github.com/dlockctl/dlockctl/internal/cli/stage"
	"github.com/dlockctl/dlockctl/internal/scenario"
	"github.com/dlockctl/dlockctl/internal/ui"
)

// play runs a stage below a state folder as far as the search for PostgreSQL, of which
// there is none.
func play(t *testing.T, stateDir string) error {
	t.Helper()
	streams, _, _ := ui.Test("", map[string]string{"HOME": t.TempDir(), "DLOCKCTL_STATE_DIR": stateDir, "DLOCKCTL_PG_BIN": t.TempDir()})
	return stage.Run(t.Context(), app.New(streams, nil), stage.Options{Name: "demo"}, func(context.Context, scenario.Cast) error {
		return errors.New("the play began without PostgreSQL")
	})
}

// A state folder that is not there is made with the mode that dev up gives it, and what
// could not begin leaves nothing else in it.
//
// Mutation: leave MakeFolder out of makeFolder, or make it with another mode.
func TestStateFolderIsMade(t *testing.T) {
	t.Parallel()
	parent := filepath.Join(t.TempDir(), "not", "there")
	if err := play(t, parent); err == nil || !strings.Contains(err.Error(), "initdb") {
		t.Fatalf("played: %v, want no PostgreSQL", err)
	}
	want := os.FileMode(0o700)
	if os.Geteuid() == 0 {
		want = 0o711
	}
	for _, dir := range []string{parent, filepath.Dir(parent)} {
		if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != want {
			t.Errorf("the folder %s: %v, %v, want mode %04o", dir, info, err, want)
		}
	}
	if left, err := os.ReadDir(parent); err != nil || len(left) > 0 {
		t.Errorf("left in the folder: %v, %v", left, err)
	}
	file := filepath.Join(parent, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := play(t, file); err == nil || !strings.Contains(err.Error(), "make a folder for the demo") {
		t.Errorf("a file in the folder's place: %v", err)
	}
}

package app_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/dlockctl/dlockctl/internal/cli/app"
	"github.com/dlockctl/dlockctl/internal/ui"
)

// A login that cannot be opened any more, in the night it is needed, is an error and
// not the end of the service that asked for it.
//
// Clauses: K-7.10
// Mutation: call closeAll in the deferred function of autoStores.
func TestAutoRestoreWithoutItsLogin(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	lock, pay := filepath.Join(dir, "lock.dsn"), filepath.Join(dir, "pay.dsn")
	for _, path := range []string{lock, pay} {
		if err := os.WriteFile(path, []byte("host="+dir), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	streams, _, _ := ui.Test("", map[string]string{
		"DLOCKCTL_LOCK_DSN": "host=" + dir, "DLOCKCTL_PAY_DSN": "host=" + dir, "DLOCKCTL_MARK_DIR": dir,
		"DLOCKCTL_RESTORE_AUTO": "safe", "DLOCKCTL_RESTORE_OPERATOR_DSN_FILE": lock, "DLOCKCTL_RESTORE_PAY_OPERATOR_DSN_FILE": pay,
	})
	restore, err := app.New(streams, nil).AutoRestore()
	if err != nil || restore == nil {
		t.Fatalf("restore is nil: %t, %v", restore == nil, err)
	}
	if _, err := restore(t.Context(), 0); err == nil {
		t.Error("it restored a database that cannot be reached")
	}
	for _, path := range []string{pay, lock} {
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		if _, err := restore(t.Context(), 0); err == nil {
			t.Errorf("it restored without %s", path)
		}
	}
}

package migrations_test

import (
	"crypto/sha256"
	"encoding/hex"
	"io/fs"
	"testing"

	"github.com/dlockctl/dlockctl/migrations"
)

// The first file is SyncGuard's own schema of v2.5.2, byte for byte; what is ours
// stands in the other location.
//
// Clauses: K-10.2
// Mutation: change a letter of V1.
func TestSyncGuardSchemaIsTheLibrarys(t *testing.T) {
	t.Parallel()
	text, err := fs.ReadFile(migrations.FS, "syncguard/V1__create_locks_and_fence_counters.sql")
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(text)
	if got := hex.EncodeToString(sum[:]); got != "bca8007ea57e1663fc51696c343b716a0eb054101a828d043ba187f92af4410e" {
		t.Errorf("the file has the digest %s", got)
	}
}

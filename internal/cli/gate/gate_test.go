package gate_test

import (
	"net"
	"testing"

	"github.com/dlockctl/dlockctl/internal/cli"
	"github.com/dlockctl/dlockctl/internal/cli/app"
	"github.com/dlockctl/dlockctl/internal/pgtest"
	"github.com/dlockctl/dlockctl/internal/ui"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// A paydb that takes the connection and never answers spoils no answer about lockdb's
// gate: it is printed, and the deadline of the whole command is not reached.
//
// Clauses: K-6.2
// Mutation: ask paydb with ctx in lookAtPaydb.
func TestThawDoesNotWaitForPaydb(t *testing.T) {
	t.Parallel()
	var config net.ListenConfig
	silent, err := config.Listen(t.Context(), "tcp", "127.0.0.1:0") // the kernel takes the connection
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	env := map[string]string{
		"HOME": t.TempDir(), "DLOCKCTL_LOCK_DSN": pgtest.Migrated(t, 16).Lock.DSN("t_operator"),
		"DLOCKCTL_PAY_DSN": "postgres://me:secret@" + silent.Addr().String() + "/paydb",
	}
	// Without the bound paydb would be given up after 5 s.
	args := []string{"thaw", "--reason", "r", "--timeout", "5s", "-o", "name"}
	streams, out, errOut := ui.Test("", env)
	exit := cli.Run(t.Context(), app.New(streams, args), args)
	if exit != app.OK || out.String() != "open\n" {
		t.Errorf("exit %d, stdout %q, stderr %q", exit, out, errOut)
	}
}

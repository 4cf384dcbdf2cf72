//go:build unix

package postgres_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/lockstore/postgres"
)

// stoppedHolder is the environment variable that makes the test process the
// holder that is to be stopped; it holds lockdb's address.
const stoppedHolder = "DLOCKCTL_TEST_STOPPED_HOLDER"

// A process that is stopped (SIGSTOP) past its lease finds on going on that it
// has lost the lock, whatever its own clock says, and takes nothing from the one
// who has it now.
//
// Clauses: K-2.6, K-2.7, K-2.10
// Mutation: expires_at > now() in renew.sql, or the token in release.sql.
func TestHolderStoppedPastItsLease(t *testing.T) {
	t.Parallel()
	if dsn := os.Getenv(stoppedHolder); dsn != "" {
		holdAndGoOn(t, dsn)
		return
	}
	b := setup(t, 16)
	bob := b.session(t, "bob")
	holder := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.count=1")
	holder.Env = append(os.Environ(), stoppedHolder+"="+b.dbs.Lock.DSN("t_lockapp"))
	say, err := holder.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := holder.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := holder.Start(); err != nil {
		t.Fatal(err)
	}
	said := bufio.NewScanner(out)
	hears := func(prefix string) string {
		t.Helper()
		for said.Scan() {
			if text, ok := strings.CutPrefix(said.Text(), "holder: "+prefix); ok {
				return text
			}
		}
		t.Fatalf("the holder never says %q: %v", prefix, said.Err())
		return ""
	}
	token := hears("holds token ")
	if err := holder.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	b.lapse(t, "k")
	taken := b.acquire(t, "k", "bob", bob, time.Hour)
	if err := holder.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(say, "go on\n"); err != nil {
		t.Fatal(err)
	}
	if got := hears("renew "); got != "lost" {
		t.Errorf("the stopped holder of token %s renews: %s", token, got)
	}
	if got := hears("release "); got != "stale true" {
		t.Errorf("the stopped holder of token %s releases: %s", token, got)
	}
	if got := hears("trusts "); got != "no more" {
		t.Errorf("the stopped holder trusts its lease %s", got)
	}
	if _, err := io.Copy(io.Discard, out); err != nil {
		t.Error(err)
	}
	if err := holder.Wait(); err != nil {
		t.Errorf("the holder: %v", err)
	}
	if entry, err := b.store.Show(t.Context(), "k"); err != nil || entry.Token != taken.Token || entry.Owner != "bob" {
		t.Errorf("the key is %+v, %v, want bob's grant untouched", entry, err)
	}
}

// holdAndGoOn is the holder: it acquires, is stopped while it waits to be told,
// and goes on as if nothing had happened.
func holdAndGoOn(t *testing.T, dsn string) {
	config, err := pgx.ParseConfig(dsn)
	if err != nil {
		t.Fatal(err)
	}
	store := open(t, postgres.Options{Config: config, Purpose: postgres.Granting})
	session, err := store.CreateSession(t.Context(), "alice", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	grant, err := store.Acquire(t.Context(), lockstore.AcquireParams{Key: "k", Owner: "alice", Session: session.ID, TTL: 5 * lockstore.MinTTL})
	if err != nil {
		t.Fatal(err)
	}
	fmt.Printf("holder: holds token %s\n", grant.Token)
	if _, err := bufio.NewReader(os.Stdin).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	fmt.Printf("holder: renew %s\n", renewal(t.Context(), store, grant))
	released, err := store.Release(t.Context(), "k", grant.Token)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Printf("holder: release stale %t\n", released.Stale)
	trusts := "no more"
	if time.Now().Before(grant.TrustedUntil()) {
		trusts = "until " + grant.TrustedUntil().String()
	}
	fmt.Printf("holder: trusts %s\n", trusts)
}

func renewal(ctx context.Context, store lockstore.Store, grant lockstore.Grant) string {
	_, err := store.Renew(ctx, "k", grant.Token, time.Hour)
	switch {
	case err == nil:
		return "still mine"
	case errors.Is(err, lockstore.ErrLockLost):
		return "lost"
	}
	return err.Error()
}

package etcd_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/dlockctl/dlockctl/internal/etcdtest"
	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/lockstore/etcd"
)

// An address where nobody answers is refused within the time that is given, as
// unreachable; no address is wrong in itself.
//
// Clauses: K-10.1
// Mutation: leave the question out of Open: the client itself connects to nobody.
func TestOpenRefusesWhatIsNotThere(t *testing.T) {
	t.Parallel()
	_, err := etcd.Open(t.Context(), etcd.Options{Endpoints: []string{"http://127.0.0.1:1"}, DialTimeout: 300 * time.Millisecond})
	if unreachable := (*lockstore.UnreachableError)(nil); !errors.As(err, &unreachable) {
		t.Errorf("nobody there: %v, want unreachable", err)
	}
	if _, err := etcd.Open(t.Context(), etcd.Options{}); !errors.Is(err, lockstore.ErrInvalid) {
		t.Errorf("no endpoint: %v, want ErrInvalid", err)
	}
	opts := options(t)
	opts.Prefix = strings.Repeat("x", lockstore.MaxKeyBytes+1)
	if _, err := etcd.Open(t.Context(), opts); !errors.Is(err, lockstore.ErrInvalid) {
		t.Errorf("a long prefix: %v, want ErrInvalid", err)
	}
}

// With TLS and etcd's authentication, who shows neither is refused as unreachable, a
// user without the right is refused by etcd, and the one with it works; the audit names
// the user. The password is in no error.
//
// Clauses: K-3.3, K-12.1, K-10.1
// Mutation: leave TLS, or Username and Password, out of the client's configuration.
func TestTLSAndAuthentication(t *testing.T) {
	t.Parallel()
	cluster := etcdtest.Start(t, etcdtest.Options{Nodes: 1, TLS: true})
	const secret = "s3cret-of-the-test"
	enableAuth(t, cluster.Client(t), secret)
	login := func(user, password string) etcd.Options {
		return etcd.Options{Endpoints: cluster.Endpoints(), TLS: cluster.TLS(), Username: user, Password: password, DialTimeout: 20 * time.Second, Timeout: 20 * time.Second}
	}
	for name, opts := range map[string]etcd.Options{
		"no certificate":     {Endpoints: cluster.Endpoints(), DialTimeout: time.Second},
		"no login":           login("", ""),
		"a wrong password":   login("locks", secret+"?"),
		"a user that is not": login("nobody", secret),
	} {
		_, err := etcd.Open(t.Context(), opts)
		if unreachable := (*lockstore.UnreachableError)(nil); !errors.As(err, &unreachable) || strings.Contains(err.Error(), secret) {
			t.Errorf("%s: %v, want unreachable", name, err)
		}
	}
	reader := open(t, login("reader", secret))
	if _, err := reader.CreateSession(t.Context(), "reader", time.Minute); err == nil || !strings.Contains(err.Error(), "permission denied") {
		t.Errorf("a session by a reader: %v, want permission denied", err)
	}
	locks := newClient(t, login("locks", secret), "alice", time.Minute)
	if _, err := locks.Revoke(t.Context(), lockstore.RevokeParams{Key: "k", Token: locks.lock(t, "k"), Operator: "erin", Reason: "stuck"}); err != nil {
		t.Fatal(err)
	}
	if rows, err := reader.Revocations(t.Context(), lockstore.RevocationFilter{}); err != nil || len(rows) != 1 || rows[0].LoginRole != "locks" {
		t.Errorf("the audit as a reader sees it: %+v, %v", rows, err)
	}
}

// enableAuth makes the users root, locks and reader with one password.
func enableAuth(t *testing.T, raw *clientv3.Client, password string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	end := clientv3.GetPrefixRangeEnd(etcd.DefaultPrefix)
	var errs []error
	for user, right := range map[string]clientv3.PermissionType{"root": clientv3.PermissionType(clientv3.PermReadWrite), "locks": clientv3.PermissionType(clientv3.PermReadWrite), "reader": clientv3.PermissionType(clientv3.PermRead)} {
		_, err := raw.UserAdd(ctx, user, password)
		_, roleErr := raw.RoleAdd(ctx, user)
		_, grantErr := raw.RoleGrantPermission(ctx, user, etcd.DefaultPrefix, end, right)
		_, userErr := raw.UserGrantRole(ctx, user, user)
		errs = append(errs, err, roleErr, grantErr, userErr)
	}
	_, err := raw.AuthEnable(ctx)
	if err := errors.Join(append(errs, err)...); err != nil {
		t.Fatal(err)
	}
}

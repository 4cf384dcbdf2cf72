package e2e_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/dlockctl/dlockctl/internal/etcdtest"
)

// The lock verbs over etcd, each script with a prefix of its own on one member, and
// without a lockdb. Beside the others' commands there are
//
//	etcd put|delete NAME [VALUE]  writes a key of the store's own below the prefix, or takes it away
//	secure                        goes on with a cluster that wants TLS, a certificate and a login
//
// Mutation: take the case config.Etcd out of app's opener, or CheckEnvironment out of
// openEtcd.
func TestScriptsOnEtcd(t *testing.T) {
	t.Parallel()
	p := params(t, "onetcd")
	setup := p.Setup
	p.Setup = func(env *testscript.Env) error {
		if err := setup(env); err != nil {
			return err
		}
		s := env.Values[stageKey{}].(*stage)
		etcd := etcdtest.Single(s.t)
		s.etcd = etcd.Client(s.t)
		env.Setenv("DLOCKCTL_LOCK_DSN", "")
		env.Setenv("DLOCKCTL_BACKEND", "etcd")
		env.Setenv("DLOCKCTL_ETCD_ENDPOINTS", strings.Join(etcd.Endpoints(), ","))
		env.Setenv("DLOCKCTL_ETCD_PREFIX", etcdtest.Prefix(s.t))
		return nil
	}
	p.Cmds["etcd"], p.Cmds["secure"] = runEtcd, runSecure
	testscript.Run(t, p)
}

func runEtcd(ts *testscript.TestScript, neg bool, args []string) {
	s := stageOf(ts)
	key := ts.Getenv("DLOCKCTL_ETCD_PREFIX")
	var err error
	switch {
	case neg || len(args) < 2:
		ts.Fatalf("usage: etcd put|delete NAME [VALUE]")
	case args[0] == "put" && len(args) == 3:
		_, err = s.etcd.Put(s.t.Context(), key+args[1], args[2])
	case args[0] == "delete" && len(args) == 2:
		_, err = s.etcd.Delete(s.t.Context(), key+args[1])
	default:
		ts.Fatalf("usage: etcd put|delete NAME [VALUE]")
	}
	ts.Check(err)
}

// password is the user's of runSecure; no output may show it.
const etcdPassword = "hunter2-planted"

// runSecure starts a cluster whose clients show a certificate and log in.
func runSecure(ts *testscript.TestScript, neg bool, args []string) {
	s := stageOf(ts)
	if neg || len(args) > 0 {
		ts.Fatalf("usage: secure")
	}
	etcd := etcdtest.Start(s.t, etcdtest.Options{Nodes: 1, TLS: true})
	client, ctx := etcd.Client(s.t), s.t.Context()
	prefix := ts.Getenv("DLOCKCTL_ETCD_PREFIX")
	_, err := client.RoleAdd(ctx, "dlock")
	errs := []error{err}
	_, err = client.RoleGrantPermission(ctx, "dlock", prefix, clientv3.GetPrefixRangeEnd(prefix), clientv3.PermissionType(clientv3.PermReadWrite))
	errs = append(errs, err)
	for user, roles := range map[string][]string{"root": {"root"}, "dlockctl": {"dlock"}, "stranger": nil} {
		_, err := client.UserAdd(ctx, user, etcdPassword)
		errs = append(errs, err)
		for _, role := range roles {
			_, err := client.UserGrantRole(ctx, user, role)
			errs = append(errs, err)
		}
	}
	_, err = client.AuthEnable(ctx)
	ts.Check(errors.Join(append(errs, err)...))
	password := filepath.Join(s.home, "password")
	ts.Check(os.WriteFile(password, []byte(etcdPassword+"\n"), 0o600))
	s.password = etcdPassword
	for name, value := range map[string]string{
		"ENDPOINTS": strings.Join(etcd.Endpoints(), ","), "CA_FILE": etcd.Certificates().CA, "CERT_FILE": etcd.Certificates().Cert, "KEY_FILE": etcd.Certificates().Key,
		"USER": "dlockctl", "PASSWORD_FILE": password,
	} {
		ts.Setenv("DLOCKCTL_ETCD_"+name, value)
	}
}

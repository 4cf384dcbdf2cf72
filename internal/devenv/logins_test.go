package devenv_test

import (
	"testing"

	"github.com/dlockctl/dlockctl/internal/devenv"
)

// Each service logs in as itself: with its own group role, and no other.
//
// Clauses: K-4.6
// Mutation: grant every role to each login in logins
func TestServiceLogins(t *testing.T) {
	t.Parallel()
	env, _ := open(t, devenv.Options{StateDir: folder(t), PGBin: bin(t, 16)})
	if _, err := env.ServiceDSN("lockapp"); err == nil {
		t.Error("a login before up")
	}
	up(t, env)
	for _, role := range []string{"lockapp", "payapp_resource", "payapp_rail"} {
		dsn := must(env.ServiceDSN(role))
		const memberships = `SELECT current_user || ' in ' || string_agg(r.rolname, ',' ORDER BY r.rolname)
			FROM pg_auth_members m JOIN pg_roles r ON r.oid = m.roleid WHERE m.member = current_user::regrole`
		if got, want := query[string](t, dsn, memberships), "dlockctl_"+role+" in "+role; got != want {
			t.Errorf("%s: %s, want %s", role, got, want)
		}
	}
	if _, err := env.ServiceDSN("dlock_owner"); err == nil {
		t.Error("a service's login for the owner")
	}
	again := must(env.ServiceDSN("payapp_rail"))
	up(t, env)
	if got := must(env.ServiceDSN("payapp_rail")); got != again {
		t.Error("a second up changed the password")
	}
}

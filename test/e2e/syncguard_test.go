package e2e_test

import (
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/dlockctl/dlockctl/internal/pgtest"
)

// The verbs over SyncGuard's tables, each script in an application's database of its
// own in which nothing of ours is yet.
//
// Mutation: take the case config.SyncGuard out of app's opener, or onCounters out of
// the restore verbs.
func TestScriptsOnSyncGuard(t *testing.T) {
	t.Parallel()
	p := params(t, "onsyncguard")
	setup := p.Setup
	p.Setup = func(env *testscript.Env) error {
		if err := setup(env); err != nil {
			return err
		}
		s := env.Values[stageKey{}].(*stage)
		db := pgtest.Servers(s.t, postgresVersion).Lock.EmptyDB(s.t)
		s.use(pgtest.Databases{Lock: db, Pay: s.dbs.Pay})
		s.password = db.Config(s.t, "super").Password
		env.Setenv("DLOCKCTL_LOCK_DSN", db.DSN("super"))
		env.Setenv("DLOCKCTL_PAY_DSN", "")
		env.Setenv("DLOCKCTL_BACKEND", "syncguard")
		return nil
	}
	testscript.Run(t, p)
}

package reconcile_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/dlockctl/dlockctl/internal/pgtest"
	"github.com/dlockctl/dlockctl/internal/reconcile"
	"github.com/dlockctl/dlockctl/internal/reconcile/plant"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// world is a healthy world with a superuser on each database.
type world struct {
	*plant.World
	dbs       pgtest.Databases
	pay, lock *pgx.Conn
}

// healthy makes a small world.
func healthy(t *testing.T, major int) world {
	t.Helper()
	return healthyOf(t, major, plant.Params{Payouts: 80, Accounts: 16, Seed: 1, Open: 1})
}

func healthyOf(t *testing.T, major int, p plant.Params) world {
	t.Helper()
	w := world{dbs: pgtest.Migrated(t, major)}
	w.pay, w.lock = w.dbs.Pay.Conn(t, "super"), w.dbs.Lock.Conn(t, "super")
	var err error
	if w.World, err = plant.Healthy(t.Context(), w.pay, w.lock, p); err != nil {
		t.Fatal(err)
	}
	return w
}

// options are those of an auditor who asks for everything.
func (w world) options(t *testing.T) reconcile.Options {
	t.Helper()
	return reconcile.Options{Pay: w.dbs.Pay.Config(t, "t_auditor"), Lock: w.dbs.Lock.Config(t, "t_auditor")}
}

// run reconciles the world, with options changed by change.
func (w world) run(t *testing.T, change ...func(*reconcile.Options)) reconcile.Report {
	t.Helper()
	return w.runWith(t.Context(), t, change...)
}

func (w world) runWith(ctx context.Context, t *testing.T, change ...func(*reconcile.Options)) reconcile.Report {
	t.Helper()
	o := w.options(t)
	for _, do := range change {
		do(&o)
	}
	report, err := reconcile.Run(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	return report
}

// classes are those of the findings, each as often as it was found.
func classes(findings []reconcile.Finding) []string {
	found := []string{}
	for _, f := range findings {
		found = append(found, f.Class)
	}
	return found
}

func exec(t *testing.T, conn *pgx.Conn, sql string) {
	t.Helper()
	if _, err := conn.PgConn().Exec(t.Context(), sql).ReadAll(); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

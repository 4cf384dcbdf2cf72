package paydb_test

import (
	"testing"

	"github.com/dlockctl/dlockctl/internal/instance"
	"github.com/dlockctl/dlockctl/internal/paystore"
	"github.com/dlockctl/dlockctl/internal/pgtest"
	"github.com/dlockctl/dlockctl/internal/service/httpdtest"
	"github.com/dlockctl/dlockctl/internal/service/paydb"
)

// Readiness names the paydb, as doctor reads it, whichever service asks.
//
// Mutation: name the instance alone in queries/status.sql.
func TestReadinessNamesPaydb(t *testing.T) {
	t.Parallel()
	dbs := pgtest.Migrated(t, 16)
	want, err := instance.Identity(t.Context(), dbs.Pay.Conn(t, "t_auditor"))
	if err != nil {
		t.Fatal(err)
	}
	for login, role := range map[string]paydb.Role{"t_resource": paydb.Resource, "t_rail": paydb.Rail} {
		link, err := open(t, dbs.Pay.Config(t, login), role, &httpdtest.Log{})
		if err != nil {
			t.Fatal(err)
		}
		at := link.Ready(t.Context())[0].Database
		if at == nil || at.Identity != want || at.MinSchema != paystore.MinSchema || at.MaxSchema != paystore.MaxSchema {
			t.Errorf("%s: readiness tells %+v, want %s", login, at, want)
		}
	}
}

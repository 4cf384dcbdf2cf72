package instance_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"github.com/dlockctl/dlockctl/internal/instance"
	"github.com/dlockctl/dlockctl/internal/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

func exec(t *testing.T, conn *pgx.Conn, sql string) {
	t.Helper()
	if _, err := conn.Exec(t.Context(), sql); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

// dropRoles takes the group roles away from a private instance, and first what
// was granted to them in each of these databases.
func dropRoles(t *testing.T, conns ...*pgx.Conn) {
	t.Helper()
	for _, conn := range conns {
		exec(t, conn, `DO $$ DECLARE held TEXT; BEGIN
			EXECUTE format('ALTER DATABASE %I OWNER TO %I', current_database(), current_user);
			FOR held IN SELECT rolname FROM pg_roles WHERE rolname LIKE 'dlock\_%' OR rolname IN ('lockapp', 'payapp', 'payapp_resource', 'payapp_rail') LOOP
				EXECUTE format('DROP OWNED BY %I', held);
			END LOOP; END $$`)
	}
	for _, role := range instance.Roles() {
		exec(t, conns[0], "DROP ROLE IF EXISTS "+role)
	}
}

// Eight databases of one cluster make the roles at the same moment, and none
// fails; once they stand, nothing is made again.
//
// Clauses: K-9.5
// Mutation: drop an EXCEPTION clause of roles.sql, or a guard in front of a GRANT.
func TestEnsureRolesFromEightDatabasesAtOnce(t *testing.T) {
	t.Parallel()
	for _, major := range pgtest.Majors() {
		t.Run(fmt.Sprint(major), func(t *testing.T) {
			t.Parallel()
			single := pgtest.Crashable(t, major)
			admin := pgtest.DB{Server: single.Server, Name: "postgres"}.Conn(t, "super")
			dbs := make([]pgtest.DB, 8)
			conns := make([]*pgx.Conn, len(dbs))
			for i := range dbs {
				dbs[i] = single.EmptyDB(t)
				conns[i] = dbs[i].Conn(t, "super")
			}
			for range 6 {
				dropRoles(t, slices.Concat(conns, []*pgx.Conn{admin})...)
				group, ctx := errgroup.WithContext(t.Context())
				for _, conn := range conns {
					group.Go(func() error {
						report, err := instance.EnsureRoles(ctx, conn)
						if err == nil && len(report.Missing) > 0 {
							err = fmt.Errorf("missing: %q", report.Missing)
						}
						return err
					})
				}
				if err := group.Wait(); err != nil {
					t.Fatal(err)
				}
				report, err := instance.EnsureRoles(t.Context(), conns[0])
				if err != nil || len(report.Created) != 0 || len(report.Present) != len(instance.Roles()) {
					t.Fatalf("again: %+v, %v", report, err)
				}
			}
		})
	}
}

// A managed cloud's administrator, CREATEROLE and no superuser, makes the roles
// and migrates with them; on 16 it may SET ROLE dlock_owner only because
// the script says so.
//
// Clauses: K-9.5
// Mutation: drop the current_user row from roles.sql.
func TestEnsureRolesAsACloudAdministrator(t *testing.T) {
	t.Parallel()
	for _, major := range pgtest.Majors() {
		t.Run(fmt.Sprint(major), func(t *testing.T) {
			t.Parallel()
			single := pgtest.Crashable(t, major)
			db := single.EmptyDB(t)
			super := db.Conn(t, "super")
			dropRoles(t, super, pgtest.DB{Server: single.Server, Name: "postgres"}.Conn(t, "super"))
			exec(t, super, "CREATE ROLE cloud_admin LOGIN CREATEROLE PASSWORD 'cloud'")
			exec(t, super, "ALTER DATABASE "+pgx.Identifier{db.Name}.Sanitize()+" OWNER TO cloud_admin")
			config := db.Config(t, "super")
			config.User, config.Password = "cloud_admin", "cloud"
			conn, err := pgx.ConnectConfig(t.Context(), config)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close(t.Context())
			report, err := instance.EnsureRoles(t.Context(), conn)
			if err != nil || len(report.Missing) > 0 || len(report.Created) != len(instance.Roles()) {
				t.Fatalf("as cloud_admin: %+v, %v", report, err)
			}
			// As both engines migrate: objects of the owner's, made by the administrator.
			exec(t, conn, "SET ROLE "+instance.OwnerRole)
			exec(t, conn, "CREATE TABLE made (x INT)")
			var owner string
			if err := conn.QueryRow(t.Context(), "SELECT tableowner FROM pg_tables WHERE tablename = 'made'").Scan(&owner); err != nil || owner != instance.OwnerRole {
				t.Errorf("the table belongs to %q, %v", owner, err)
			}
		})
	}
}

// In a schema of their own the roles are let in by who owns it; a login that does
// not own it is told what is missing.
//
// Clauses: K-9.5, K-12.1
// Mutation: drop GRANT USAGE from roles.sql, or usage from missingGrants.
func TestEnsureRolesInASchemaOfTheirOwn(t *testing.T) {
	t.Parallel()
	db := pgtest.Servers(t, 16).Lock.EmptyDB(t)
	super := db.Conn(t, "super")
	exec(t, super, "CREATE SCHEMA app")
	exec(t, super, "GRANT USAGE ON SCHEMA app TO t_lockapp")
	stranger := db.Conn(t, "t_lockapp")
	exec(t, stranger, "SET search_path = app")
	report, err := instance.EnsureRoles(t.Context(), stranger)
	if err != nil || !strings.Contains(strings.Join(report.Missing, "\n"), `GRANT USAGE ON SCHEMA "app" TO lockapp`) {
		t.Errorf("as a stranger: %+v, %v", report, err)
	}
	exec(t, super, "SET search_path = app")
	if report, err := instance.EnsureRoles(t.Context(), super); err != nil || len(report.Missing) != 0 {
		t.Errorf("as the schema's owner: %+v, %v", report, err)
	}
	for _, role := range []string{"lockapp", "payapp_rail", "dlock_operator", "dlock_auditor"} {
		var may bool
		if err := super.QueryRow(t.Context(), "SELECT has_schema_privilege($1, 'app', 'USAGE')", role).Scan(&may); err != nil || !may {
			t.Errorf("%s may use the schema: %t, %v", role, may, err)
		}
	}
}

// A login that may not create roles is told so, with the statement that a
// stronger one has to run; it never passes for done.
//
// Clauses: K-9.5
// Mutation: drop missingGrants from EnsureRoles.
func TestEnsureRolesSaysWhatItMayNot(t *testing.T) {
	t.Parallel()
	db := pgtest.Servers(t, 16).Lock.EmptyDB(t)
	report, err := instance.EnsureRoles(t.Context(), db.Conn(t, "t_lockapp"))
	if err != nil {
		t.Fatal(err)
	}
	if len(report.Missing) != 1 || !strings.Contains(report.Missing[0], `GRANT dlock_owner TO "t_lockapp"`) {
		t.Errorf("as t_lockapp: %+v", report)
	}
	single := pgtest.Crashable(t, 16)
	empty := single.EmptyDB(t)
	super := empty.Conn(t, "super")
	dropRoles(t, super, pgtest.DB{Server: single.Server, Name: "postgres"}.Conn(t, "super"))
	if _, err := instance.EnsureRoles(t.Context(), empty.Conn(t, "t_lockapp")); err == nil || !strings.Contains(err.Error(), "permission denied to create role") {
		t.Errorf("without the roles: %v, want a refusal", err)
	}
}

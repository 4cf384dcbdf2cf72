package instance

import (
	"context"
	_ "embed" // roles.sql
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
)

// OwnerRole owns every object in both databases; migrations run as it (K-9.5).
const OwnerRole = "dlock_owner"

// Roles are the group roles of K-12.1, in the order they are created.
func Roles() []string {
	return []string{OwnerRole, "lockapp", "payapp", "payapp_resource", "payapp_rail", "dlock_operator", "dlock_auditor"}
}

//go:embed roles.sql
var rolesSQL string

// RolesSQL is the script that EnsureRoles runs, for who would rather run it
// by hand.
func RolesSQL() string { return rolesSQL }

// RolesReport says what EnsureRoles did.
type RolesReport struct {
	Created []string `json:"created"`
	Present []string `json:"present"`
	// Missing is what the caller's rights did not suffice for, each as a
	// sentence with the SQL that a stronger role has to run.
	Missing []string `json:"missing"`
}

// EnsureRoles creates the group roles that are missing in the cluster of conn,
// and gives dlock_owner its right to create in the current schema. It is safe
// to run from many databases of one cluster at once, and may be run again.
func EnsureRoles(ctx context.Context, conn *pgx.Conn) (RolesReport, error) {
	before, err := existingRoles(ctx, conn)
	if err != nil {
		return RolesReport{}, err
	}
	// The script holds no parameters: the simple protocol runs it whole.
	if _, err := conn.PgConn().Exec(ctx, rolesSQL).ReadAll(); err != nil {
		return RolesReport{}, fmt.Errorf("create roles: %w", err)
	}
	report := RolesReport{Created: []string{}, Present: []string{}, Missing: []string{}}
	after, err := existingRoles(ctx, conn)
	if err != nil {
		return RolesReport{}, err
	}
	for _, role := range Roles() {
		switch {
		case before[role]:
			report.Present = append(report.Present, role)
		case after[role]:
			report.Created = append(report.Created, role)
		default:
			report.Missing = append(report.Missing, fmt.Sprintf("role %s does not exist; run: CREATE ROLE %s NOLOGIN", role, role))
		}
	}
	missing, err := missingGrants(ctx, conn)
	if err != nil {
		return RolesReport{}, err
	}
	report.Missing = append(report.Missing, missing...)
	return report, nil
}

func existingRoles(ctx context.Context, conn *pgx.Conn) (map[string]bool, error) {
	rows, err := conn.Query(ctx, `SELECT rolname FROM pg_roles WHERE rolname = ANY($1)`, Roles())
	if err != nil {
		return nil, fmt.Errorf("list roles: %w", err)
	}
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, fmt.Errorf("list roles: %w", err)
	}
	present := make(map[string]bool, len(names))
	for _, name := range names {
		present[name] = true
	}
	return present, nil
}

// missingGrants reads what stands instead of trusting what the script did:
// another database may have granted at the same moment.
func missingGrants(ctx context.Context, conn *pgx.Conn) ([]string, error) {
	var user, schema string
	var create, usage, operator, resource, rail, self bool
	err := conn.QueryRow(ctx, `
SELECT current_user, current_schema(),
       has_schema_privilege('dlock_owner', current_schema(), 'CREATE'),
       (SELECT bool_and(has_schema_privilege(role, current_schema(), 'USAGE')) FROM unnest(ARRAY['lockapp', 'payapp', 'dlock_operator', 'dlock_auditor']) role),
       pg_has_role('dlock_operator', 'dlock_owner', 'MEMBER'),
       pg_has_role('payapp_resource', 'payapp', 'MEMBER'),
       pg_has_role('payapp_rail', 'payapp', 'MEMBER'),
       pg_has_role(current_user, 'dlock_owner', 'MEMBER')`).Scan(&user, &schema, &create, &usage, &operator, &resource, &rail, &self)
	if err != nil {
		return nil, fmt.Errorf("read grants: %w", err)
	}
	var missing []string
	grant := func(ok bool, sql string) {
		if !ok {
			missing = append(missing, fmt.Sprintf("%s may not do it; run as a stronger role: %s", user, sql))
		}
	}
	grant(create, "GRANT USAGE, CREATE ON SCHEMA "+pgx.Identifier{schema}.Sanitize()+" TO dlock_owner")
	grant(usage, "GRANT USAGE ON SCHEMA "+pgx.Identifier{schema}.Sanitize()+" TO lockapp, payapp, dlock_operator, dlock_auditor")
	grant(operator, "GRANT dlock_owner TO dlock_operator")
	grant(resource, "GRANT payapp TO payapp_resource")
	grant(rail, "GRANT payapp TO payapp_rail")
	grant(self, strings.TrimSpace("GRANT dlock_owner TO "+pgx.Identifier{user}.Sanitize()))
	return missing, nil
}

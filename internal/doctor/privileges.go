package doctor

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/dlockctl/dlockctl/internal/flyway"
	"github.com/dlockctl/dlockctl/internal/instance"
)

// rolePrivilege is a role whose rights are compared as a whole.
type rolePrivilege struct {
	database, role, clause, meaning string
	severity                        Severity
}

func rolePrivileges() []rolePrivilege {
	return []rolePrivilege{
		{LockDB, "lockapp", "K-12.1", "it grants and ends locks; with UPDATE on the sequence it could set tokens back, with more on gate, journal or audit rewrite the evidence", Critical},
		{LockDB, "dlock_operator", "K-12.1", "a person revokes and appends to the logs; the owner's rights come by SET ROLE, and show in them", High},
		{LockDB, "dlock_auditor", "K-12.1", "it reads everything and writes nothing, so that who looks cannot be the one who changed", High},
		{PayDB, "payapp", "K-12.1", "it is what the two services share, reading: a right to write here would be both's", Critical},
		{PayDB, "payapp_resource", "K-4.6", "it posts, and never touches rail_high_water: one service could else pass both enforcement points", Critical},
		{PayDB, "payapp_rail", "K-4.6", "it keeps the mark and the attempts, and moves no payout and no money", Critical},
		{PayDB, "dlock_operator", "K-12.1", "a person raises fences and settles payouts, and touches no balance and no leg", High},
		{PayDB, "dlock_auditor", "K-12.1", "it reads everything and writes nothing, so that who looks cannot be the one who changed", High},
	}
}

// grant is what a role has, by K-12.1; words are separated by blanks.
type grant struct{ role, privileges, objects, columns string }

func grants(database string) []grant {
	if database == LockDB {
		return lockGrants()
	}
	return payGrants()
}

func lockGrants() []grant {
	const appended = "lock_key prev_owner prev_token operator reason"
	shared := func(role string) []grant {
		return []grant{
			{role, "SELECT INSERT UPDATE DELETE", "lock_session lock_entry", ""},
			{role, "SELECT", "lock_revocation lock_gate lock_grant operator_log peer_instance deployment outside_mark " + flyway.TableName, ""},
			{role, "INSERT", "lock_revocation", appended},
			{role, "USAGE", "lock_revocation_id_seq", ""},
			{role, "USAGE SELECT", "fencing_token_seq", ""},
			{role, "EXECUTE", "lock_grant_extend outside_mark_keep", ""},
		}
	}
	return slices.Concat(shared("lockapp"), shared("dlock_operator"), []grant{
		{"dlock_operator", "INSERT", "operator_log", "action operator reason token details"},
		{"dlock_auditor", "SELECT", "lock_session lock_entry lock_revocation lock_gate lock_grant operator_log peer_instance deployment outside_mark fencing_token_seq " + flyway.TableName, ""},
	})
}

func payGrants() []grant {
	const (
		resolved = "payout_id source verdict evidence operator reason"
		raised   = "account_id raised_from raised_to operator reason"
		all      = "account payout ledger_entry rail_submission rail_high_water clearing_account opening_balance payout_claim payout_resolution account_fence_raise fence_floor pay_gate peer_instance deployment " + flyway.TableName
	)
	return []grant{
		{"payapp", "SELECT", "account payout clearing_account payout_claim payout_resolution fence_floor pay_gate peer_instance deployment rail_submission " + flyway.TableName, ""},
		{"payapp_resource", "SELECT", "ledger_entry opening_balance account_fence_raise", ""},
		{"payapp_resource", "INSERT", "payout", "payout_id account_id amount_minor currency idempotency_key"},
		{"payapp_resource", "UPDATE", "payout", "state claimed_by claim_token attempt_count updated_at"},
		{"payapp_resource", "UPDATE", "account", "balance_minor fence updated_at"},
		{"payapp_resource", "INSERT", "ledger_entry", "entry_id payout_id account_id direction amount_minor fence"},
		{"payapp_resource", "INSERT", "payout_resolution", resolved},
		{"payapp_resource", "INSERT", "account_fence_raise", raised},
		{"payapp_rail", "SELECT", "rail_high_water", ""},
		{"payapp_rail", "INSERT", "rail_high_water", "account_id highest_token updated_at"},
		{"payapp_rail", "UPDATE", "rail_high_water", "highest_token updated_at"},
		{"payapp_rail", "INSERT", "rail_submission", "submission_id payout_id idempotency_key presented_token outcome rail_reference resolved_at"},
		{"payapp_rail", "UPDATE", "rail_submission", "outcome rail_reference resolved_at"},
		{"dlock_operator", "SELECT", all, ""},
		{"dlock_operator", "UPDATE", "account", "fence updated_at"},
		{"dlock_operator", "UPDATE", "payout", "state claimed_by claim_token updated_at"},
		{"dlock_operator", "INSERT", "payout_resolution", resolved},
		{"dlock_operator", "INSERT", "account_fence_raise", raised},
		{"dlock_auditor", "SELECT", all, ""},
	}
}

// right is one privilege on one object; column "" is the whole of it.
type right struct{ privilege, object, column string }

// held is how a right is had.
type held struct {
	kind      string // "", "SEQUENCE ", "FUNCTION ": what GRANT calls the object
	grantable bool
}

// objects are the relations and functions of the schema, as migrated, with the
// partitions that were made since.
func (s *side) objects(ctx context.Context, tx pgx.Tx) (relations, functions []string, err error) {
	made, err := s.migrated()
	if err != nil {
		return nil, nil, err
	}
	relations = slices.Concat(made.tables, made.sequences, []string{flyway.TableName})
	if s.name == LockDB {
		parts, err := partitions(ctx, tx)
		if err != nil {
			return nil, nil, err
		}
		for _, p := range parts {
			relations = append(relations, strings.Trim(p.name, `"`))
		}
	}
	for _, f := range made.functions {
		functions = append(functions, f.name)
	}
	return relations, functions, nil
}

// rights reads who has what.
func (s *side) rights(ctx context.Context, tx pgx.Tx) (map[string]map[right]held, error) {
	relations, _, err := s.objects(ctx, tx)
	if err != nil {
		return nil, err
	}
	relations = append(relations, "lock_revocation_id_seq")
	made, err := s.migrated()
	if err != nil {
		return nil, err
	}
	have := map[string]map[right]held{}
	var role string
	var r right
	var h held
	err = eachRow(ctx, tx, privilegesQuery, []any{relations, made.restricted}, []any{&role, &r.privilege, &r.object, &h.kind, &r.column, &h.grantable}, func() error {
		if have[role] == nil {
			have[role] = map[right]held{}
		}
		have[role][r] = h
		return nil
	})
	return have, err
}

// due are the rights of a role by K-12.1.
func due(database, role string) map[right]bool {
	wanted := map[right]bool{}
	for _, g := range grants(database) {
		if g.role != role {
			continue
		}
		columns := strings.Fields(g.columns)
		if len(columns) == 0 {
			columns = []string{""}
		}
		for _, privilege := range strings.Fields(g.privileges) {
			for _, object := range strings.Fields(g.objects) {
				for _, column := range columns {
					wanted[right{privilege, object, column}] = true
				}
			}
		}
	}
	return wanted
}

func privilegesOf(role string) func(context.Context, *exam, *side, pgx.Tx) (finding, error) {
	return func(ctx context.Context, _ *exam, s *side, tx pgx.Tx) (finding, error) {
		all, err := s.rights(ctx, tx)
		if err != nil {
			return finding{}, err
		}
		have, wanted := all[role], due(s.name, role)
		// What an older schema does not have yet is the schema's own check.
		if err := dropMissing(ctx, tx, wanted); err != nil {
			return finding{}, err
		}
		if len(wanted) == 0 {
			return finding{Unknown, "the schema has none of the tables", command(migrateUp)}, nil
		}
		exists, err := hasRole(ctx, tx, role)
		if err != nil {
			return finding{}, err
		}
		if !exists {
			return finding{Unknown, "there is no such role", advice("see " + s.name + "_roles")}, nil
		}
		saw, fix := compare(role, have, wanted)
		what, statements, err := s.schemaRight(ctx, tx, role)
		if err != nil {
			return finding{}, err
		}
		saw, fix = append(saw, what...), append(fix, statements...)
		if len(saw) == 0 {
			return finding{OK, fmt.Sprintf("%d rights, as they should be", len(wanted)), nil}, nil
		}
		return finding{Fail, strings.Join(saw, ", "), s.sql(s.granter(what), fix...)}, nil
	}
}

// compare says what a role lacks and what it has too much, with the statements
// that put it right.
func compare(role string, have map[right]held, wanted map[right]bool) (saw, fix []string) {
	var lost []right
	for r := range wanted {
		if _, ok := have[r]; !ok {
			saw, lost = append(saw, "lacks "+r.String()), append(lost, r)
		}
	}
	for r, h := range have {
		switch {
		case !wanted[r]:
			saw, fix = append(saw, "has "+r.String()), append(fix, "REVOKE "+r.on(h.kind)+" FROM "+role)
			// What is taken from a table is taken from its columns too.
			for w := range wanted {
				if r.column == "" && w.privilege == r.privilege && w.object == r.object {
					lost = append(lost, w)
				}
			}
		case h.grantable:
			saw, fix = append(saw, "may grant "+r.String()), append(fix, "REVOKE GRANT OPTION FOR "+r.on(h.kind)+" FROM "+role)
		}
	}
	slices.Sort(saw)
	slices.Sort(fix)
	slices.SortFunc(lost, compareRights)
	for _, r := range slices.Compact(lost) {
		fix = append(fix, "GRANT "+r.on(kindOf(r))+" TO "+role)
	}
	return saw, fix
}

func hasRole(ctx context.Context, tx pgx.Tx, name string) (exists bool, err error) {
	err = tx.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_roles WHERE rolname = $1)`, name).Scan(&exists)
	return exists, err
}

// dropMissing takes out the rights on objects that are not there.
func dropMissing(ctx context.Context, tx pgx.Tx, wanted map[right]bool) error {
	there := map[string]bool{}
	var name string
	err := eachRow(ctx, tx, namesQuery, nil, []any{&name}, func() error {
		there[name] = true
		return nil
	})
	maps.DeleteFunc(wanted, func(r right, _ bool) bool { return !there[r.object] })
	return err
}

// granter is who may run the fix: the schema is not dlock_owner's to give.
func (s *side) granter(schemaRights []string) string {
	if len(schemaRights) > 0 {
		return Superuser
	}
	return instance.OwnerRole
}

func kindOf(r right) string {
	switch {
	case r.privilege == "EXECUTE":
		return "FUNCTION "
	case strings.HasSuffix(r.object, "_seq"):
		return "SEQUENCE "
	}
	return ""
}

func (r right) String() string {
	if r.column == "" {
		return r.privilege + " on " + r.object
	}
	return r.privilege + " on " + r.object + "." + r.column
}

// on writes the right as GRANT and REVOKE have it.
func (r right) on(kind string) string {
	if r.column == "" {
		return r.privilege + " ON " + kind + r.object
	}
	return r.privilege + " (" + r.column + ") ON " + kind + r.object
}

// schemaRight wants a role to use the schema, and to make nothing in it.
func (s *side) schemaRight(ctx context.Context, tx pgx.Tx, role string) (saw, fix []string, err error) {
	var who string
	var usage, create bool
	err = eachRow(ctx, tx, schemaQuery, []any{[]string{role}}, []any{&who, &usage, &create}, func() error {
		if who != role {
			return nil
		}
		if !usage {
			saw, fix = append(saw, "lacks USAGE on schema "+s.schema), append(fix, "GRANT USAGE ON SCHEMA "+s.schema+" TO "+role)
		}
		if create {
			saw, fix = append(saw, "has CREATE on schema "+s.schema), append(fix, "REVOKE CREATE ON SCHEMA "+s.schema+" FROM "+role)
		}
		return nil
	})
	return saw, fix, err
}

// privilegesOfOthers wants nothing of PUBLIC and of the other database's roles,
// and reading alone of everybody else: who watches a database may have a login
// that this program does not know.
func privilegesOfOthers(ctx context.Context, _ *exam, s *side, tx pgx.Tx) (finding, error) {
	all, err := s.rights(ctx, tx)
	if err != nil {
		return finding{}, err
	}
	var saw, fix []string
	for _, role := range slices.Sorted(maps.Keys(all)) {
		group := slices.Contains(instance.Roles(), role)
		if group && len(due(s.name, role)) > 0 {
			continue // it has a check of its own
		}
		whom := role
		if role != "PUBLIC" && !group {
			whom = ident(role)
		}
		for _, r := range slices.SortedFunc(maps.Keys(all[role]), compareRights) {
			if r.privilege == "SELECT" && role != "PUBLIC" && !group {
				continue
			}
			saw = append(saw, role+" has "+r.String())
			fix = append(fix, "REVOKE "+r.on(all[role][r].kind)+" FROM "+whom)
		}
	}
	// CREATE on the schema would let anybody put a function in the guards' way.
	what, statements, err := s.schemaRight(ctx, tx, "PUBLIC")
	if err != nil {
		return finding{}, err
	}
	for _, text := range what {
		saw = append(saw, "PUBLIC "+text)
	}
	fix = append(fix, statements...)
	if len(saw) == 0 {
		return finding{OK, "none", nil}, nil
	}
	return finding{Fail, strings.Join(saw, ", "), s.sql(s.granter(what), fix...)}, nil
}

func compareRights(a, b right) int {
	return cmp.Or(cmp.Compare(a.object, b.object), cmp.Compare(a.privilege, b.privilege), cmp.Compare(a.column, b.column))
}

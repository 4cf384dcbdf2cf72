package doctor

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/dlockctl/dlockctl/internal/instance"
)

// memberships are the group roles that are members of others (K-12.1).
func memberships() map[string]string {
	return map[string]string{"payapp_resource": "payapp", "payapp_rail": "payapp", "dlock_operator": instance.OwnerRole}
}

func roles(ctx context.Context, _ *exam, s *side, tx pgx.Tx) (finding, error) {
	var saw, fix []string
	missing := slices.Clone(instance.Roles())
	var role, attributes string
	err := eachRow(ctx, tx, rolesQuery, []any{instance.Roles()}, []any{&role, &attributes}, func() error {
		missing = slices.DeleteFunc(missing, func(name string) bool { return name == role })
		for _, attribute := range strings.Fields(attributes) {
			saw = append(saw, role+" is "+attribute)
			fix = append(fix, "ALTER ROLE "+role+" NO"+attribute)
		}
		return nil
	})
	if err != nil {
		return finding{}, err
	}
	if len(missing) > 0 {
		return finding{Fail, "missing: " + strings.Join(missing, ", "), command("dlockctl migrate roles --target " + s.name)}, nil
	}
	members, repairs, err := s.wrongMembers(ctx, tx)
	if err != nil {
		return finding{}, err
	}
	saw, fix = append(saw, members...), append(fix, repairs...)
	if len(saw) > 0 {
		return finding{Fail, strings.Join(saw, ", "), s.sql(Superuser, fix...)}, nil
	}
	return finding{OK, strings.Join(instance.Roles(), ", "), nil}, nil
}

// wrongMembers compares who is a member of whom. An operator has the owner's
// rights only after SET ROLE.
func (s *side) wrongMembers(ctx context.Context, tx pgx.Tx) (saw, fix []string, err error) {
	missing := memberships()
	var group, quoted, member, by string
	var inherits bool
	err = eachRow(ctx, tx, membersQuery, []any{instance.Roles()}, []any{&group, &quoted, &member, &inherits, &by}, func() error {
		switch {
		case memberships()[member] != group:
			saw = append(saw, member+" is a member of "+group)
			fix = append(fix, "REVOKE "+quoted+" FROM "+member+by)
		case group == instance.OwnerRole && inherits:
			saw = append(saw, member+" inherits from "+group)
			fix = append(fix, s.noInherit(group, member)+by)
			delete(missing, member)
		default:
			delete(missing, member)
		}
		return nil
	})
	for _, member := range slices.Sorted(maps.Keys(missing)) {
		saw = append(saw, member+" is no member of "+missing[member])
		fix = append(fix, "GRANT "+missing[member]+" TO "+member)
	}
	return saw, fix, err
}

func (s *side) noInherit(group, member string) string {
	if s.facts.Version < targetVersion {
		return "ALTER ROLE " + member + " NOINHERIT"
	}
	return "GRANT " + group + " TO " + member + " WITH INHERIT FALSE"
}

// excluding are the group roles that no login has both of.
func excluding(database string) (one, other []string) {
	if database == LockDB {
		return []string{"lockapp"}, []string{instance.OwnerRole}
	}
	return []string{"payapp_resource", "payapp_rail", "payapp_resource"}, []string{instance.OwnerRole, instance.OwnerRole, "payapp_rail"}
}

func serviceLogins(ctx context.Context, e *exam, s *side, tx pgx.Tx) (finding, error) {
	one, other := excluding(s.name)
	var saw, fix []string
	var login, is, too, revoke string
	spared := false
	err := eachRow(ctx, tx, loginsQuery, []any{one, other}, []any{&login, &is, &too, &revoke}, func() error {
		if e.target.Embedded && login == s.config.User {
			spared = true
			return nil
		}
		saw = append(saw, fmt.Sprintf("%s is %s and %s", login, is, too))
		if revoke != "" && !slices.Contains(fix, revoke) {
			fix = append(fix, revoke)
		}
		return nil
	})
	switch {
	case err != nil:
		return finding{}, err
	case len(saw) > 0:
		return finding{Warn, strings.Join(saw, ", "), s.sql(Superuser, fix...)}, nil
	case spared:
		return finding{OK, "the login of dlockctl dev is everything, and there are no services here", nil}, nil
	}
	return finding{OK, "none", nil}, nil
}

func owner(ctx context.Context, _ *exam, s *side, tx pgx.Tx) (finding, error) {
	relations, functions, err := s.objects(ctx, tx)
	if err != nil {
		return finding{}, err
	}
	var saw, fix []string
	var object, whose, alter string
	err = eachRow(ctx, tx, ownersQuery, []any{relations, functions, instance.OwnerRole}, []any{&object, &whose, &alter}, func() error {
		saw = append(saw, object+" belongs to "+whose)
		fix = append(fix, alter+" OWNER TO "+instance.OwnerRole)
		return nil
	})
	switch {
	case err != nil:
		return finding{}, err
	case len(saw) > 0:
		return finding{Fail, strings.Join(saw, ", "), s.sql(Superuser, fix...)}, nil
	}
	return finding{OK, instance.OwnerRole, nil}, nil
}

func login(ctx context.Context, _ *exam, s *side, tx pgx.Tx) (finding, error) {
	var super bool
	if err := tx.QueryRow(ctx, `SELECT rolsuper FROM pg_roles WHERE rolname = session_user`).Scan(&super); err != nil {
		return finding{}, err
	}
	if super {
		return finding{Warn, s.login + " is one", advice("connect as a login of your own that is a member of dlock_operator, or of dlock_auditor to read")}, nil
	}
	return finding{OK, s.login, nil}, nil
}

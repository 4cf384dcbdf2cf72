package reconcile

import (
	"context"
	_ "embed"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
)

var (
	//go:embed queries/objects.sql
	objectsQuery string
	//go:embed queries/partitions.sql
	partitionsQuery string
	//go:embed queries/replica_logins.sql
	replicaLoginsQuery string

	// What the migrations make, as objects.sql shows it. TestGuardsAreTheMigrations
	// holds the files to the schema on every version, and writes them with -update.
	//go:embed guards/paydb.txt
	payGuards string
	//go:embed guards/lockdb.txt
	lockGuards string
)

// guard is a constraint, a unique index, a NOT NULL, a trigger, or a function, which is on
// no table.
type guard struct{ kind, table, name, state, definition string }

func (g guard) key() string { return strings.TrimPrefix(g.table+"."+g.name, ".") }

// told names the guard.
func (g guard) told() string {
	if g.table == "" {
		return g.kind + " " + g.name
	}
	return fmt.Sprintf("%s %s on %s", g.kind, g.name, g.table)
}

// guardsOf looks for every guard that the migrations of the database make (D05).
func guardsOf(database string) func(context.Context, reading, *sink) error {
	return func(ctx context.Context, rd reading, found *sink) error {
		tx, wanted := rd.pay, parseGuards(payGuards)
		if database == lockDB {
			tx, wanted = rd.lock, parseGuards(lockGuards)
			partitions, err := column(ctx, tx, partitionsQuery)
			if err != nil {
				return fmt.Errorf("look for the journal's partitions: %w", err)
			}
			wanted = append(wanted, onPartitions(wanted, partitions)...)
		}
		standing, err := readGuards(ctx, tx)
		if err != nil {
			return err
		}
		for _, g := range wanted {
			if wrong := g.judge(standing); wrong != "" {
				row := Row{Class: guardsClass, Subject: database + "." + g.key(), What: fmt.Sprintf("%s %s (%s)", g.told(), wrong, database)}
				if err := found.add(row); err != nil {
					return err
				}
			}
		}
		found.checked(int64(len(wanted)))
		return replicaLogins(ctx, tx, database, found)
	}
}

// judge says what is wrong with a guard, "" for nothing.
func (g guard) judge(standing map[string]guard) string {
	at, there := standing[g.kind+" "+g.key()]
	switch {
	case !there:
		return "is missing"
	case at.definition != g.definition:
		return "is another one: " + at.definition
	case g.state == "not valid":
		return "" // the migration leaves old rows alone
	case at.state != g.state:
		return "is " + at.state
	}
	return ""
}

// onPartitions are the triggers of the journal on its partitions, as on DEFAULT.
func onPartitions(wanted []guard, partitions []string) []guard {
	var more []guard
	for _, name := range partitions {
		for _, g := range wanted {
			if g.kind == "trigger" && g.table == defaultPartition && name != defaultPartition {
				g.table = name
				g.definition = strings.Replace(g.definition, " ON "+defaultPartition+" ", " ON "+name+" ", 1)
				more = append(more, g)
			}
		}
	}
	return more
}

const defaultPartition = "lock_grant_default"

func readGuards(ctx context.Context, tx pgx.Tx) (map[string]guard, error) {
	standing := map[string]guard{}
	rows, err := tx.Query(ctx, objectsQuery)
	if err != nil {
		return nil, fmt.Errorf("look for the guards: %w", err)
	}
	var g guard
	_, err = pgx.ForEachRow(rows, []any{&g.kind, &g.table, &g.name, &g.state, &g.definition}, func() error {
		standing[g.kind+" "+g.key()] = g
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("look for the guards: %w", err)
	}
	return standing, nil
}

func parseGuards(text string) []guard {
	var guards []guard
	for line := range strings.Lines(text) {
		f := strings.SplitN(strings.TrimRight(line, "\r\n"), "\t", 5)
		guards = append(guards, guard{f[0], f[1], f[2], f[3], f[4]})
	}
	return guards
}

// replicaLogins finds those for whom no guard fires.
func replicaLogins(ctx context.Context, tx pgx.Tx, database string, found *sink) error {
	logins, err := column(ctx, tx, replicaLoginsQuery)
	if err != nil {
		return fmt.Errorf("look for logins in replica mode: %w", err)
	}
	for _, login := range logins {
		row := Row{
			Class: guardsClass, Subject: database + ".session_replication_role." + login,
			What: fmt.Sprintf("session_replication_role is replica for %s: foreign keys and plain triggers do not fire (%s)", login, database),
		}
		if err := found.add(row); err != nil {
			return err
		}
	}
	return nil
}

func column(ctx context.Context, tx pgx.Tx, query string) ([]string, error) {
	rows, err := tx.Query(ctx, query)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[string])
}

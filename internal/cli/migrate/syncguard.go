package migrate

import (
	"context"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/spf13/pflag"

	"github.com/dlockctl/dlockctl/internal/cli/app"
	"github.com/dlockctl/dlockctl/internal/config"
	"github.com/dlockctl/dlockctl/internal/flyway"
	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/lockstore/syncguard/tables"
	"github.com/dlockctl/dlockctl/migrations"
)

const (
	// targetSyncGuard is the database with SyncGuard's tables (K-10.2).
	targetSyncGuard = "syncguard"
	auditLocation   = "audit/" + targetSyncGuard
	// adoptedVersion is the file that makes what the library makes.
	adoptedVersion     = "1"
	adoptedDescription = "SyncGuard's own tables, adopted"
)

// auditFlag asks for the audit table.
func (o *options) auditFlag(flags *pflag.FlagSet) {
	flags.BoolVar(&o.audit, "audit", false, "with --target syncguard, also make the table of what operators do there")
}

// namesFor resolves --target all, which is what the backend keeps its locks in, and
// refuses a target that is not where lock.dsn leads.
func namesFor(cfg *config.Config, name string) (string, error) {
	if cfg.Backend != config.SyncGuard {
		if name == targetSyncGuard && cfg.Backend == config.Postgres && cfg.Origin("backend").Layer == config.Default {
			return name, nil // nobody has said that the address is lockdb's
		}
		if name == targetSyncGuard {
			return "", app.UsageError("give --backend syncguard and the address of its database", "the backend is %s: lock.dsn is not the address of SyncGuard's tables", cfg.Backend)
		}
		return name, nil
	}
	switch {
	case name == targetLock:
		return "", app.UsageError("give --target syncguard, or --backend postgres with lockdb's address", "the backend is syncguard: lock.dsn is the address of its tables, not of lockdb")
	case name == targetAll && !cfg.Pay.Configured():
		return targetSyncGuard, nil
	}
	return name, nil
}

// syncGuardTarget is the database of lock.dsn, with the names that are configured.
func syncGuardTarget(ctx context.Context, a *app.App, cfg *config.Config, audit bool) (Target, error) {
	conn, err := a.LockConfig()
	if err != nil {
		return Target{}, err
	}
	t := Target{Name: targetSyncGuard, Config: conn, Tables: tables.Names{Lock: cfg.SyncGuard.LockTable, Fence: cfg.SyncGuard.FenceTable}, Audit: audit}
	return t, t.asked(ctx, func(conn *pgx.Conn) error {
		var whose string
		if err := conn.QueryRow(ctx, `SELECT CASE WHEN to_regclass('lock_entry') IS NOT NULL AND to_regclass('lock_gate') IS NOT NULL THEN 'lockdb'
			WHEN to_regclass('payout') IS NOT NULL AND to_regclass('pay_gate') IS NOT NULL THEN 'paydb' ELSE '' END`).Scan(&whose); err != nil {
			return fmt.Errorf("look whose database it is: %w", err)
		}
		if whose != "" {
			return &app.Failure{Exit: app.Refused, Code: "wrong_database", Message: "the address given for SyncGuard's tables is that of " + whose, Hint: "correct lock.dsn, or name another schema in its search_path"}
		}
		found, err := tables.Look(ctx, conn, t.Tables)
		if err != nil {
			return err
		}
		// The history stands beside the tables; without them, it tells where they were.
		if t.schema = found.Schema; t.schema == "" {
			if t.schema, err = tables.Where(ctx, conn, tables.History); err != nil {
				return err
			}
		}
		// Who asked once has it among what is applied and looked for.
		rows, err := flyway.AppliedIn(ctx, conn, t.schema, tables.History)
		if err != nil {
			return fmt.Errorf("read the history of %s: %w", t.Name, err)
		}
		t.Audit = t.Audit || slices.ContainsFunc(rows, func(row flyway.Row) bool { return row.Script == auditScript })
		return nil
	})
}

// auditScript is the file of the audit, as the history names it.
const auditScript = "R__keep_audit.sql"

func (t Target) asked(ctx context.Context, ask func(*pgx.Conn) error) error {
	conn, err := connect(ctx, t.Name, t.Config)
	if err != nil {
		return err
	}
	defer closeConn(ctx, conn)
	return ask(conn)
}

// renamed are the files with the tables' configured names in place of the library's.
type renamed struct {
	fs.FS
	names tables.Names
}

// ReadFile implements fs.ReadFileFS.
func (r renamed) ReadFile(name string) ([]byte, error) {
	text, err := fs.ReadFile(r.FS, name)
	if err != nil || r.names == tables.Default() {
		return text, err
	}
	return []byte(r.names.SQL(string(text))), nil
}

// syncGuardLocations are the library's schema, and the audit where it was asked for.
func (t Target) syncGuardLocations() []flyway.Location {
	locations := []flyway.Location{{FS: renamed{migrations.FS, t.Tables}, Dir: targetSyncGuard}}
	if t.Audit {
		locations = append(locations, flyway.Location{FS: migrations.FS, Dir: auditLocation})
	}
	return locations
}

// adopt records tables that the library made as what the first file makes; it
// refuses those that are not as the library makes them. It tells whether it did.
func (t Target) adopt(ctx context.Context, m *flyway.Migrator) (bool, error) {
	if t.Name != targetSyncGuard {
		return false, nil
	}
	found, err := t.shape(ctx)
	if err != nil {
		return false, err
	}
	status, err := m.Status(ctx)
	switch {
	case err != nil || status.HistoryExists:
		return false, err
	case found.Absent():
		if err := t.Tables.Creatable(); err != nil {
			return false, app.UsageError("give a shorter name in syncguard.lock_table", "%v", err)
		}
		return false, nil
	case !found.Whole():
		return false, different(found)
	}
	return true, m.Baseline(ctx, adoptedVersion, adoptedDescription)
}

// stand refuses tables that are not as the history says.
func (t Target) stand(ctx context.Context) error {
	found, err := t.shape(ctx)
	switch {
	case err != nil:
		return err
	case found.Absent():
		return &app.Failure{
			Exit: app.History, Code: "history", Message: fmt.Sprintf("the history says that SyncGuard's tables were made, and there is no table %s", t.Tables.Lock),
			Hint: "they were dropped or renamed: bring them back from a backup, then dlockctl restore fast-forward; or correct syncguard.lock_table and syncguard.fence_table",
		}
	case !found.Whole():
		return different(found)
	}
	return nil
}

// adoptable is for a baseline that somebody asks for: of the one version there is, and
// over whole tables.
func (t Target) adoptable(ctx context.Context, version string) error {
	if t.Name != targetSyncGuard {
		return nil
	}
	if version != adoptedVersion {
		return app.UsageError("give 1", "baseline %q: version 1 is what the library makes", version)
	}
	found, err := t.shape(ctx)
	switch {
	case err != nil:
		return err
	case found.Absent():
		return &app.Failure{Exit: app.Refused, Code: "not_syncguard", Message: "there are no tables to adopt", Hint: "dlockctl migrate up --target syncguard makes them"}
	case !found.Whole():
		return different(found)
	}
	return nil
}

// shape is what stands under the names that are configured. It refuses tables of other
// names beside: there is one history and one audit for a schema, and what is made or
// taken for SyncGuard's may be what nobody works on.
func (t Target) shape(ctx context.Context) (found tables.Found, err error) {
	err = t.asked(ctx, func(conn *pgx.Conn) error {
		if found, err = tables.Look(ctx, conn, t.Tables); err != nil {
			return err
		}
		others, err := tables.Others(ctx, conn, t.Tables, found.Schema)
		if err != nil || len(others) == 0 {
			return err
		}
		return t.otherNames(others)
	})
	return found, err
}

// otherNames says which tables nobody has named, and how to.
func (t Target) otherNames(others []tables.Other) error {
	texts, settings := []string{}, []string{}
	for _, o := range others {
		kind, setting := "counters", "syncguard.fence_table"
		if o.Lock {
			kind, setting = "locks", "syncguard.lock_table"
		}
		texts = append(texts, fmt.Sprintf("%s %s", kind, pgx.Identifier{o.Schema, o.Table}.Sanitize()))
		settings = append(settings, fmt.Sprintf("%s: %s", setting, o.Table))
	}
	return &app.Failure{
		Exit: app.Refused, Code: "other_names",
		Message: fmt.Sprintf("SyncGuard's tables stand here under other names than %s and %s: %s", t.Tables.Lock, t.Tables.Fence, strings.Join(texts, ", ")),
		Hint: "nothing was changed; if clients use those, configure " + strings.Join(settings, " and ") +
			"; if both are in use, give each pair a schema of its own, and name it alone in the search_path; if nobody uses those, drop them or move them to a schema that no search_path names",
		Details: map[string][]tables.Other{"others": others},
	}
}

// different says exactly what keeps the tables from being the library's.
func different(found tables.Found) error {
	texts, fixes := []string{}, []string{}
	for _, d := range found.Differences {
		texts = append(texts, d.String())
		if d.Fix != "" {
			fixes = append(fixes, d.Fix)
		}
	}
	hint := "nothing was changed; no statement can know how to put this right"
	if len(fixes) > 0 {
		hint = "nothing was changed; run, and try again: " + strings.Join(fixes, "; ")
	}
	return &app.Failure{
		Exit: app.Refused, Code: "not_syncguard", Message: "these are not SyncGuard's tables: " + strings.Join(texts, "; "), Hint: hint,
		Details: map[string][]tables.Difference{"differences": found.Differences},
	}
}

// notHere refuses a verb that a SyncGuard deployment has no use for.
func notHere(name, verb, why string) error {
	if name != targetSyncGuard {
		return nil
	}
	return fmt.Errorf("migrate %s --target %s: %s: %w", verb, name, why, lockstore.ErrUnsupported)
}

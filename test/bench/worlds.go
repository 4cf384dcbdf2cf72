package main

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/dlockctl/dlockctl/internal/devenv"
	"github.com/dlockctl/dlockctl/internal/instance"
	"github.com/dlockctl/dlockctl/internal/reconcile"
	"github.com/dlockctl/dlockctl/internal/reconcile/plant"
)

// perClass is how many breaks of each class are planted.
const perClass = 5

// world is a ledger of one size in two databases of its own, with planted breaks.
type world struct {
	dbs  *databases
	name string
	size plant.Params
	// payDSN and lockDSN have the rights of dlock_auditor and no others.
	payDSN, lockDSN string
	faults          []plant.Fault
	// rules are the statements that a run reads with, settings those of its
	// transactions.
	rules    []ruleStatement
	settings string
	made     bool
}

func (w *world) database() string { return "ledger_" + w.name }

// superuser comes in through the socket alone, as devenv sets it up.
const superuser = "dlock_super"

// superConfig is a superuser's connection to a database of the instance that the DSN
// leads to: planting goes past every trigger.
func (d *databases) superConfig(ctx context.Context, instanceName, database string) (*pgx.ConnConfig, error) {
	status, err := d.env.Status(ctx)
	if err != nil {
		return nil, err
	}
	at := slices.IndexFunc(status.Instances, func(i devenv.InstanceStatus) bool { return i.Name == instanceName })
	if at < 0 {
		return nil, fmt.Errorf("there is no instance %s", instanceName)
	}
	return socketConfig(status.Instances[at].SocketDir, status.Instances[at].Port, database)
}

// socketConfig is a superuser's connection through a server's socket.
func socketConfig(socketDir string, port int, database string) (*pgx.ConnConfig, error) {
	config, err := pgx.ParseConfig("sslmode=disable")
	if err != nil {
		return nil, fmt.Errorf("prepare a connection: %w", err)
	}
	config.Host, config.Port = socketDir, uint16(port) //nolint:gosec // G115: a port
	config.User, config.Database, config.Password, config.TLSConfig, config.Fallbacks = superuser, database, "", nil, nil
	return config, nil
}

func (d *databases) asSuper(ctx context.Context, instanceName, database string, fn func(*pgx.Conn) error) error {
	config, err := d.superConfig(ctx, instanceName, database)
	if err != nil {
		return err
	}
	return connectedBy(ctx, config, fn)
}

// inDatabase is the DSN with another database, and the rights of a role.
func inDatabase(dsn, database, role string) (string, error) {
	u, err := url.Parse(dsn)
	if err != nil {
		return "", fmt.Errorf("read the DSN: %w", err)
	}
	u.Path = "/" + database
	if role != "" {
		q := u.Query()
		q.Set("options", "-c role="+role)
		u.RawQuery = strings.ReplaceAll(q.Encode(), "+", "%20")
	}
	return u.String(), nil
}

// make migrates two databases, fills them and plants the breaks. It takes minutes, and
// is called when the world is needed: others are measured without it.
func (w *world) make(ctx context.Context, say func(string)) (err error) {
	if w.made {
		return nil
	}
	say(fmt.Sprintf("%s: making %d payouts on %d accounts", w.name, w.size.Payouts, w.size.Accounts))
	for instanceName, dsn := range map[string]string{"paydb": w.dbs.payDSN, "lockdb": w.dbs.ownerDSN} {
		if err := w.migrated(ctx, instanceName, dsn); err != nil {
			return err
		}
	}
	if w.payDSN, err = inDatabase(w.dbs.payDSN, w.database(), "dlock_auditor"); err != nil {
		return err
	}
	if w.lockDSN, err = inDatabase(w.dbs.ownerDSN, w.database(), "dlock_auditor"); err != nil {
		return err
	}
	err = w.dbs.asSuper(ctx, "paydb", w.database(), func(pay *pgx.Conn) error {
		return w.dbs.asSuper(ctx, "lockdb", w.database(), func(lock *pgx.Conn) error { return w.fill(ctx, pay, lock) })
	})
	if err != nil {
		return err
	}
	say(w.name + ": the first run, whose statements are the reference")
	if err := w.record(ctx); err != nil {
		return err
	}
	w.made = true
	return nil
}

func (w *world) migrated(ctx context.Context, instanceName, dsn string) error {
	err := w.dbs.asSuper(ctx, instanceName, "postgres", func(conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, fmt.Sprintf("CREATE DATABASE %s OWNER %s", w.database(), instance.OwnerRole))
		return err
	})
	if err != nil {
		return fmt.Errorf("make the database %s: %w", w.name, err)
	}
	here, err := inDatabase(dsn, w.database(), "")
	if err != nil {
		return err
	}
	if err := migrate(ctx, here, instanceName); err != nil {
		return fmt.Errorf("migrate %s of %s: %w", w.name, instanceName, err)
	}
	return nil
}

func (w *world) fill(ctx context.Context, pay, lock *pgx.Conn) error {
	if _, _, err := instance.RecordPeers(ctx, lock, pay); err != nil {
		return err
	}
	made, err := plant.Healthy(ctx, pay, lock, w.size)
	if err != nil {
		return err
	}
	if w.faults, err = made.PlantMany(ctx, perClass); err != nil {
		return err
	}
	// What autovacuum would do while others are measured.
	for _, conn := range []*pgx.Conn{pay, lock} {
		if _, err := conn.Exec(ctx, "VACUUM (ANALYZE)"); err != nil {
			return fmt.Errorf("vacuum: %w", err)
		}
		if _, err := conn.Exec(ctx, "CHECKPOINT"); err != nil {
			return fmt.Errorf("checkpoint: %w", err)
		}
	}
	return nil
}

// unmake removes the databases.
func (w *world) unmake(ctx context.Context) error {
	if !w.made {
		return nil
	}
	w.made = false
	for _, instanceName := range []string{"paydb", "lockdb"} {
		err := w.dbs.asSuper(ctx, instanceName, "postgres", func(conn *pgx.Conn) error {
			_, err := conn.Exec(ctx, "DROP DATABASE "+w.database())
			return err
		})
		if err != nil {
			return fmt.Errorf("drop the database %s: %w", w.name, err)
		}
	}
	return nil
}

// checkReport fails unless the report says what was planted, all of it and nothing
// else; of a run with rules, only their classes.
func checkReport(r reconcile.Report, faults []plant.Fault, rules ...string) error {
	if !r.Complete || len(r.Missing) > 0 {
		return fmt.Errorf("the run is not complete: %v", r.Missing)
	}
	found := map[int]bool{}
	for _, f := range r.Findings {
		at := slices.IndexFunc(faults, func(p plant.Fault) bool { return explains(p, f) })
		if at < 0 {
			return fmt.Errorf("a finding that nobody planted: %s %s %s: %s", f.ID, f.AccountID, f.PayoutID, f.What)
		}
		found[at] = true
	}
	for i, p := range faults {
		if !found[i] && (len(rules) == 0 || slices.Contains(rules, p.Class)) {
			return fmt.Errorf("a planted break was not found: %+v", p)
		}
	}
	return nil
}

// explains tells that the finding is of the planted break.
func explains(p plant.Fault, f reconcile.Finding) bool {
	if p.Class != f.Class || p.AccountID != "" && p.AccountID != f.AccountID || p.PayoutID != "" && p.PayoutID != f.PayoutID {
		return false
	}
	return p.AccountID != "" || p.PayoutID != "" || slices.Contains(f.Suspects, p.Token)
}

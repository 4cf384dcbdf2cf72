package flyway

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgerrcode"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// Info is one line of Flyway's info.
type Info struct {
	Category      string     `json:"category"` // Versioned, Repeatable, Baseline; "" for markers
	Version       string     `json:"version,omitempty"`
	Description   string     `json:"description"`
	Type          string     `json:"type"`
	Script        string     `json:"script"`
	State         State      `json:"state"`
	InstalledRank *int32     `json:"installed_rank"`
	InstalledBy   string     `json:"installed_by,omitempty"`
	InstalledOn   *time.Time `json:"installed_on"` // in the time zone of the session that wrote it
	Checksum      *int32     `json:"checksum"`     // the history's; of a file that has not run, its own
}

// Status is the catalogue beside the history.
type Status struct {
	Schema         string    `json:"schema"`
	HistoryExists  bool      `json:"history_exists"`
	CurrentVersion string    `json:"current_version"` // "" when nothing is applied
	Pending        int       `json:"pending"`         // files that Up would run
	Dirty          bool      `json:"dirty"`           // a failed migration stands in the history
	Migrations     []Info    `json:"migrations"`
	Findings       []Finding `json:"findings"`
}

// Report is the outcome of Validate.
type Report struct {
	Schema   string    `json:"schema"`
	Valid    bool      `json:"valid"` // no finding of severity error; pending files are such, as in Flyway's validate
	Findings []Finding `json:"findings"`
}

// Status reads; it takes no lock and needs no more than SELECT on the history.
func (m *Migrator) Status(ctx context.Context) (Status, error) {
	p, exists, err := m.look(ctx)
	if err != nil {
		return Status{}, err
	}
	status := Status{
		Schema: m.table.schema, HistoryExists: exists, CurrentVersion: p.current(), Pending: len(p.pending()),
		Migrations: []Info{}, Findings: append([]Finding{}, p.findings()...),
	}
	for _, it := range p.items {
		status.Migrations = append(status.Migrations, it.info())
	}
	for _, f := range status.Findings {
		status.Dirty = status.Dirty || f.Kind == KindFailed
	}
	return status, nil
}

// Validate compares as Flyway's validate does; like it, it takes no lock. What it
// finds is data, not an error.
func (m *Migrator) Validate(ctx context.Context) (Report, error) {
	p, _, err := m.look(ctx)
	if err != nil {
		return Report{}, err
	}
	report := Report{Schema: m.table.schema, Valid: true, Findings: append([]Finding{}, p.findings()...)}
	for _, f := range report.Findings {
		report.Valid = report.Valid && f.Severity != SeverityError
	}
	return report, nil
}

// look reads as the login itself, which is enough for a role that may only read; a
// login whose rights come only with the owner's role asks again as the owner.
func (m *Migrator) look(ctx context.Context) (*plan, bool, error) {
	p, exists, err := m.lookAs(ctx, "")
	if pgErr, ok := errors.AsType[*pgconn.PgError](err); ok &&
		pgErr.Code == pgerrcode.InsufficientPrivilege && m.opts.Owner != "" {
		if asOwner, exists, ownerErr := m.lookAs(ctx, m.opts.Owner); ownerErr == nil {
			return asOwner, exists, nil
		}
	}
	return p, exists, err
}

func (m *Migrator) lookAs(ctx context.Context, role string) (*plan, bool, error) {
	tx, err := m.conn.BeginTx(ctx, pgx.TxOptions{AccessMode: pgx.ReadOnly})
	if err != nil {
		return nil, false, fmt.Errorf("begin transaction: %w", err)
	}
	defer m.rollback(ctx, tx)
	if role != "" {
		if _, err := tx.Exec(ctx, `SELECT set_config('role', $1, true)`, role); err != nil {
			return nil, false, ownerError(role, err)
		}
	}
	exists, err := m.table.exists(ctx, tx)
	if err != nil {
		return nil, false, err
	}
	rows, err := m.table.rows(ctx, tx)
	if err != nil {
		return nil, false, err
	}
	return analyse(m.catalogue, rows), exists, nil
}

func (it *item) info() Info {
	if it.applied == nil {
		return Info{
			Category: category(it.local.Version, typeSQL), Version: it.local.Version, Description: it.local.Description,
			Type: typeSQL, Script: it.local.Script, State: it.state, Checksum: &it.local.Checksum,
		}
	}
	row := it.applied
	return Info{
		Category: category(row.Version, row.Type), Version: row.Version, Description: row.Description, Type: row.Type,
		Script: row.Script, State: it.state, InstalledRank: &row.InstalledRank, InstalledBy: row.InstalledBy,
		InstalledOn: &row.InstalledOn, Checksum: row.Checksum,
	}
}

func category(version, kind string) string {
	row := Row{Version: version, Type: kind}
	switch {
	case row.synthetic():
		return ""
	case version == "":
		return "Repeatable"
	case row.baseline():
		return "Baseline"
	}
	return "Versioned"
}

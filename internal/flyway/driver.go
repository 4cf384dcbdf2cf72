package flyway

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/golang-migrate/migrate/v4/database"
	"github.com/jackc/pgx/v5"
)

var (
	errDropRefused = errors.New("dropping a schema is not something a migration does")
	errNotPlanned  = errors.New("the engine asked for a step that is not the planned one")
)

// stage is how far the engine has come with the planned file.
type stage int

const (
	stageIdle  stage = iota
	stageArmed       // SetVersion(place, dirty)
	stageRun         // Run succeeded: file and row are committed
)

// driver is golang-migrate's database driver for one call of Up. Its version is the
// place in the catalogue before which nothing is pending.
//
// The interface has no context, so the driver carries that of the call it serves.
type driver struct {
	ctx      context.Context //nolint:containedctx // golang-migrate's interface has no room for it
	m        *Migrator
	planned  func(*plan) // told the first plan of the call, before anything runs
	plan     *plan
	next     *Migration // nil when nothing is pending
	tx       pgx.Tx     // open from Lock to the end of Run, for a transactional file
	keptLock bool       // the session's lock is held, for a non-transactional file
	stage    stage
	elapsed  time.Duration // of the file that ran last
}

var _ database.Driver = (*driver)(nil)

func (*driver) Open(string) (database.Driver, error) { return nil, errNotByURL }

// Close leaves the connection to its Migrator.
func (*driver) Close() error { return nil }

// Lock takes Flyway's lock, reads the history as it now is and plans from it. It
// returns a *HistoryError, without the lock, when the plan is to refuse.
func (d *driver) Lock() error {
	d.plan, d.next, d.stage = nil, nil, stageIdle
	tx, err := d.m.acquire(d.ctx)
	if err != nil {
		return err
	}
	d.tx = tx
	if err := d.read(); err != nil {
		return errors.Join(err, d.Unlock())
	}
	return nil
}

// read plans under the lock and makes the session ready for the planned file.
func (d *driver) read() error {
	if err := d.m.setUp(d.ctx, d.tx, true); err != nil {
		return err
	}
	rows, err := d.m.table.rows(d.ctx, d.tx)
	if err != nil {
		return err
	}
	d.plan = analyse(d.m.catalogue, rows)
	if d.planned != nil {
		d.planned(d.plan)
		d.planned = nil
	}
	if blocking := d.plan.blocking(); len(blocking) > 0 {
		return &HistoryError{Table: d.m.table.quoted(), Findings: blocking}
	}
	pending := d.plan.pending()
	if len(pending) == 0 {
		return nil
	}
	d.next = pending[0]
	if d.next.Transactional {
		return nil
	}
	if err := d.m.keepLock(d.ctx, d.tx); err != nil {
		return err
	}
	d.tx, d.keptLock = nil, true
	return nil
}

// done reports whether the last plan had nothing to run.
func (d *driver) done() bool { return d.plan != nil && d.next == nil }

// Unlock ends whatever Lock began; after a successful Run nothing is left to end.
func (d *driver) Unlock() error {
	if d.tx != nil {
		d.m.rollback(d.ctx, d.tx)
	}
	if d.keptLock {
		d.m.dropLock(d.ctx)
	}
	d.tx, d.keptLock = nil, false
	return nil
}

// Run executes the planned file and records it.
func (d *driver) Run(migration io.Reader) error {
	body, err := io.ReadAll(migration)
	if err != nil {
		return fmt.Errorf("read migration: %w", err)
	}
	if d.stage != stageArmed || string(body) != d.next.text {
		return errNotPlanned
	}
	rank := nextRank(d.plan.rows)
	if d.next.Transactional {
		tx := d.tx
		d.tx = nil // the run ends it, whatever happens
		d.elapsed, err = d.m.runTransactional(d.ctx, tx, d.next, rank)
	} else {
		d.elapsed, err = d.m.runAlone(d.ctx, d.next, rank)
	}
	if err != nil {
		return err
	}
	d.stage = stageRun
	return nil
}

// SetVersion only follows the engine: dirty for the planned file, then its clean
// twin once the file has run. It never writes, so no force and no way down can.
func (d *driver) SetVersion(position int, dirty bool) error {
	if d.next == nil || position != d.plan.position(d.next) {
		return errNotPlanned
	}
	switch {
	case dirty && d.stage == stageIdle:
		d.stage = stageArmed
	case !dirty && d.stage == stageRun:
		d.stage = stageIdle
	default:
		return errNotPlanned
	}
	return nil
}

// Version is the place before the next pending file. A history that is dirty has
// made Lock refuse already.
func (d *driver) Version() (int, bool, error) {
	position := len(d.m.catalogue.migrations)
	if d.next != nil {
		position = d.plan.position(d.next) - 1
	}
	if position == 0 {
		return database.NilVersion, false, nil
	}
	return position, false, nil
}

func (*driver) Drop() error { return errDropRefused }

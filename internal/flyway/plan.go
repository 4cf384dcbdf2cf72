package flyway

import (
	"cmp"
	"fmt"
	"slices"
)

// State is Flyway's name for where a migration stands, as its `info` prints it.
type State string

// The states of Flyway 13 that a history can have without its licensed features.
const (
	StatePending         State = "Pending"
	StateBelowBaseline   State = "Below Baseline"
	StateIgnoredBaseline State = "Ignored (Baseline)"
	StateBaseline        State = "Baseline"
	StateIgnored         State = "Ignored" // late: its version is below one that is applied
	StateMissing         State = "Missing"
	StateFailedMissing   State = "Failed (Missing)"
	StateSuccess         State = "Success"
	StateFailed          State = "Failed"
	StateOutOfOrder      State = "Out of Order"
	StateFuture          State = "Future"
	StateFailedFuture    State = "Failed (Future)"
	StateOutdated        State = "Outdated"
	StateSuperseded      State = "Superseded"
	StateDeleted         State = "Deleted"
)

// item is one line of Flyway's info: a history row, a file, or both.
type item struct {
	local      *Migration
	applied    *Row
	version    version
	outOfOrder bool
	deleted    bool
	state      State
}

// plan is the catalogue laid over the history.
type plan struct {
	catalogue *Catalogue
	rows      []Row
	items     []*item
	corrupt   []Finding // rows that cannot be read as a history; everything else then means little

	lastApplied  version // highest version applied and not taken back
	lastResolved version // highest version among the files
	baseline     version // highest baseline
	latestRuns   map[string]int32
}

// analyse gives every file and every row its state, as Flyway's
// MigrationInfoServiceImpl does with outOfOrder off and no target.
func analyse(c *Catalogue, rows []Row) *plan {
	p := &plan{catalogue: c, rows: rows, latestRuns: map[string]int32{}}
	for _, m := range c.migrations {
		if !m.Repeatable() {
			p.lastResolved = m.version // run order: the last one is the highest
		}
	}
	versioned := p.appliedVersioned()
	for _, it := range versioned {
		if it.version.compare(p.lastApplied) <= 0 {
			it.outOfOrder = true
		} else if !it.deleted {
			p.lastApplied = it.version
		}
	}
	repeatables := p.appliedRepeatables()
	p.items = append(versioned, repeatables...)
	p.addPending()
	for _, it := range p.items {
		it.state = p.stateOf(it)
	}
	slices.SortStableFunc(p.items, infoOrder)
	return p
}

// appliedVersioned collects rows that have a version; a DELETE row takes back the
// latest real row of its version.
func (p *plan) appliedVersioned() []*item {
	local := map[string]*Migration{}
	for _, m := range p.catalogue.migrations {
		if !m.Repeatable() {
			local[m.version.key()] = m
		}
	}
	var items []*item
	for i := range p.rows {
		row := &p.rows[i]
		if row.Version == "" {
			continue
		}
		v, err := parseVersion(row.Version)
		if err != nil {
			p.corrupt = append(p.corrupt, corruptRow(*row, err.Error()))
			continue
		}
		if row.baseline() && v.compare(p.baseline) > 0 {
			p.baseline = v
		}
		if row.Type == typeDelete && row.Success {
			p.markDeleted(items, row, v)
			continue
		}
		it := &item{applied: row, version: v}
		if row.Type == typeSQL { // Flyway matches by version and type: a Java migration is not our file
			it.local = local[v.key()]
		}
		items = append(items, it)
	}
	return items
}

func (p *plan) markDeleted(items []*item, row *Row, v version) {
	for _, it := range slices.Backward(items) {
		if it.applied.synthetic() || it.version.compare(v) != 0 {
			continue
		}
		if it.deleted {
			p.corrupt = append(p.corrupt, corruptRow(*row, "version "+row.Version+" is deleted twice"))
		}
		it.deleted = true
		return
	}
}

// appliedRepeatables collects rows without a version, schema markers included.
func (p *plan) appliedRepeatables() []*item {
	local := map[string]*Migration{}
	for _, m := range p.catalogue.migrations {
		if m.Repeatable() {
			local[m.Description] = m
		}
	}
	var items []*item
	for i := range p.rows {
		row := &p.rows[i]
		if row.Version != "" {
			continue
		}
		if row.Type == typeDelete && row.Success {
			for _, it := range slices.Backward(items) {
				if !it.applied.synthetic() && it.applied.Description == row.Description {
					it.deleted = true
					break
				}
			}
		}
		p.latestRuns[row.Description] = row.InstalledRank
		items = append(items, &item{applied: row, local: local[row.Description]})
	}
	return items
}

// addPending adds an item for every file that no row stands for.
func (p *plan) addPending() {
	covered := map[*Migration]bool{}
	for _, it := range p.items {
		if it.local == nil || it.deleted || it.applied.Type == typeDelete {
			continue
		}
		// Only the latest run of a repeatable counts, so going back to an older text runs it again.
		if !it.local.Repeatable() || (p.isLatest(it.applied) && sameChecksum(it)) {
			covered[it.local] = true
		}
	}
	for _, m := range p.catalogue.migrations {
		if !covered[m] {
			p.items = append(p.items, &item{local: m, version: m.version})
		}
	}
}

func (p *plan) isLatest(row *Row) bool {
	return row.Version != "" || p.latestRuns[row.Description] == row.InstalledRank
}

func sameChecksum(it *item) bool {
	return it.applied.Checksum != nil && *it.applied.Checksum == it.local.Checksum
}

func (p *plan) stateOf(it *item) State {
	switch {
	case it.deleted:
		return StateDeleted
	case it.applied == nil:
		return p.localState(it)
	case it.applied.Type == typeDelete || it.applied.Type == typeSchema:
		return StateSuccess
	case it.applied.baseline():
		return StateBaseline
	case it.local == nil && p.isLatest(it.applied):
		return p.unresolvedState(it)
	case !it.applied.Success:
		return StateFailed
	case it.applied.Version == "":
		return p.repeatableState(it)
	case it.outOfOrder:
		return StateOutOfOrder
	}
	return StateSuccess
}

func (p *plan) localState(it *item) State {
	if it.local.Repeatable() {
		return StatePending
	}
	if !p.baseline.none() {
		switch c := it.version.compare(p.baseline); {
		case c < 0:
			return StateBelowBaseline
		case c == 0:
			return StateIgnoredBaseline
		}
	}
	if it.version.compare(p.lastApplied) < 0 {
		return StateIgnored
	}
	return StatePending
}

func (p *plan) unresolvedState(it *item) State {
	missing := it.version.none() || it.version.compare(p.lastResolved) < 0
	switch {
	case missing && it.applied.Success:
		return StateMissing
	case missing:
		return StateFailedMissing
	case it.applied.Success:
		return StateFuture
	}
	return StateFailedFuture
}

func (p *plan) repeatableState(it *item) State {
	switch {
	case !p.isLatest(it.applied):
		return StateSuperseded
	case it.local != nil && sameChecksum(it):
		return StateSuccess
	}
	return StateOutdated
}

// infoOrder is the order of Flyway's info: what lies below a baseline, then the
// history by rank, then what has not run, in run order.
func infoOrder(a, b *item) int {
	class := func(it *item) int {
		switch {
		case it.state == StateBelowBaseline || it.state == StateIgnoredBaseline:
			return 0
		case it.applied != nil:
			return 1
		}
		return 2
	}
	if c := cmp.Compare(class(a), class(b)); c != 0 {
		return c
	}
	if a.applied != nil && b.applied != nil {
		return cmp.Compare(a.applied.InstalledRank, b.applied.InstalledRank)
	}
	return runOrder(a.local, b.local)
}

// pending returns the files that Up would run, in run order.
func (p *plan) pending() []*Migration {
	var pending []*Migration
	for _, it := range p.items {
		if it.state == StatePending {
			pending = append(pending, it.local)
		}
	}
	return pending
}

// position is the 1-based place of m in the catalogue: the version by which
// golang-migrate knows it.
func (p *plan) position(m *Migration) int { return slices.Index(p.catalogue.migrations, m) + 1 }

// current is the highest version that is applied and not taken back, "" for none.
func (p *plan) current() string { return p.lastApplied.text }

func corruptRow(row Row, reason string) Finding {
	return Finding{
		Kind: KindCorrupt, Severity: SeverityError, Version: row.Version, Script: row.Script,
		Message: fmt.Sprintf("history row %d cannot be read: %s", row.InstalledRank, reason),
		Hint:    "the history was changed by hand or by another program; compare it with a backup",
	}
}

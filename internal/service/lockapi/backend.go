package lockapi

import (
	"time"

	"github.com/dlockctl/dlockctl/internal/lockstore"
)

// Backend is what keeps the locks behind a lock-server, and how it differs
// (docs/backends.md).
type Backend struct {
	Backend      string `json:"backend" doc:"Its name" example:"postgres"`
	Sessions     bool   `json:"sessions" doc:"Locks hang on sessions and die with them"`
	GlobalTokens bool   `json:"global_tokens" doc:"A token is unique and ordered over all keys"`
	OwnTTL       bool   `json:"own_ttl" doc:"Each lock has a lease of its own, not its session's"`
	Batches      bool   `json:"batches" doc:"Many locks are taken in one transaction"`
	Journal      bool   `json:"journal" doc:"It is known who held an old token, and how that ended"`
	Ownerless    bool   `json:"ownerless" doc:"A lock names no owner"`
	LockIDs      bool   `json:"lock_ids" doc:"A grant has a secret id that another library works with"`
	ToleranceMS  int64  `json:"tolerance_ms" doc:"How long past its end a lease still counts as held"`
	PruneAfterMS int64  `json:"prune_after_ms" doc:"How long past the end of its lease prune leaves an entry at least"`
	LeaseStepMS  int64  `json:"lease_step_ms" doc:"What leases are rounded up to; 0 for exact ones"`
	WriterTimes  bool   `json:"writer_times" doc:"Times in answers are those of whoever wrote or reads them"`
	EndsUntimed  bool   `json:"ends_untimed" doc:"It is not known when a lapsed lease ended: prune chooses by no age"`
	BulkLimit    int    `json:"bulk_limit" doc:"The most grants that one revoke takes; 0 for no bound"`
}

// NewBackend writes what a store declares.
func NewBackend(c lockstore.Capabilities) Backend {
	return Backend{
		Backend: c.Backend, Sessions: c.Sessions, GlobalTokens: c.GlobalTokens, OwnTTL: c.OwnTTL, Batches: c.Batches, Journal: c.Journal,
		Ownerless: c.Ownerless, LockIDs: c.LockIDs, ToleranceMS: Milliseconds(c.Tolerance), PruneAfterMS: Milliseconds(c.PruneAfter), LeaseStepMS: Milliseconds(c.LeaseStep),
		WriterTimes: c.WriterTimes, EndsUntimed: c.EndsUntimed, BulkLimit: c.BulkLimit,
	}
}

// Value reads it.
func (b Backend) Value() lockstore.Capabilities {
	return lockstore.Capabilities{
		Backend: b.Backend, Sessions: b.Sessions, GlobalTokens: b.GlobalTokens, OwnTTL: b.OwnTTL, Batches: b.Batches, Journal: b.Journal,
		Ownerless: b.Ownerless, LockIDs: b.LockIDs, Tolerance: time.Duration(b.ToleranceMS) * time.Millisecond,
		PruneAfter: time.Duration(b.PruneAfterMS) * time.Millisecond, LeaseStep: time.Duration(b.LeaseStepMS) * time.Millisecond, WriterTimes: b.WriterTimes, EndsUntimed: b.EndsUntimed, BulkLimit: b.BulkLimit,
	}
}

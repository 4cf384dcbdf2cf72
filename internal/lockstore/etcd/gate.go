package etcd

import (
	"encoding/json"
	"fmt"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/dlockctl/dlockctl/internal/lockstore"
)

// The gate is one key (K-7.4): while it is there, nothing is granted, whatever it
// says. It is opened by deleting it. Every granting transaction compares it, so that
// none slips past it.

// gateRecord is the value of the gate's key: who closed it, and why. A freeze has
// ClosedBy, a fast-forward RunID and what follows; both may be there.
type gateRecord struct {
	ClosedBy  string    `json:"closed_by,omitempty"`
	ClosedAt  time.Time `json:"closed_at,omitzero"`
	Reason    string    `json:"closed_reason,omitempty"`
	RunID     string    `json:"run_id,omitempty"`
	RunBy     string    `json:"run_by,omitempty"`
	RunAt     time.Time `json:"run_at,omitzero"`
	RunReason string    `json:"run_reason,omitempty"`
}

func (k keys) gateIsOpen() clientv3.Cmp {
	return clientv3.Compare(clientv3.CreateRevision(k.gate()), "=", 0)
}

// closed is the refusal of a gate that is there, nil for one that is not.
func closed(gate *mvccpb.KeyValue) error {
	if gate == nil {
		return nil
	}
	var record gateRecord
	refusal := &lockstore.GrantsClosedError{
		Reason: "the etcd cluster grants no locks: its gate is closed",
		Hint:   "run: dlockctl restore plan --backend etcd",
	}
	if err := json.Unmarshal(gate.Value, &record); err != nil {
		return refusal // what nobody can read is closed all the same
	}
	switch {
	case record.RunID != "":
		refusal.Reason = fmt.Sprintf("the etcd cluster grants no locks: a fast-forward that %s began is under way or was cut off: %s", record.RunBy, record.RunReason)
		refusal.Hint = "if it is no longer running, run: dlockctl restore fast-forward --backend etcd"
	case record.ClosedBy != "":
		refusal.Reason = fmt.Sprintf("the etcd cluster grants no locks: closed by %s: %s", record.ClosedBy, record.Reason)
		refusal.Hint = "when the reason is over, run: dlockctl thaw --backend etcd --reason TEXT"
	}
	return refusal
}

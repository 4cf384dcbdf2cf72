package floor

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/dlockctl/dlockctl/internal/instance/owner"
	"github.com/dlockctl/dlockctl/internal/paystore"
)

// Gate is paydb's own (K-7.9): closed, it lets no payout be claimed or attempted
// that is not resolved against the rail's record.
type Gate struct {
	// SystemIdentifier and Timeline are this instance's; Here tells that the gate
	// was opened on it. Otherwise paydb was restored, promoted or copied.
	SystemIdentifier int64 `json:"system_identifier"`
	Timeline         int32 `json:"timeline"`
	Here             bool  `json:"here"`
	Present          bool  `json:"present"`
	// ClosedBy is empty unless somebody closed it.
	ClosedBy string    `json:"closed_by,omitempty"`
	ClosedAt time.Time `json:"closed_at,omitzero"`
	Reason   string    `json:"closed_reason,omitempty"`
	// Unresolved are the payouts that are neither final nor resolved since. Counted
	// only while the gate is closed.
	Unresolved int64 `json:"unresolved"`
}

// MarshalJSON writes the identifier as a string too: it is far above 2^53 (K-5.4).
func (g Gate) MarshalJSON() ([]byte, error) {
	type plain Gate
	return json.Marshal(struct {
		plain
		Text string `json:"system_identifier_str"`
	}{plain(g), strconv.FormatInt(g.SystemIdentifier, 10)})
}

// Open tells whether claims and attempts pass.
func (g Gate) Open() bool { return g.Present && g.Here && g.ClosedBy == "" }

// UnresolvedError is returned by OpenGate; the gate stays closed.
type UnresolvedError struct{ Payouts int64 }

func (e *UnresolvedError) Error() string {
	return fmt.Sprintf("open the gate of paydb: %d payouts are neither final nor resolved against the rail's record", e.Payouts)
}

// Gate reads the gate.
func (k *Keeper) Gate(ctx context.Context) (gate Gate, err error) {
	err = k.read(ctx, "read the gate of paydb", func(tx pgx.Tx) (err error) {
		if gate, err = readGate(ctx, tx); err == nil && !gate.Open() {
			err = tx.QueryRow(ctx, unresolvedQuery).Scan(&gate.Unresolved)
		}
		return err
	})
	return gate, err
}

func readGate(ctx context.Context, tx pgx.Tx) (gate Gate, err error) {
	var opened struct {
		system   int64
		timeline int32
	}
	var at *time.Time
	err = tx.QueryRow(ctx, gateQuery).Scan(&gate.SystemIdentifier, &gate.Timeline,
		&gate.Present, &opened.system, &opened.timeline, &gate.ClosedBy, &at, &gate.Reason)
	gate.Here = gate.Present && opened.system == gate.SystemIdentifier && opened.timeline == gate.Timeline
	if at != nil {
		gate.ClosedAt = at.UTC()
	}
	return gate, err
}

// CloseGate closes the gate by hand: a plain copy of a data folder keeps identity
// and timeline, and only a person knows. Closed already, it is left as it is.
func (k *Keeper) CloseGate(ctx context.Context, change Change) (gate Gate, err error) {
	err = k.run(ctx, "close_pay_gate", "close the gate of paydb", func(ctx context.Context, tx *owner.Tx) error {
		if _, err := tx.Do(ctx, "close", closeGateQuery, change.Operator, change.Reason); err != nil {
			return err
		}
		gate, err = readGate(ctx, tx)
		return err
	})
	return gate, err
}

// OpenGate notes this instance and timeline and opens the gate. It returns
// *UnresolvedError while a payout is left that may have been paid.
func (k *Keeper) OpenGate(ctx context.Context) (gate Gate, err error) {
	err = k.run(ctx, "open_pay_gate", "open the gate of paydb", func(ctx context.Context, tx *owner.Tx) error {
		if _, err := tx.Do(ctx, "stop payouts", stopQuery); err != nil {
			return err
		}
		// The guard of the gate counts only when the identity changes; here it was
		// perhaps closed by hand.
		var unresolved int64
		if err := tx.QueryRow(ctx, unresolvedQuery).Scan(&unresolved); err != nil {
			return err
		}
		if unresolved > 0 {
			return &UnresolvedError{Payouts: unresolved}
		}
		rows, err := tx.Do(ctx, "open", openGateQuery)
		if err != nil {
			return err
		}
		if rows == 0 {
			return &paystore.UnsafeError{
				Clause:  "K-7.9",
				Problem: "the gate of paydb is missing: nothing is claimed or attempted",
				Fix:     "dlockctl doctor prints the statement that puts it back",
			}
		}
		gate, err = readGate(ctx, tx)
		return err
	})
	return gate, err
}

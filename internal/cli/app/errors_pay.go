package app

import (
	"strings"

	"github.com/dlockctl/dlockctl/internal/paystore"
)

// payRules are the rows of the payment store's errors. Those that it shares with
// the lock store answer alike.
func payRules(unreachableHint string) []rule {
	return []rule{
		typed("FencedError", Lost, "fenced_out", func(e *paystore.FencedError) (string, any) {
			return "a later holder has been there: stop this work, and never repeat it with a fresh token", fencedDetails(e)
		}),
		typed("RejectedError", Refused, "rejected", func(e *paystore.RejectedError) (string, any) {
			return "the account cannot pay this", map[string]string{"reason": string(e.Reason), "account_id": e.AccountID, "payout_id": e.PayoutID}
		}),
		typed("StateError", Refused, "wrong_state", func(e *paystore.StateError) (string, any) {
			return "look again: dlockctl payout show " + e.PayoutID, map[string]any{"payout_id": e.PayoutID, "state": e.Have, "wanted": e.Want}
		}),
		typed("EvidenceError", Refused, "evidence", func(e *paystore.EvidenceError) (string, any) { return e.Hint, nil }),
		typed("ConflictError", Refused, "idempotency_conflict", func(e *paystore.ConflictError) (string, any) {
			return "another payout needs another key; look at the one that stands: dlockctl payout show " + e.PayoutID,
				map[string]string{"payout_id": e.PayoutID, "field": e.Field, "have": e.Have, "given": e.Given}
		}),
		typed("ClaimedError", Held, "claimed", func(e *paystore.ClaimedError) (string, any) {
			return "a higher token takes it over: acquire the account's lock first",
				map[string]any{"payout_id": e.PayoutID, "claimed_by": e.By, "token": e.Token, "token_str": e.Token.String()}
		}),
		typed("GateClosedError", Refused, "pay_gate_closed", func(e *paystore.GateClosedError) (string, any) {
			// The schema's own hint (V16) names thaw, which opens lockdb's gate alone.
			return strings.Replace(e.Hint, "dlockctl thaw", "dlockctl restore paydb", 1), nil
		}),
		typed("BlockedError", Held, "blocked", func(e *paystore.BlockedError) (string, any) {
			return "an open transaction keeps the rows; look it up in pg_stat_activity and end it", map[string]any{"pids": e.PIDs}
		}),
		sentinel("ErrOverflow", paystore.ErrOverflow, Refused, "overflow", "nothing was changed; look at the account's balance and the clearing account's"),
		sentinel("ErrNotClearable", paystore.ErrNotClearable, Refused, "not_clearable", "name a clearing account of that currency in clearing_account, as the schema's owner"),
		sentinel("ErrNotPrimary", paystore.ErrNotPrimary, Refused, "not_primary", "give the address of the primary"),
		sentinel("ErrSameInstance", paystore.ErrSameInstance, Refused, "same_instance",
			"put them on two instances; on a laptop --allow-same-instance goes on all the same"),
		typed("UnsafeError", Refused, "unsafe_database", func(e *paystore.UnsafeError) (string, any) {
			return e.Fix, map[string]string{"clause": e.Clause}
		}),
		typedIf("SchemaError", Refused, "wrong_database",
			func(e *paystore.SchemaError) bool { return e.IsLockdb },
			func(*paystore.SchemaError) (string, any) {
				return "exchange the two addresses: lock.dsn and pay.dsn", nil
			}),
		typed("SchemaError", Refused, "schema_version", func(e *paystore.SchemaError) (string, any) {
			details := map[string]any{"have": e.Have, "min": e.Min, "max": e.Max}
			if e.Have > e.Max {
				return "use a newer dlockctl", details
			}
			return "run dlockctl migrate up --target all", details
		}),
		sentinel("ErrNotFound", paystore.ErrNotFound, NotFound, "not_found", ""),
		sentinel("ErrInvalid", paystore.ErrInvalid, Usage, "invalid_argument", ""),
		typed("UnreachableError", Unreachable, "unreachable", func(*paystore.UnreachableError) (string, any) {
			return unreachableHint, nil
		}),
	}
}

func fencedDetails(e *paystore.FencedError) any {
	return map[string]any{
		"resource": e.Resource, "account_id": e.AccountID, "payout_id": e.PayoutID,
		"presented_token": e.Presented, "presented_token_str": e.Presented.String(),
		"stored_token": e.Stored, "stored_token_str": e.Stored.String(),
	}
}

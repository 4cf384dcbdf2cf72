package migrations_test

// attack is one thing a guard refuses.
type attack struct {
	name string
	// setup runs first and is let pass; may be empty.
	setup string
	sql   string
	// guard is "trigger on table", "constraint on table" or "index": what is taken
	// out for the negative control. Several are separated by ", ".
	guard string
	// refusal is the SQLSTATE and constraint, or "0 rows".
	refusal string
	// replica is the refusal under session_replication_role = replica; empty when
	// it passes there, because a replayed row is not compared with other rows.
	replica string
	// atEnd is refused when the transaction ends; here at once.
	atEnd bool
}

const (
	same       = "same"
	newAttempt = "INSERT INTO rail_submission (submission_id, payout_id, idempotency_key, presented_token) VALUES "
	newLeg     = "INSERT INTO ledger_entry (entry_id, payout_id, account_id, direction, amount_minor, fence) VALUES "
	// postB4 is the whole posting of b4 in one statement.
	postB4     = "WITH legs AS (" + newLeg + "('d8', 'b4', 'a1', 'DEBIT', 100, 23), ('d9', 'b4', 'c1', 'CREDIT', 100, 23)) UPDATE payout SET state = 'POSTED' WHERE payout_id = 'b4'"
	newPayout  = "INSERT INTO payout (payout_id, account_id, amount_minor, currency, idempotency_key) VALUES "
	twoToThe53 = "9007199254740993"
)

// attacks are written with ids as a1, b2, … and with unqualified tables; the test
// qualifies both. testdata/paydb/base.sql says what stands.
func attacks() []attack {
	return []attack{
		// K-1.6
		{name: "fence above 2^53", sql: "UPDATE account SET fence = " + twoToThe53 + " WHERE account_id = 'a1'", guard: "account_fence_bound_ck on account", refusal: "23514 account_fence_bound_ck", replica: same},
		{name: "mark above 2^53", sql: "UPDATE rail_high_water SET highest_token = " + twoToThe53, guard: "rail_hwm_bound_ck on rail_high_water", refusal: "23514 rail_hwm_bound_ck", replica: same},
		{name: "claim above 2^53", sql: "UPDATE payout SET claim_token = " + twoToThe53 + " WHERE payout_id = 'b2'", guard: "payout_claim_bound_ck on payout, payout_claim_token_ck on payout_claim", refusal: "23514 payout_claim_bound_ck", replica: same},
		{name: "presented above 2^53", setup: "UPDATE rail_high_water SET highest_token = 30", sql: "INSERT INTO rail_submission (submission_id, payout_id, idempotency_key, presented_token, outcome, resolved_at) VALUES ('e9', 'b6', 'k6', " + twoToThe53 + ", 'FENCED', now())", guard: "rail_token_bound_ck on rail_submission", refusal: "23514 rail_token_bound_ck", replica: same},
		{name: "leg above 2^53", sql: newLeg + "('d1', 'b4', 'a1', 'DEBIT', 100, " + twoToThe53 + ")", guard: "ledger_entry_guard on ledger_entry, ledger_fence_bound_ck on ledger_entry", refusal: "23514 ledger_entry_guard", replica: "23514 ledger_fence_bound_ck"},
		{name: "floor above 2^53", sql: "UPDATE fence_floor SET floor_token = " + twoToThe53, guard: "fence_floor_token_ck on fence_floor", refusal: "23514 fence_floor_token_ck", replica: same},

		// K-4.7
		{name: "fence on a clearing account", sql: "UPDATE account SET fence = 50 WHERE account_id = 'c1'", guard: "account_clearing_guard on account", refusal: "23514 account_clearing_guard", replica: same},
		{name: "payout from a clearing account", sql: newPayout + "('b9', 'c1', 1, 'EUR', 'k9')", guard: "payout_clearing_guard on payout", refusal: "23514 payout_clearing_guard"},
		{name: "clearing account with payouts", sql: "INSERT INTO clearing_account VALUES ('a2', 'EUR', 9)", guard: "clearing_account_guard on clearing_account", refusal: "23514 clearing_account_guard"},
		{name: "clearing account of another currency", sql: "INSERT INTO clearing_account VALUES ('a3', 'EUR', 9)", guard: "clearing_account_guard on clearing_account", refusal: "23514 clearing_account_guard"},
		{name: "shard moved", sql: "UPDATE clearing_account SET shard = 9 WHERE account_id = 'c1'", guard: "clearing_account_append_only on clearing_account", refusal: "42501 clearing_account_append_only", replica: same},

		// K-4.8
		{name: "opening rewritten", sql: "UPDATE opening_balance SET amount_minor = 1 WHERE account_id = 'a1'", guard: "opening_balance_append_only on opening_balance", refusal: "42501 opening_balance_append_only", replica: same},
		{name: "opening gone", sql: "DELETE FROM opening_balance WHERE account_id = 'a1'", guard: "opening_balance_append_only on opening_balance", refusal: "42501 opening_balance_append_only", replica: same},

		// K-4.10: fence, mark
		{name: "fence lowered", sql: "UPDATE account SET fence = 9 WHERE account_id = 'a1'", guard: "account_guard on account", refusal: "23514 account_guard", replica: same},
		{name: "currency changed", sql: "UPDATE account SET currency = 'CHF' WHERE account_id = 'a1'", guard: "account_guard on account", refusal: "23514 account_guard", replica: same},
		{name: "mark lowered", sql: "UPDATE rail_high_water SET highest_token = 24", guard: "rail_high_water_guard on rail_high_water", refusal: "23514 rail_high_water_guard", replica: same},
		{name: "mark moved", sql: "UPDATE rail_high_water SET account_id = 'a2'", guard: "rail_high_water_guard on rail_high_water", refusal: "23514 rail_high_water_guard", replica: same},
		{name: "account deleted", setup: "INSERT INTO account (account_id, currency, fence) VALUES ('a9', 'EUR', 5)", sql: "DELETE FROM account WHERE account_id = 'a9'", guard: "account_kept on account", refusal: "42501 account_kept", replica: same},
		{name: "accounts truncated", sql: "TRUNCATE account CASCADE", guard: truncateGuards, refusal: "42501 account_kept", replica: same},
		{name: "mark deleted", sql: "DELETE FROM rail_high_water", guard: "rail_high_water_kept on rail_high_water", refusal: "42501 rail_high_water_kept", replica: same},
		{name: "marks truncated", sql: "TRUNCATE rail_high_water", guard: "rail_high_water_kept on rail_high_water", refusal: "42501 rail_high_water_kept", replica: same},

		// K-4.10: payout
		{name: "amount changed", sql: "UPDATE payout SET amount_minor = 70000 WHERE payout_id = 'b2'", guard: "payout_guard on payout", refusal: "23514 payout_guard", replica: same},
		{name: "payer changed", sql: "UPDATE payout SET account_id = 'a2' WHERE payout_id = 'b2'", guard: "payout_guard on payout", refusal: "23514 payout_guard", replica: same},
		{name: "rail key changed", sql: "UPDATE payout SET idempotency_key = 'new' WHERE payout_id = 'b2'", guard: "payout_guard on payout", refusal: "23514 payout_guard", replica: same},
		{name: "attempts forgotten", sql: "UPDATE payout SET attempt_count = 0 WHERE payout_id = 'b3'", guard: "payout_guard on payout", refusal: "23514 payout_guard", replica: same},
		{name: "dollars from euros", sql: newPayout + "('b9', 'a1', 1, 'USD', 'k9')", guard: "payout_new_guard on payout", refusal: "23514 payout_new_guard"},
		{name: "payout born acknowledged", sql: "INSERT INTO payout (payout_id, account_id, amount_minor, currency, idempotency_key, state, claimed_by, claim_token) VALUES ('b9', 'a1', 1, 'EUR', 'k9', 'RAIL_ACKED', 'w', 5)", guard: "payout_new_guard on payout", refusal: "23514 payout_new_guard"},
		{name: "payout deleted", sql: "DELETE FROM payout WHERE payout_id = 'b7'", guard: "payout_kept on payout", refusal: "42501 payout_kept", replica: same},

		// K-4.10: ledger
		{name: "leg of another amount", sql: newLeg + "('d1', 'b4', 'a1', 'DEBIT', 70000, 23)", guard: "ledger_entry_guard on ledger_entry", refusal: "23514 ledger_entry_guard"},
		{name: "leg of another payer", sql: newLeg + "('d1', 'b4', 'a2', 'DEBIT', 100, 23)", guard: "ledger_entry_guard on ledger_entry", refusal: "23514 ledger_entry_guard"},
		{name: "leg of another token", sql: newLeg + "('d1', 'b4', 'a1', 'DEBIT', 100, 24)", guard: "ledger_entry_guard on ledger_entry", refusal: "23514 ledger_entry_guard"},
		{name: "leg before the rail", sql: newLeg + "('d1', 'b3', 'a1', 'DEBIT', 100, 22)", guard: "ledger_entry_guard on ledger_entry", refusal: "23514 ledger_entry_guard"},
		{name: "payer credited", sql: newLeg + "('d1', 'b4', 'a1', 'CREDIT', 100, 23)", guard: "ledger_entry_guard on ledger_entry", refusal: "23514 ledger_entry_guard"},
		{name: "clearing debited", sql: newLeg + "('d1', 'b4', 'c1', 'DEBIT', 100, 23)", guard: "ledger_entry_guard on ledger_entry", refusal: "23514 ledger_entry_guard"},
		{name: "cleared in dollars", sql: newLeg + "('d1', 'b4', 'c3', 'CREDIT', 100, 23)", guard: "ledger_entry_guard on ledger_entry", refusal: "23514 ledger_entry_guard"},
		{name: "credited on two shards", setup: postB4, sql: newLeg + "('d2', 'b4', 'c2', 'CREDIT', 100, 23)", guard: "ledger_direction_uidx", refusal: "23505 ledger_direction_uidx", replica: same},
		{name: "leg changed", setup: postB4, sql: "UPDATE ledger_entry SET fence = 1", guard: "ledger_entry_append_only on ledger_entry", refusal: "42501 ledger_entry_append_only", replica: same},
		{name: "leg deleted", setup: postB4, sql: "DELETE FROM ledger_entry", guard: "ledger_entry_append_only on ledger_entry", refusal: "42501 ledger_entry_append_only", replica: same},
		{name: "legs without posting", sql: newLeg + "('d1', 'b4', 'a1', 'DEBIT', 100, 23), ('d2', 'b4', 'c1', 'CREDIT', 100, 23)", guard: "ledger_posting_guard on ledger_entry", refusal: "23514 posting_guard", atEnd: true},
		{name: "posted without legs", sql: "UPDATE payout SET state = 'POSTED' WHERE payout_id = 'b4'", guard: "payout_posting_guard on payout", refusal: "23514 posting_guard", atEnd: true},
		{name: "posted with a debit alone", sql: "WITH leg AS (" + newLeg + "('d1', 'b4', 'a1', 'DEBIT', 100, 23)) UPDATE payout SET state = 'POSTED' WHERE payout_id = 'b4'", guard: "ledger_posting_guard on ledger_entry, payout_posting_guard on payout", refusal: "23514 posting_guard", atEnd: true},

		// K-4.10, K-4.11, K-5.3: attempts
		{name: "attempt under another key", sql: newAttempt + "('e9', 'b6', 'k7', 25)", guard: "rail_submission_new_guard on rail_submission", refusal: "23514 rail_submission_new_guard"},
		{name: "attempt past the mark", setup: "UPDATE rail_high_water SET highest_token = 30", sql: newAttempt + "('e9', 'b6', 'k6', 25)", guard: "rail_submission_new_guard on rail_submission", refusal: "23514 rail_submission_new_guard"},
		{name: "attempt of A by the mark of B", setup: "WITH mark AS (INSERT INTO rail_high_water VALUES ('a2', 30)) UPDATE payout SET claim_token = 30 WHERE payout_id = 'b6'", sql: newAttempt + "('e9', 'b6', 'k6', 30)", guard: "rail_submission_new_guard on rail_submission", refusal: "23514 rail_submission_new_guard"},
		{name: "attempt for a pending payout", setup: "INSERT INTO rail_high_water VALUES ('a2', 30)", sql: newAttempt + "('e9', 'b7', 'k7', 30)", guard: "rail_submission_new_guard on rail_submission, rail_submission_state on rail_submission", refusal: "23514 rail_submission_new_guard"},
		{name: "attempt born acknowledged", sql: "INSERT INTO rail_submission (submission_id, payout_id, idempotency_key, presented_token, outcome, resolved_at) VALUES ('e9', 'b6', 'k6', 25, 'ACKED', now())", guard: "rail_submission_new_guard on rail_submission", refusal: "23514 rail_submission_new_guard"},
		{name: "attempt by a token that never claimed it", setup: "UPDATE rail_high_water SET highest_token = 30", sql: newAttempt + "('e9', 'b6', 'k6', 30)", guard: "rail_submission_state on rail_submission", refusal: "23514 rail_submission_state"},
		{name: "second attempt", sql: newAttempt + "('e9', 'b3', 'k3', 22)", guard: "rail_submission_attempt_uidx", refusal: "23505 rail_submission_attempt_uidx", replica: same},
		{name: "slot reopened", sql: "UPDATE rail_submission SET outcome = 'FENCED', resolved_at = now() WHERE submission_id = 'e3'", guard: "rail_submission_guard on rail_submission", refusal: "23514 rail_submission_guard", replica: same},
		{name: "rejected after ack", sql: "UPDATE rail_submission SET outcome = 'REJECTED' WHERE submission_id = 'e4'", guard: "rail_submission_guard on rail_submission", refusal: "23514 rail_submission_guard", replica: same},
		{name: "timeout forgotten", sql: "UPDATE rail_submission SET outcome = NULL, resolved_at = NULL WHERE submission_id = 'e5'", guard: "rail_submission_guard on rail_submission", refusal: "23514 rail_submission_guard", replica: same},
		{name: "attempt given to another token", sql: "UPDATE rail_submission SET presented_token = 25, outcome = 'ACKED', resolved_at = now() WHERE submission_id = 'e3'", guard: "rail_submission_guard on rail_submission", refusal: "23514 rail_submission_guard", replica: same},
		{name: "attempt deleted", sql: "DELETE FROM rail_submission WHERE submission_id = 'e3'", guard: "rail_submission_kept on rail_submission", refusal: "42501 rail_submission_kept", replica: same},

		// K-4.12, K-7.8
		{name: "(a) below the floor", setup: "UPDATE fence_floor SET floor_token = 90", sql: "UPDATE account SET fence = 90 WHERE account_id = 'a1'", guard: "account_floor on account", refusal: "0 rows"},
		{name: "(d) below the floor", setup: "UPDATE fence_floor SET floor_token = 90", sql: "UPDATE rail_high_water SET highest_token = 90", guard: "rail_high_water_floor on rail_high_water", refusal: "0 rows"},
		{name: "(d) anew below the floor", setup: "UPDATE fence_floor SET floor_token = 90", sql: "INSERT INTO rail_high_water VALUES ('a2', 90)", guard: "rail_high_water_floor on rail_high_water", refusal: "0 rows"},
		{name: "claim below the floor", setup: "UPDATE fence_floor SET floor_token = 90", sql: "UPDATE payout SET state = 'CLAIMED', claimed_by = 'z', claim_token = 90 WHERE payout_id = 'b7'", guard: "payout_floor on payout", refusal: "0 rows"},
		{name: "attempt by a mark below the floor", setup: "UPDATE fence_floor SET floor_token = 90", sql: newAttempt + "('e9', 'b6', 'k6', 25)", guard: "rail_submission_floor on rail_submission", refusal: "0 rows"},
		{name: "floor lowered", setup: "UPDATE fence_floor SET floor_token = 90", sql: "UPDATE fence_floor SET floor_token = 89", guard: "fence_floor_guard on fence_floor", refusal: "23514 fence_floor_guard", replica: same},
		{name: "floor deleted", sql: "DELETE FROM fence_floor WHERE point = 'rail'", guard: "fence_floor_kept on fence_floor", refusal: "42501 fence_floor_kept", replica: same},
		{name: "floors truncated", sql: "TRUNCATE fence_floor", guard: "fence_floor_kept on fence_floor", refusal: "42501 fence_floor_kept", replica: same},

		// K-5.1, K-5.2
		{name: "takeover under the same token", sql: "UPDATE payout SET claimed_by = 'thief' WHERE payout_id = 'b2'", guard: "payout_guard on payout", refusal: "23514 payout_guard", replica: same},
		{name: "takeover by a lower token", sql: "UPDATE payout SET claimed_by = 'z', claim_token = 20 WHERE payout_id = 'b2'", guard: "payout_claim_order on payout, payout_guard on payout", refusal: "0 rows", replica: "23514 payout_guard"},
		{name: "takeover that moves on", sql: "UPDATE payout SET claimed_by = 'z', claim_token = 30, state = 'RAIL_SUBMITTED' WHERE payout_id = 'b2'", guard: "payout_guard on payout", refusal: "23514 payout_guard", replica: same},
		{name: "claim without a token", sql: "UPDATE payout SET state = 'CLAIMED', claimed_by = 'z' WHERE payout_id = 'b7'", guard: "payout_claim_token_ck on payout", refusal: "23514 payout_claim_token_ck", replica: same},
		{name: "zombie 19 after 20 was released", sql: "UPDATE payout SET state = 'CLAIMED', claimed_by = 'z', claim_token = 19 WHERE payout_id = 'b1'", guard: "payout_claim_order on payout", refusal: "0 rows"},
		{name: "claim history changed", sql: "UPDATE payout_claim SET claim_token = 1 WHERE claim_token = 21", guard: "payout_claim_append_only on payout_claim", refusal: "42501 payout_claim_append_only", replica: same},
		{name: "claim history deleted", sql: "DELETE FROM payout_claim WHERE claim_token = 20", guard: "payout_claim_append_only on payout_claim", refusal: "42501 payout_claim_append_only", replica: same},

		// K-5.3, K-4.11: what the rail did; TestPayOutcomes has the whole table
		{name: "failed in flight", sql: "UPDATE payout SET state = 'FAILED' WHERE payout_id = 'b3'", guard: "payout_rail_guard on payout", refusal: "23514 payout_rail_guard"},
		{name: "failed after the ack", setup: ackE3, sql: "UPDATE payout SET state = 'FAILED' WHERE payout_id = 'b3'", guard: "payout_rail_guard on payout", refusal: "23514 payout_rail_guard"},
		{name: "failed in doubt", sql: "UPDATE payout SET state = 'FAILED' WHERE payout_id = 'b5'", guard: "payout_rail_guard on payout", refusal: "23514 payout_rail_guard"},
		{name: "acknowledged in flight", sql: "UPDATE payout SET state = 'RAIL_ACKED' WHERE payout_id = 'b3'", guard: "payout_rail_guard on payout", refusal: "23514 payout_rail_guard"},
		{name: "in doubt without an attempt", sql: "UPDATE payout SET state = 'RAIL_AMBIGUOUS' WHERE payout_id = 'b6'", guard: "payout_rail_guard on payout", refusal: "23514 payout_rail_guard"},
		{name: "abandoned though paid", setup: resolveAs("PAID", "b5"), sql: "UPDATE payout SET state = 'ABANDONED' WHERE payout_id = 'b5'", guard: "payout_rail_guard on payout", refusal: "23514 payout_rail_guard"},

		// K-5.3, K-3.2
		{name: "evidence rewritten", sql: "UPDATE payout_resolution SET verdict = 'PAID'", guard: "payout_resolution_append_only on payout_resolution", refusal: "42501 payout_resolution_append_only", replica: same},
		{name: "raise rewritten", sql: "UPDATE account_fence_raise SET operator = 'else'", guard: "account_fence_raise_append_only on account_fence_raise", refusal: "42501 account_fence_raise_append_only", replica: same},

		// K-7.9
		{name: "claim through a closed gate", setup: closeGate, sql: "UPDATE payout SET state = 'CLAIMED', claimed_by = 'w', claim_token = 30 WHERE payout_id = 'b7'", guard: "payout_gate on payout", refusal: "55000 pay_gate"},
		{name: "attempt through a closed gate", setup: closeGate, sql: newAttempt + "('e9', 'b6', 'k6', 25)", guard: "rail_submission_gate on rail_submission", refusal: "55000 pay_gate"},
		{name: "gate that names another instance", sql: "UPDATE pay_gate SET system_identifier = 1", guard: "pay_gate_guard on pay_gate", refusal: "23514 pay_gate_guard", replica: same},
		{name: "gate deleted", sql: "DELETE FROM pay_gate", guard: "pay_gate_kept on pay_gate", refusal: "42501 pay_gate_kept", replica: same},
	}
}

const (
	ackE3     = "UPDATE rail_submission SET outcome = 'ACKED', rail_reference = 'r3', resolved_at = now() WHERE submission_id = 'e3'"
	closeGate = "UPDATE pay_gate SET closed_by = 'o', closed_at = now() + interval '1 ms', closed_reason = 'r'"
	// TRUNCATE … CASCADE reaches every table that refers to account.
	truncateGuards = "account_kept on account, rail_high_water_kept on rail_high_water, payout_kept on payout, rail_submission_kept on rail_submission, " +
		"ledger_entry_append_only on ledger_entry, payout_claim_append_only on payout_claim, payout_resolution_append_only on payout_resolution, " +
		"clearing_account_append_only on clearing_account, opening_balance_append_only on opening_balance, account_fence_raise_append_only on account_fence_raise"
)

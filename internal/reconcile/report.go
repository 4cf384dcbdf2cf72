package reconcile

import "time"

// Outcome is what a run found out.
type Outcome string

// The outcomes. The zero value is none of them, and not clean.
const (
	Clean      Outcome = "CLEAN"
	Breaks     Outcome = "BREAKS"
	Incomplete Outcome = "INCOMPLETE"
)

// Report is the answer of [Run].
type Report struct {
	// RunID names the run; its seal and its report carry it.
	RunID   string  `json:"run_id"`
	Outcome Outcome `json:"outcome"`
	// Complete is false when something was not checked; Missing says what, and why.
	Complete bool      `json:"complete"`
	Missing  []Missing `json:"missing"`
	// Notes are for the reader: nothing that they tell of was left unchecked.
	Notes      []string  `json:"notes,omitempty"`
	StartedAt  time.Time `json:"started_at"`
	FinishedAt time.Time `json:"finished_at"`
	Scope      Scope     `json:"scope"`
	// Pay and Lock are the two snapshots, paydb's taken first (K-8.3).
	Pay  Snapshot  `json:"paydb"`
	Lock *Snapshot `json:"lockdb,omitempty"`
	// LastToken is the last token that lockdb issued, read last and on the primary;
	// 0 when it is not known.
	LastToken    int64  `json:"last_token,omitempty"`
	LastTokenStr string `json:"last_token_str,omitempty"`
	// Coverage is one row per class.
	Coverage []Coverage `json:"coverage"`
	// Totals are per class and currency, never summed across currencies.
	Totals []Total `json:"totals"`
	// Findings are the breaks, worst first; Pending what work in flight explains.
	Findings []Finding `json:"findings"`
	Pending  []Finding `json:"pending"`
	// Timelines are those of the accounts worst hit, at most [MostTimelines].
	Timelines []Timeline `json:"timelines"`
	// Pipeline is the open payouts per state and currency.
	Pipeline []PipelineRow `json:"pipeline"`
	// Sealed tells that the seal that was asked for is written, and good.
	Sealed bool `json:"sealed"`
	// Unanchored counts the accounts without an opening balance (K-4.8).
	Unanchored int64 `json:"unanchored"`
	// Digest is the SHA-256 of the report's JSON without it, "" where nobody has asked
	// for it ([Report.Digested]).
	Digest string `json:"digest,omitempty"`
}

// Missing is something that a run did not check.
type Missing struct {
	// Class is "" when it concerns the whole run.
	Class  string `json:"class,omitempty"`
	Reason string `json:"reason"`
}

// Scope narrows a run; empty fields leave all in.
type Scope struct {
	Accounts   []string `json:"accounts,omitempty"`
	Currencies []string `json:"currencies,omitempty"`
	Rules      []string `json:"rules,omitempty"`
}

// Snapshot says which state of a database a run read.
type Snapshot struct {
	SystemIdentifier    int64  `json:"system_identifier"`
	SystemIdentifierStr string `json:"system_identifier_str"`
	// Timeline is 0 on a standby.
	Timeline int32 `json:"timeline"`
	// Database is its name in the instance, which may have several.
	Database string    `json:"database"`
	LSN      string    `json:"lsn"`
	At       time.Time `json:"at"`
	// Xmin is the snapshot's lowest transaction still running.
	Xmin int64 `json:"xmin,omitempty"`
	// Standby tells that it was read from a standby. LagMS is how far behind that was
	// at most: the age of the last transaction replayed, 0 when none was yet.
	Standby bool  `json:"standby"`
	LagMS   int64 `json:"lag_ms,omitempty"`
	Schema  int   `json:"schema_version"`
}

// Coverage is what became of one class.
type Coverage struct {
	Class    string   `json:"class"`
	Name     string   `json:"name"`
	Severity Severity `json:"severity"`
	// Checked counts the rows of its population, Over which population that is.
	Checked  int64  `json:"checked"`
	Over     string `json:"over"`
	Findings int64  `json:"findings"`
	Pending  int64  `json:"pending"`
	// Skipped says why it was not checked, "" when it was.
	Skipped    string `json:"skipped,omitempty"`
	DurationMS int64  `json:"duration_ms"`
}

// Total sums the findings of a class in one currency.
type Total struct {
	Class    string `json:"class"`
	Currency string `json:"currency"`
	Findings int64  `json:"findings"`
	// AmountMinor is the sum of the absolute amounts, in text: it may exceed 64 bits.
	AmountMinor string `json:"amount_minor"`
}

// PipelineRow counts the open payouts of a state in one currency.
type PipelineRow struct {
	State       string    `json:"state"`
	Currency    string    `json:"currency"`
	Payouts     int64     `json:"payouts"`
	AmountMinor string    `json:"amount_minor"`
	Oldest      time.Time `json:"oldest,omitzero"`
}

package lockstore

import "time"

// MaxBatch is the most keys that one batch may hold (K-2.4).
const MaxBatch = 64

// Capabilities declare how a backend differs. What is the same everywhere, one
// holder per key and a token that rises with each grant of a key, is not a
// capability.
type Capabilities struct {
	// Backend is its name in configuration and output.
	Backend string `json:"backend"`
	// Sessions: locks hang on sessions and die with them; the same session
	// re-enters. Without it Session in AcquireParams is empty.
	Sessions bool `json:"sessions"`
	// GlobalTokens: a token is unique and ordered over all keys, not per key only.
	GlobalTokens bool `json:"global_tokens"`
	// OwnTTL: each lock has a lease of its own, not its session's.
	OwnTTL bool `json:"own_ttl"`
	// Batches: AcquireBatch is one transaction.
	Batches bool `json:"batches"`
	// Journal: GrantHistory knows who held an old token, and how it ended.
	Journal bool `json:"journal"`
	// Tolerance is how long past its end a lease still counts as held.
	Tolerance time.Duration `json:"-"`
}

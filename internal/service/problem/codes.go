package problem

// The codes that services answer with. Those of the stores' errors are the code
// strings of the command line's error table (docs/exit-codes.md): a client turns
// them back into the store's own error, and dlockctl exits as if it had asked the
// database itself. A test in internal/cli/app compares the two lists.
const (
	// Of the lock store.
	SessionLost  = "session_lost"
	LockLost     = "lock_lost"
	WaitTimeout  = "wait_timeout"
	GrantsClosed = "grants_closed"
	CountMoved   = "count_moved"
	TokenMoved   = "token_moved"
	NotHeld      = "not_held"
	Unsupported  = "unsupported"

	// Of the payment store.
	Rejected            = "rejected"
	WrongState          = "wrong_state"
	Evidence            = "evidence"
	IdempotencyConflict = "idempotency_conflict"
	Claimed             = "claimed"
	PayGateClosed       = "pay_gate_closed"
	Overflow            = "overflow"
	NotClearable        = "not_clearable"
	RailUnreachable     = "rail_unreachable"

	// Of both.
	Blocked          = "blocked"
	NotFound         = "not_found"
	InvalidArgument  = "invalid_argument"
	OutcomeUnknown   = "outcome_unknown"
	Unreachable      = "unreachable"
	NotPrimary       = "not_primary"
	SameInstance     = "same_instance"
	UnsafeDatabase   = "unsafe_database"
	SchemaVersion    = "schema_version"
	WrongDatabase    = "wrong_database"
	WrongEnvironment = "wrong_environment"
	ServerTooOld     = "server_too_old"
	PermissionDenied = "permission_denied"
	Database         = "database"
	Usage            = "usage"
	Unexpected       = "unexpected"
)

// Two words are those of the HTTP interface; the command line has its own.
const (
	// Contended is "held" over HTTP: a live other holds the key.
	Contended = "contended"
	// Fenced is "fenced_out" over HTTP: a later token has been at the resource.
	Fenced = "fenced"
)

// These come from the HTTP frame alone.
const (
	// Unauthenticated: there was no credential, or not one that is known.
	Unauthenticated = "unauthenticated"
	// Forbidden: the credential lacks the scope.
	Forbidden = "forbidden"
	// RateLimited: the caller asks too often.
	RateLimited = "rate_limited"
	// TooLarge: the body is larger than any request needs.
	TooLarge = "too_large"
	// TooSlow: the body did not come in time.
	TooSlow = "too_slow"
	// MediaType: the body is not said to be JSON.
	MediaType = "media_type"
	// Draining: the service is going away; ask another, or ask again.
	Draining = "draining"
	// FloorUnknown: the service has not learned the floor of K-7.6 yet, so it
	// grants nothing.
	FloorUnknown = "floor_unknown"
)

// alias maps the words of HTTP to those of the command line.
var alias = map[string]string{Contended: "held", Fenced: "fenced_out"}

// CommandLine returns the command line's word for a code.
func CommandLine(code string) string {
	if word, ok := alias[code]; ok {
		return word
	}
	return code
}

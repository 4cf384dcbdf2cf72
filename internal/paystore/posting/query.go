package posting

import (
	"embed"

	"github.com/dlockctl/dlockctl/internal/pgtx"
)

//go:embed queries/*.sql
var queryFiles embed.FS

// The statements, each with its parameters in the order they are passed.
var (
	debitQuery            = pgtx.Statement(queryFiles, "debit", "amount_minor", "token", "account_id", "currency")
	debitUnfencedQuery    = pgtx.Statement(queryFiles, "debit_unfenced", "amount_minor", "token", "account_id", "currency")
	legQuery              = pgtx.Statement(queryFiles, "leg", "entry_id", "payout_id", "direction", "amount_minor", "token", "account_id")
	legUnfencedQuery      = pgtx.Statement(queryFiles, "leg_unfenced", "entry_id", "payout_id", "direction", "amount_minor", "token", "account_id")
	postQuery             = pgtx.Statement(queryFiles, "post", "payout_id", "token")
	postUnfencedQuery     = pgtx.Statement(queryFiles, "post_unfenced", "payout_id")
	creditQuery           = pgtx.Statement(queryFiles, "credit", "amount_minor", "account_id", "currency")
	lockPayoutQuery       = pgtx.Statement(queryFiles, "lock_payout", "payout_id")
	legsQuery             = pgtx.Statement(queryFiles, "legs", "payout_id")
	createQuery           = pgtx.Statement(queryFiles, "create", "payout_id", "account_id", "amount_minor", "currency", "idempotency_key")
	findPayoutQuery       = pgtx.Statement(queryFiles, "find_payout", "idempotency_key", "payout_id")
	claimQuery            = pgtx.Statement(queryFiles, "claim", "payout_id", "holder", "token")
	takeOverQuery         = pgtx.Statement(queryFiles, "take_over", "payout_id", "holder", "token", "from")
	releaseQuery          = pgtx.Statement(queryFiles, "release", "payout_id", "token")
	submitQuery           = pgtx.Statement(queryFiles, "submit", "payout_id", "token")
	moveQuery             = pgtx.Statement(queryFiles, "move", "payout_id", "token", "from", "to")
	giveUpQuery           = pgtx.Statement(queryFiles, "give_up", "payout_id")
	recordResolutionQuery = pgtx.Statement(queryFiles, "record_resolution", "payout_id", "source", "verdict", "evidence", "operator", "reason")
	verdictQuery          = pgtx.Statement(queryFiles, "verdict", "payout_id")
	unsettledQuery        = pgtx.Statement(queryFiles, "unsettled", "timeout_seconds", "after_account", "after_created", "after_payout", "row_limit")
	standingQuery         = pgtx.Statement(queryFiles, "standing", "payout_id")
	openOnAccountQuery    = pgtx.Statement(queryFiles, "open_on_account", "account_id", "except", "after_created", "after_payout", "row_limit")
	lockAccountQuery      = pgtx.Statement(queryFiles, "lock_account", "account_id")
	raiseFenceQuery       = pgtx.Statement(queryFiles, "raise_fence", "account_id", "token")
	recordRaiseQuery      = pgtx.Statement(queryFiles, "record_raise", "account_id", "raised_from", "raised_to", "operator", "reason")
)

// Package payapi is what payment-resource and rail-proxy say over HTTP: requests,
// answers, paths, and their errors as problem details. The services write it and
// the clients read it, so it stands in one place. It holds no connection and moves
// no money.
//
// # Invariants
//
//   - K-4.4 a fenced token is 409 "fenced" with the token presented and the token
//     that stands; the token travels in [TokenHeader].
//   - K-4.10 no request names an account, an amount, a currency or a rail key of a
//     payout that stands: the payout's row has them.
//   - K-5.4 every 64-bit number has a string twin, in answers and in requests.
//   - [Error] turns the problem that [Problem] made into the same error again: a
//     client decides as if it had asked the store itself. An outcome that is unknown
//     stays unknown, and never becomes a failure (K-2.9).
package payapi

// TokenHeader carries the fencing token of a call, in decimal digits.
const TokenHeader = "X-Fencing-Token"

// The paths of payment-resource.
const (
	PathPayouts    = "/v1/payouts"
	PathPayout     = "/v1/payouts/show"
	PathUnsettled  = "/v1/payouts/unsettled"
	PathOpen       = "/v1/payouts/open"
	PathClaim      = "/v1/payouts/claim"
	PathRelease    = "/v1/payouts/release"
	PathCheckFunds = "/v1/payouts/check-funds"
	PathSubmit     = "/v1/payouts/submit"
	PathSettle     = "/v1/payouts/settle"
	PathPost       = "/v1/payouts/post"
	PathReject     = "/v1/payouts/reject"
	PathResolve    = "/v1/payouts/resolve"
	PathAttest     = "/v1/payouts/attest"
	PathGiveUp     = "/v1/payouts/give-up"
	PathAccounts   = "/v1/accounts"
	PathAccount    = "/v1/accounts/show"
	PathRaiseFence = "/v1/accounts/raise-fence"
)

// The paths of rail-proxy.
const (
	PathRailSubmit = "/v1/attempts/submit"
	PathRailAsk    = "/v1/attempts/ask"
	PathRailAdopt  = "/v1/attempts/adopt"
	PathRailLookup = "/v1/attempts/lookup"
	PathRaiseMark  = "/v1/marks/raise"
)

// PathHighest is the highest token that the service's database knows (K-7.6); both
// services have it.
const PathHighest = "/v1/tokens/highest"

// The sizes of a list's page.
const (
	DefaultLimit = 100
	MaxLimit     = 1000
)

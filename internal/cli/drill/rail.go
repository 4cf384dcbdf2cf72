package drill

import "github.com/dlockctl/dlockctl/internal/scenario"

// railTimeout is the drill of a rail that goes silent.
func railTimeout() story {
	return story{
		name: "rail-timeout", short: "Let the rail go silent, and settle by its own record",
		long: "A worker hands two payouts to a rail that says nothing: the rail has paid one, and never took the other\n" +
			"in. Once the forwarding deadline has passed both are RAIL_AMBIGUOUS. Another worker takes them over, and\n" +
			"neither is sent again, posted or guessed; the account's next payout is paid meanwhile. When the rail\n" +
			"speaks again it is asked, its record is kept as evidence, and settles both: one posted once, one FAILED.",
		play: scenario.DrillRailTimeout,
	}
}

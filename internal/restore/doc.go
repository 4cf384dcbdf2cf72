// Package restore brings a lock database that was set back, by a restore or a
// fail-over, to where no token can be issued twice (K-7), and a restored paydb to
// where nothing is paid twice (K-7.9).
//
// # The order, and what a death in between leaves
//
//	step               what is committed                          dead after it
//	evidence           nothing: plan, checks, refusals            as before
//	close_gate         the gate, closed for this run              grants refused
//	barrier            nothing: grants under way have ended       grants refused
//	advance            sequence, voided sessions, the record      grants refused
//	journal_partition  the journal's partition at the target      grants refused
//	floor_account      every token up to the target is refused    grants refused
//	barrier_account    nothing: postings under way have ended     grants refused
//	floor_rail         the same at the rail                       grants refused
//	barrier_rail       nothing: attempts under way have ended     grants refused
//	outside_mark       the file's ceiling                         grants refused
//	verify             nothing: read through new connections      grants refused
//	open_gate          identity noted, run ended, its record      done
//
// Whatever ran before, running it again completes it: each step only moves
// forward, and a target that this instance and timeline recorded as reached is no
// evidence where it wrote itself, so that the second run stays where the first
// went (K-7.2).
//
// The package knows the backend through lockstore.Rewinder, paydb through [Money],
// and decides; it prints nothing and asks nobody.
package restore

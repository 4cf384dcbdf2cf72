// Package reconcile compares the money with itself. It reads, and never writes
// (K-8.5); every rule is a file of rules, named by its place in the catalogue.
//
// The first rule is A01, INV-03: an account's balance is its opening balance plus
// its credits less its debits (K-8.1). An account without an opening balance is
// UNANCHORED: neither clean nor a break (K-4.8).
//
// A run has three outcomes, and only a complete one can be CLEAN:
//
//	CLEAN       every account was compared, and all agree
//	BREAKS      at least one does not agree
//	INCOMPLETE  no break was seen, but an account was not compared, there was none,
//	            or a right was missing (with an error)
package reconcile

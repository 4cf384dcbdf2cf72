// Package reconcile compares the money with itself, and with the locks under which it
// was moved. It only reads (K-8.5).
//
// # A run
//
//	P1  a snapshot of paydb, exported and shared by all workers (K-8.1)
//	L1  a snapshot of lockdb, younger: tokens are issued there before paydb sees them (K-8.3)
//	    the last token issued, which no snapshot holds
//	    every family of rules, once
//	P2  paydb as it is now: what was found is looked for again, and what is gone is dropped
//	    attribution and timelines (K-8.2)
//	L2  lockdb as it is now: its schema history, and the last token issued
//
// A family is one scan that decides several classes of the catalogue (K-8.4): a file of
// rules, or a function where SQL cannot say it. Rows are streamed; what a run keeps in
// memory are its findings.
//
// # Outcomes
//
//	CLEAN       everything in scope was checked, and nothing was found
//	BREAKS      a break was found twice; whether everything was checked, Complete says
//	INCOMPLETE  no such break, but something was not checked, cannot be relied on
//	            (D05, D07, D08), is UNANCHORED (A02), or was found once only
//
// # Failures
//
//	paydb does not answer, or the scope is none    an error: nothing was begun
//	lockdb does not answer                         its classes are in Missing
//	a right is missing, a policy hides rows        those classes are in Missing; D08 names the table
//	a standby of paydb                             its snapshot says how far behind it was
//	a standby of lockdb                            what compares with the last token issued is in Missing
//	a pooler with fewer connections                fewer workers; Notes say so
//	cancelled, or over its time limit              what was found until then, INCOMPLETE
//	a migration meanwhile                          D09
package reconcile

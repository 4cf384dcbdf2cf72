// Package plant makes worlds for the tests and the benchmark of reconcile: a
// healthy one in both databases ([Healthy]), one break of a class in it
// ([World.Plant]), and the nearest thing that is none ([World.NearMiss]).
//
// It is written from the catalogue's text (docs/reconcile.md) and not from the
// rules, so that the two can disagree. It connects as superuser and writes past
// every trigger, because most breaks cannot be made otherwise; it is for nothing
// but test databases.
//
// Where the catalogue leaves a choice, a file of faults says which one was taken
// and why. The author of a break is:
//
//   - the token that wrote what is wrong, where one did;
//   - the intruder, where two tokens are in play: the one that is not the payout's
//     claim (A15), the lower one (B03, B11), the one that came second (C06);
//   - nobody (0), where no grant stands behind it: an operator's or an owner's
//     change, a number that was never issued.
package plant

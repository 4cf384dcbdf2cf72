// Package floor is paydb's part of a restore: what paydb knows of tokens (K-7.2),
// the floors below which both enforcement points refuse every token (K-7.8), and
// the gate of a paydb that was itself restored (K-7.9).
//
// Only dlock_owner writes floors and gate, so everything here needs a person's
// login with the role dlock_operator; a plan needs one that may read.
package floor

// Package runner runs a command under a lock, and stops it before the lock can
// be another's.
//
// # The life of a job
//
//	waiting ──granted──▶ running ──ended──▶ swept ──▶ released
//	   │                    │
//	   │                    ├─revoked, session ended─▶ stopping ─▶ KILL after the grace
//	   │                    ├─not renewed in time────▶ stopping ─▶ KILL before the lease can end
//	   └─signal, refused    └─woken too late─────────▶ KILL at once
//
// # What holds
//
//   - K-2.10 the lease is counted from before its request was sent, on whichever
//     clock says that more time has passed; what is trusted is the smaller of
//     lease and session.
//   - The command's whole process group gets TERM no later than a grace and a
//     margin before that moment, and KILL a margin before it. Nothing that the
//     database does, or does not answer, moves this.
//   - Whatever wakes the wrapper, it looks at the clocks first, before it takes
//     in what else has happened.
//   - A second process, the guard, knows the same moment. It kills the group when
//     the wrapper died, or slept past it.
//   - The lock is given back only when nothing of the command is left running
//     that the system can name.
//
// What each system can and cannot do is in docs/run.md.
//
// A process runs one job and starts no other processes meanwhile: on Linux
// whatever descends from it is the command's.
package runner

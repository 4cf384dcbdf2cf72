// Package mark keeps the outside mark of a lock database (K-7.6): a file that no
// restore of lockdb rewinds, with a ceiling above every token that was ever shown
// to anybody. A plain copy of lockdb keeps both its identifiers; the file is what
// tells that it has granted further.
//
// # How it stays cheap
//
// The ceiling is raised ahead in blocks of a million. A grant compares its token
// with the ceiling in memory, one atomic load; once in a million grants somebody
// writes and fsyncs the file, in the background as soon as the block is nearly
// used up, so that no grant waits for it. A grant above the ceiling is withheld
// until the raise has reached the disk: see [Mark.Cover].
//
// Beside the ceiling the file holds the highest token seen, written about once a
// second: a hint that catches a rewind inside a block. The ceiling is what a
// fast-forward lands above.
//
// # Who shares it
//
// All who grant on one lockdb must see the same file: one host, or a folder that
// the hosts share. It is bound to the deployment by lockdb's own id, which every
// backup and dump of lockdb has (migration V12), and never falls: writers take
// turns through a lock file, read what stands, and write the higher of the two.
package mark

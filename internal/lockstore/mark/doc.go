// Package mark keeps the outside mark of a lock database (K-7.6): a file that no
// restore of lockdb rewinds, with a ceiling above every token that was ever shown
// to anybody. A plain copy of lockdb keeps both its identifiers; the file is what
// tells that it has granted further.
//
// # How it stays cheap
//
// The ceiling is raised ahead in blocks, of as many tokens as are granted in about a
// second: 64 at least, a million at most. A grant compares its token with the ceiling
// in memory, one atomic load; once in a block somebody writes and fsyncs the file, in
// the background where blocks are large, so that no grant waits for it. A grant above
// the ceiling is withheld until the raise has reached the disk: see [Mark.Cover].
//
// Beside the ceiling the file holds the highest token seen, written twice a second and
// at the end: a hint that catches a rewind inside a block. What a process was shown and
// had not told when it died lies between the two: whoever grants next on a database
// that stands below the ceiling draws numbers that nobody gets, up to it. So no token
// that was ever shown is issued again, whatever died; and a fast-forward lands above the
// ceiling.
//
// # Who shares it
//
// All who grant on one lockdb must see the same file: one host, or a folder that
// the hosts share. It is bound to the deployment by lockdb's own id, which every
// backup and dump of lockdb has (migration V12), and never falls: writers take
// turns through a lock file, read what stands, and write the higher of the two.
package mark

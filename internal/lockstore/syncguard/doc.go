// Package syncguard keeps fenced locks in the tables of SyncGuard, a TypeScript
// library: its rows are read and written as the library does, so that both
// exclude each other (K-10.2). Written against SyncGuard 2.5.2.
//
// # What differs from lockstore/postgres
//
//   - There are no sessions. A lock hangs on its own lease and is identified by a
//     secret lock id of 22 characters, with which the library renews and
//     releases; this store renews and releases by key and token.
//   - A row names no owner.
//   - A token is the fence, counted for each key alone, from 1 to 900000000000000.
//     Every key's counter stays for ever; a released key begins above it. A row that
//     somebody else wrote with another fence is named by the hash of its lock id.
//   - A lease counts as held for a second past its end, in every operation.
//   - Keys are normalised to NFC, and at most 512 bytes of that. What this program
//     and the library might normalise differently is refused.
//   - Nothing keeps a restored counter from issuing old fences; one that is behind the
//     row it would replace is refused.
//   - An acquire whose answer was lost cannot be entered again: its key is free when
//     its lease and the second are over, or when an operator revokes it.
//   - The audit is a table of dlockctl's own, made on request. There is no journal.
//
// # What the library lacks and this store has
//
// The library's extend takes the row and not the key's advisory lock, its acquire
// takes the advisory lock and not the row: an extend within the tolerance and an
// acquire after it can both succeed. Here every change takes the advisory lock
// first and then the row, so that no such pair with one of this store's on either
// side does.
//
// The library reads the time when its transaction begins, so that a lease may be
// over when it is granted. Here the clock is read when both locks are held:
// clock_timestamp(), which no statement on lockdb uses (K-2.1).
//
// The library issues fences of 16 digits and negative ones from a counter that
// somebody set there. Here such a counter grants nothing.
//
// The order of locks is everywhere: the key's advisory lock, its counter, its row.
// Other connections are never terminated: that ends the library's whole process.
package syncguard

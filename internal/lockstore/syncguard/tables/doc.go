// Package tables knows what SyncGuard's two tables look like (K-10.2): whether
// they are there, where the search_path leads, and what keeps a pair that somebody
// else made from being the library's. It reads the catalogue alone, which every
// login may, and changes nothing.
package tables

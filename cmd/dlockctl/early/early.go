// Package early answers `dlockctl version` before the libraries are
// initialised, which takes longer than the answer. Go initialises a package as
// soon as everything it imports is: this one imports next to nothing
// (docs/adr/0006-version-answers-first.md). On Windows nothing is answered early.
package early

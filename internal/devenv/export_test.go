package devenv

import "context"

// SearchBelow makes the search for installed PostgreSQL look below root.
func (e *Env) SearchBelow(root string) { e.root = root }

// Find runs the search for binaries and returns the folder.
func (e *Env) Find(ctx context.Context) (string, error) {
	found, err := e.findBinaries(ctx, e.majorInUse())
	return found.dir, err
}

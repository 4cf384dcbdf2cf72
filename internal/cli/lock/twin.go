package lock

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"golang.org/x/text/unicode/norm"

	"github.com/dlockctl/dlockctl/internal/cli/app"
	"github.com/dlockctl/dlockctl/internal/lockstore"
)

// twins are the other spellings of a key that look the same: composed (NFC) and
// decomposed (NFD). Keys are compared byte by byte, so each is a lock of its
// own. Plain ASCII has none.
func twins(key string) []string {
	var others []string
	for _, form := range []norm.Form{norm.NFC, norm.NFD} {
		if other := form.String(key); other != key && !slices.Contains(others, other) {
			others = append(others, other)
		}
	}
	return others
}

// heldTwin says which twin of a key is held, "" for none.
func heldTwin(ctx context.Context, store lockstore.Store, key string) (string, error) {
	for _, twin := range twins(key) {
		entry, err := store.Show(ctx, twin)
		switch {
		case errors.Is(err, lockstore.ErrNotFound), err == nil && entry.Expired:
			continue
		case err == nil && entry.Key != twin:
			continue // to this backend both are one key
		case err != nil:
			return "", err
		}
		return fmt.Sprintf("%+q, which looks the same as %+q, is another key, and is held by %s with %s", twin, key, app.Holder(entry.Owner), grantOf(entry)), nil
	}
	return "", nil
}

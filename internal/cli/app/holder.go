package app

import (
	"strconv"

	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/ui"
)

// Holder is an owner in a sentence: in quotes, or as unknown where the backend's rows
// name none.
func Holder(owner string) string {
	if owner == "" {
		return "an unknown holder"
	}
	return strconv.Quote(owner)
}

// OwnerColumn shows an owner, on a backend whose rows name none only to those who ask
// for it.
func OwnerColumn(store lockstore.Store, field string) ui.Column {
	none := store.Capabilities().Ownerless
	return ui.Column{Title: "OWNER", Field: field, Wide: none, Optional: none}
}

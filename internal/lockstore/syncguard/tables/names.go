package tables

import (
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/dlockctl/dlockctl/internal/lockstore/syncguard"
)

// The names that the library has by itself, and those of what is ours beside it.
const (
	DefaultLock  = syncguard.DefaultLockTable
	DefaultFence = syncguard.DefaultFenceTable
	// History is the table of what `dlockctl migrate` did here: not Flyway's own
	// name, which an application in the same schema may have in use.
	History = "dlockctl_syncguard_history"
)

// Names are those of the two tables, as the library is configured with: without a
// schema, which the search_path decides.
type Names struct{ Lock, Fence string }

// Default are the library's own.
func Default() Names { return Names{Lock: DefaultLock, Fence: DefaultFence} }

// QuotedLock is the lock table's name as SQL has it. The library's operations quote
// too, so that letters keep their case.
func (n Names) QuotedLock() string { return quote(n.Lock) }

// SQL is a statement that is written with the library's own names, on these.
func (n Names) SQL(statement string) string {
	return strings.NewReplacer(
		"idx_"+DefaultLock+"_lock_id", quote(n.index(suffixID)), "idx_"+DefaultLock+"_expires", quote(n.index(suffixExpires)),
		DefaultLock, n.QuotedLock(), DefaultFence, quote(n.Fence),
	).Replace(statement)
}

const (
	suffixID      = "_lock_id"
	suffixExpires = "_expires"
	// longest is the longest name of a lock table whose two indexes the server does
	// not cut to one and the same name of 63 bytes.
	longest = 57
)

func (n Names) index(suffix string) string { return "idx_" + n.Lock + suffix }

// Creatable refuses names with which the library's schema cannot be made whole.
func (n Names) Creatable() error {
	if len(n.Lock) > longest {
		return fmt.Errorf("the lock table's name %q has %d letters: the names of its two indexes would be cut to the same one, and the second would be missing; give at most %d", n.Lock, len(n.Lock), longest)
	}
	return nil
}

func quote(name string) string { return pgx.Identifier{name}.Sanitize() }

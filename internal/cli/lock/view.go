package lock

import (
	"fmt"
	"slices"
	"strings"

	"github.com/dlockctl/dlockctl/internal/cli/app"
	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/ui"
)

// entryView is a lock as list and show print it.
type entryView struct {
	Key string `json:"key"`
	app.Token
	Owner      string         `json:"owner"`
	Session    string         `json:"session_id"` // masked unless asked for (K-2.12)
	State      string         `json:"state"`
	AcquiredAt lockstore.Time `json:"acquired_at,omitzero"` // absent of one that cannot be read
	ExpiresAt  lockstore.Time `json:"expires_at"`
	// AgeMS and RemainingMS are counted by the database's clock (K-2.1).
	AgeMS            int64          `json:"age_ms"`
	RemainingMS      int64          `json:"remaining_ms"`
	Expired          bool           `json:"expired"`
	SessionExpiresAt lockstore.Time `json:"session_expires_at,omitzero"`
	// SessionRemainingMS is absent when the session never expires.
	SessionRemainingMS *int64  `json:"session_remaining_ms,omitempty"`
	BlockedBy          []int32 `json:"blocked_by,omitempty"`
	Waiters            int     `json:"waiters,omitempty"`
	// KeyHash and LockIDHash are what SyncGuard's telemetry calls them.
	KeyHash    string `json:"key_hash,omitempty"`
	LockIDHash string `json:"lock_id_hash,omitempty"`
	// Fence is what the row has for a fence where that is no token.
	Fence string `json:"fence,omitempty"`
}

// The states of an entry.
const (
	stateHeld   = "held"
	stateLapsed = "lapsed"
	// Where a lease is held for a while past its end (Capabilities.Tolerance).
	stateInTolerance = string(lockstore.InTolerance)
	stateStale       = string(lockstore.Stale)
	stateUnreadable  = string(lockstore.Unreadable)
)

func viewEntry(e lockstore.Entry, showSession bool) entryView {
	v := entryView{
		Key: e.Key, Token: app.NewToken(e.Token), Owner: e.Owner, Session: app.SessionText(e.Session, showSession),
		State: stateHeld, AcquiredAt: e.AcquiredAt, ExpiresAt: e.ExpiresAt,
		AgeMS: e.Age.Milliseconds(), RemainingMS: e.Remaining.Milliseconds(),
		Expired: e.Expired, SessionExpiresAt: e.SessionExpiresAt, BlockedBy: e.BlockedBy, Waiters: e.Waiters,
		KeyHash: e.KeyHash, LockIDHash: e.LockIDHash, Fence: e.Fence,
	}
	if e.Expired {
		v.State = stateLapsed
	}
	if e.State != "" {
		v.State = string(e.State)
	}
	if !e.SessionExpiresAt.IsZero() && !e.SessionExpiresAt.Infinite && !e.ExpiresAt.Infinite {
		// Both times are the database's, and so is what remains of the lease.
		ms := (e.SessionExpiresAt.Sub(e.ExpiresAt.Time) + e.Remaining).Milliseconds()
		v.SessionRemainingMS = &ms
	}
	return v
}

// warnUnreadable says of each lock that cannot be read what it does, and what to do.
func warnUnreadable(a *app.App, entries ...lockstore.Entry) {
	for _, e := range entries {
		switch {
		case e.State != lockstore.Unreadable:
		case e.Token == 0: // an etcd key that no lock has
			a.Warn("the etcd key %q is no name of a lock: no revoke by key finds it", e.Key)
			a.Hint("find out who wrote it; this takes it away: etcdctl del -- " + app.Quoted(e.Key))
		default:
			a.Warn("lock %q has a value that cannot be read: who holds it is not known, and nobody acquires it", e.Key)
			a.Hint(a.Command("doctor") + " says why; this takes it away: " + command(a, "revoke", e.Key, "--token", e.Token.String(), "--reason", "TEXT"))
		}
	}
}

// seenColumns tell which grant it is, and how it stands.
func seenColumns(store lockstore.Store) []ui.Column {
	return []ui.Column{
		{Title: "KEY", Field: "key"},
		{Title: "TOKEN", Field: "token", Kind: ui.Number},
		app.OwnerColumn(store, "owner"),
		{Title: "STATE", Field: "state", Tones: map[string]ui.Tone{stateHeld: ui.Good, stateLapsed: ui.Faint, stateInTolerance: ui.Warn, stateStale: ui.Faint, stateUnreadable: ui.Bad}},
		{Title: "ACQUIRED", Field: "acquired_at", Kind: ui.Since, Relative: "age_ms"},
		{Title: "EXPIRES", Field: "expires_at", Kind: ui.Until, Relative: "remaining_ms"},
	}
}

// entryColumns are all of a lock, with what a backend shows that shares its rows with
// a library.
func entryColumns(store lockstore.Store) []ui.Column {
	has := store.Capabilities()
	columns := append(seenColumns(store), []ui.Column{
		{Title: "SESSION", Field: "session_id", Wide: true, Optional: !has.Sessions},
		{Title: "SESSION EXPIRES", Field: "session_expires_at", Kind: ui.Until, Relative: "session_remaining_ms", Wide: true, Optional: true},
		{Title: "BLOCKED BY", Field: "blocked_by", Wide: true, Optional: true},
		{Title: "WAITERS", Field: "waiters", Kind: ui.Number, Wide: true, Optional: true},
	}...)
	if has.LockIDs {
		columns = append(columns, ui.Column{Title: "KEY HASH", Field: "key_hash", Wide: true})
		columns = append(columns, lockIDColumns()...)
	}
	return columns
}

// lockIDColumns name a grant that has no token.
func lockIDColumns() []ui.Column {
	return []ui.Column{
		{Title: "LOCK ID HASH", Field: "lock_id_hash", Wide: true, Optional: true},
		{Title: "FENCE", Field: "fence", Wide: true, Optional: true},
	}
}

// grantOf names a grant in a sentence: by its token, where it has one.
func grantOf(e lockstore.Entry) string {
	if e.Fence == "" {
		return "token " + e.Token.String()
	}
	return fmt.Sprintf("the fence %q, which is no token, and lock id hash %s", e.Fence, e.LockIDHash)
}

// command is a command on one key as a shell and then this program read it, on
// the databases of the running one: a key that begins with a dash stands behind
// --, for quotes do not help there.
func command(a *app.App, verb, key string, flags ...string) string {
	if strings.HasPrefix(key, "-") {
		return a.Command(verb, flags...) + " -- " + app.Quoted(key)
	}
	return a.Command(verb, slices.Concat([]string{key}, flags)...)
}

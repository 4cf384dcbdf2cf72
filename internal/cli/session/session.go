// Package session holds the verbs on sessions: the holders' life lines, whose
// end releases their locks (K-2.4).
package session

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/dlockctl/dlockctl/internal/cli/app"
	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/ui"
)

const defaultTTL = 30 * time.Second

// New returns the session command with its verbs.
func New(a *app.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "session",
		Short: "Make, keep alive and end sessions",
		Long: "A session is a holder's life line: its locks are released when it ends or lapses. With its\n" +
			"owner, a session id is the right to re-enter the locks under it, so it is shown in full only\n" +
			"to whoever made it, or asked with --show-session.",
		Example: "  dlockctl session create --owner worker-7 --ttl 1m\n  dlockctl session list",
	}
	cmd.AddCommand(newCreateCmd(a), newHeartbeatCmd(a), newShowCmd(a), newListCmd(a), newEndCmd(a), newReapCmd(a))
	return app.Group(cmd)
}

// open opens the lock store, and refuses one whose backend has no sessions.
func open(ctx context.Context, a *app.App, purpose app.Purpose) (lockstore.Store, error) {
	store, err := a.LockStore(ctx, purpose)
	if err == nil && !store.Capabilities().Sessions {
		return nil, app.Lacks(store, "sessions", "each lock hangs on its own lease: acquire and renew it")
	}
	return store, err
}

// sessionView is a session as it is printed.
type sessionView struct {
	ID        string         `json:"session_id"`
	Owner     string         `json:"owner,omitempty"`
	State     string         `json:"state"`
	Locks     *int           `json:"locks,omitempty"` // absent from heartbeat, which does not look
	CreatedAt lockstore.Time `json:"created_at,omitzero"`
	ExpiresAt lockstore.Time `json:"expires_at"`
	// RemainingMS is counted by the database's clock (K-2.1).
	RemainingMS int64 `json:"remaining_ms"`
	Expired     bool  `json:"expired"`
}

// The states of a session.
const (
	stateAlive  = "alive"
	stateLapsed = "lapsed"
)

func view(s lockstore.Session, showID bool) sessionView {
	v := sessionView{
		ID: app.SessionText(s.ID, showID), Owner: s.Owner, State: stateAlive, Locks: &s.Locks,
		CreatedAt: s.CreatedAt, ExpiresAt: s.ExpiresAt, RemainingMS: s.Remaining.Milliseconds(),
		Expired: s.Remaining <= 0 && !s.ExpiresAt.Infinite,
	}
	if v.Expired {
		v.State = stateLapsed
	}
	return v
}

func columns() []ui.Column {
	return []ui.Column{
		{Title: "SESSION", Field: "session_id"},
		{Title: "OWNER", Field: "owner", Optional: true},
		{Title: "STATE", Field: "state", Tones: map[string]ui.Tone{stateAlive: ui.Good, stateLapsed: ui.Faint}},
		{Title: "LOCKS", Field: "locks", Kind: ui.Number, Optional: true},
		{Title: "CREATED", Field: "created_at", Kind: ui.Since, Optional: true},
		{Title: "EXPIRES", Field: "expires_at", Kind: ui.Until, Relative: "remaining_ms"},
	}
}

func printOne(a *app.App, v sessionView) error {
	return a.Print(ui.View{Data: v, Columns: columns(), Name: "session_id"})
}

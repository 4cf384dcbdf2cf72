package top

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	tea "charm.land/bubbletea/v2"

	"github.com/dlockctl/dlockctl/internal/cli/app"
	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/ui"
)

// revocation is a revoke that was agreed to. It is not called off by leaving the
// screen, and what becomes of it is told in any case: a lost answer is an unknown
// outcome, and never nothing (K-2.9).
type revocation struct {
	target lockstore.Entry
	// answered is closed when outcome and err are there.
	answered chan struct{}
	outcome  lockstore.LockOutcome
	err      error
	// said: the screen knows.
	said bool
}

// revoke begins one. Bubbletea would not wait for it, nor begin it for certain.
func (m *model) revoke() tea.Cmd {
	m.say(ui.Plain, "revoking "+m.target.Key+"…")
	r := &revocation{target: m.target, answered: make(chan struct{})}
	m.revoking, m.told = r, false
	reason := m.typed
	go func() {
		defer close(r.answered)
		r.outcome, r.err = m.feed.revoke(m.outer, r.target, reason)
	}()
	return func() tea.Msg {
		<-r.answered
		return revokedMsg{}
	}
}

// goOn takes away what was told, but for a revoke whose outcome nobody has seen yet.
func (m *model) goOn() {
	if m.revoking == nil || m.told {
		m.notice, m.revoking = "", nil
	}
}

// word is what became of it.
func (r *revocation) word() (ui.Tone, string) {
	o := r.outcome
	switch {
	case r.err != nil:
		return ui.Bad, r.err.Error()
	case o.Outcome == lockstore.Revoked:
		return ui.Good, "revoked " + o.Key + " from " + cmp.Or(o.Owner, unknown) + ", audit row " + itoa(o.AuditID) + "; its holder is not stopped by this"
	case o.Outcome == lockstore.TokenMoved:
		return ui.Warn, "nothing was revoked: " + o.Key + " has moved on to " + cmp.Or(o.Owner, unknown) + " with token " + o.Token.String()
	default:
		return ui.Warn, "nothing was revoked: nobody holds " + o.Key + " any more"
	}
}

// outlast waits for the answer to the revoke that the screen was left over, nil for
// none. A signal calls it off, as it does the verb.
func (r *revocation) outlast(ctx context.Context, say func(format string, args ...any)) {
	if r == nil {
		return
	}
	select {
	case <-r.answered:
	case <-ctx.Done():
	default:
		say("waiting for the answer to the revoke of %s; Ctrl-C gives up on it", r.target.Key)
	}
	<-r.answered
}

// end says what became of it, and returns what the verb ends in then.
func (r *revocation) end(a *app.App) error {
	if r == nil {
		return nil
	}
	_, word := r.word()
	_, isUnknown := errors.AsType[*lockstore.UnknownOutcomeError](r.err)
	switch {
	case isUnknown:
		failure := a.FailureOf(r.err, app.Unknown)
		failure.Hint = "it may have been done: then dlockctl audit list --key=" + app.Quoted(r.target.Key) + " has a row for it; dlockctl lock show tells who holds the lock"
		return failure
	case r.err != nil:
		return r.err
	case r.outcome.Outcome == lockstore.Revoked:
		a.Note("%s", word)
		return nil
	case r.outcome.Outcome == lockstore.TokenMoved:
		return &app.Failure{Exit: app.Refused, Code: "token_moved", Message: word, Hint: "look again with dlockctl lock show"}
	default:
		return &app.Failure{Exit: app.NotFound, Code: "not_held", Message: word}
	}
}

// revoke takes a lock away from the very grant that was shown, past the same
// guards as the verb, and within a deadline of its own.
func (s source) revoke(ctx context.Context, entry lockstore.Entry, reason string) (lockstore.LockOutcome, error) {
	if err := s.app.Protect(); err != nil {
		return lockstore.LockOutcome{}, err
	}
	operator, err := s.app.Operator()
	if err != nil {
		return lockstore.LockOutcome{}, err
	}
	if err := lockstore.ValidReason(reason); err != nil {
		return lockstore.LockOutcome{}, err
	}
	ctx, cancel := s.app.Look(ctx)
	defer cancel()
	// Another one beside it: the screen goes on reading through the first.
	store, err := s.app.AnotherStore(ctx, app.Changing)
	if err != nil {
		return lockstore.LockOutcome{}, fmt.Errorf("revoke lock %q: %w", entry.Key, app.Late(ctx, err))
	}
	defer store.Close()
	outcome, err := store.Revoke(ctx, lockstore.RevokeParams{Key: entry.Key, Token: entry.Token, LockIDHash: entry.LockIDHash, Operator: operator, Reason: reason})
	return outcome, app.Late(ctx, err)
}

package token

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/dlockctl/dlockctl/internal/cli/app"
	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/reconcile"
	"github.com/dlockctl/dlockctl/internal/ui"
)

// story is all that the two databases know of a token.
type story struct {
	app.Token
	// Known tells that at least one source knows the token.
	Known bool `json:"known"`
	// Key, Owner and Session are the grant's; absent where it is not known.
	Key     string `json:"key,omitempty"`
	Owner   string `json:"owner,omitempty"`
	Session string `json:"session_id,omitempty"`
	// Ended says how the grant ended, or "stands".
	Ended  string  `json:"ended,omitempty"`
	Events []event `json:"events"`
	// Unknown says what could not be told, and why.
	Unknown []string `json:"unknown"`
}

// event is one moment of the story.
type event struct {
	At    lockstore.Time `json:"at,omitzero"`
	Event string         `json:"event"`
	What  string         `json:"what"`
	// Source is the table that says so.
	Source string `json:"source"`
	// PayoutID is absent for what was done in lockdb, and to an account.
	PayoutID string `json:"payout_id,omitempty"`
}

const (
	eventGranted = "granted"
	eventHeld    = "held"
	eventLapsed  = "lapsed"
	eventRevoked = "revoked"
	eventFence   = "fence"
	stands       = "stands"
)

// explain asks every source. Without pay, what the token wrote in paydb is not told.
func explain(ctx context.Context, store lockstore.Store, pay *pgx.ConnConfig, token lockstore.Token) (story, error) {
	t := &teller{store: store, pay: pay, story: story{Token: app.NewToken(token), Events: []event{}, Unknown: []string{}}, token: token}
	if !store.Capabilities().GlobalTokens {
		t.unknown("which grant it is: this backend counts tokens for each key, so that every key has its own %s", token)
	}
	for _, step := range []func(context.Context) error{t.journal, t.entry, t.audit, t.operatorLog, t.money} {
		if err := step(ctx); err != nil {
			return story{}, err
		}
	}
	t.Known = len(t.Events) > 0
	slices.SortStableFunc(t.Events, func(a, b event) int { return a.At.Compare(b.At.Time) })
	return t.story, nil
}

type teller struct {
	story

	store   lockstore.Store
	pay     *pgx.ConnConfig
	token   lockstore.Token
	granted lockstore.GrantRecord
}

func (t *teller) tell(at lockstore.Time, name, source, format string, args ...any) {
	t.Events = append(t.Events, event{At: at, Event: name, What: fmt.Sprintf(format, args...), Source: source})
}

func (t *teller) unknown(format string, args ...any) {
	t.Unknown = append(t.Unknown, fmt.Sprintf(format, args...))
}

func (t *teller) is(key, owner string) {
	t.Key, t.Owner = key, owner
}

// journal asks who was granted the token, and how that ended (K-11).
func (t *teller) journal(ctx context.Context) error {
	record, err := t.store.GrantHistory(ctx, t.token)
	switch {
	case errors.Is(err, lockstore.ErrNotFound):
		t.unknown("who was granted it: the journal has no such token; it was never granted, drawn by a try that was refused, is a fence, or its partition was pruned")
		return nil
	case errors.Is(err, lockstore.ErrUnsupported):
		t.unknown("who was granted it: this backend keeps no journal")
		return nil
	case err != nil:
		return err
	}
	t.granted = record
	t.is(record.Key, record.Owner)
	t.Session = app.SessionText(record.Session, false)
	t.tell(record.GrantedAt, eventGranted, "lock_grant", "lock %q to %q under session %s", record.Key, record.Owner, record.Session.Masked())
	t.Ended = record.Ended
	if record.Ended == "" {
		t.Ended = stands
		return nil
	}
	if record.Ended != eventRevoked { // the audit row says more
		t.tell(record.EndedAt, record.Ended, "lock_grant", "the grant of lock %q ended", record.Key)
	}
	return nil
}

// entry looks whether the token is the one that stands on its key. Without the
// journal the key is not known, and every lock is looked at: where tokens are counted
// for each key, it may stand on many.
func (t *teller) entry(ctx context.Context) error {
	var entries []lockstore.Entry
	if t.Key != "" {
		entry, err := t.store.Show(ctx, t.Key)
		if err != nil && !errors.Is(err, lockstore.ErrNotFound) {
			return err
		}
		entries = []lockstore.Entry{entry}
	} else {
		var err error
		if entries, err = t.store.List(ctx, lockstore.Filter{}); err != nil {
			return err
		}
	}
	for _, e := range entries {
		if e.Token != t.token {
			continue
		}
		if t.store.Capabilities().GlobalTokens {
			t.is(e.Key, e.Owner)
			t.Session = app.SessionText(e.Session, false)
			t.Ended = stands
		}
		switch {
		case !t.store.Capabilities().Sessions:
			t.tell(e.AcquiredAt, eventGranted, "lock_entry", "lock %q", e.Key)
		case len(t.Events) == 0:
			t.tell(e.AcquiredAt, eventGranted, "lock_entry", "lock %q to %q under session %s", e.Key, e.Owner, e.Session.Masked())
		}
		name, left := eventHeld, ui.Left(e.Remaining)
		if e.Expired {
			name = eventLapsed
			if t.store.Capabilities().EndsUntimed {
				left = "and has lapsed since"
			}
		}
		if e.ExpiresAt.Infinite {
			left = "never expires"
		}
		t.tell(e.ExpiresAt, name, "lock_entry", "it stands on lock %q, %s", e.Key, left)
	}
	return nil
}

// audit looks for the revoke that ended the grant. SyncGuard's tables have an audit on
// request only: without one, what else is known is told all the same.
func (t *teller) audit(ctx context.Context) error {
	const page = 1000
	for after := int64(0); ; {
		rows, err := t.store.Revocations(ctx, lockstore.RevocationFilter{Key: t.granted.Key, After: &after, Limit: page})
		if none, ok := errors.AsType[*lockstore.UnsafeError](err); ok {
			t.unknown("whether an operator revoked it, or moved its counter: %s; %s makes one", none.Problem, none.Fix)
			return nil
		}
		if err != nil {
			return err
		}
		for _, r := range rows {
			if r.PrevToken != t.token {
				continue
			}
			if t.Key == "" && t.store.Capabilities().GlobalTokens {
				t.is(r.Key, r.PrevOwner)
				t.Ended = eventRevoked
			}
			from := ""
			if r.PrevOwner != "" {
				from = fmt.Sprintf(" from %q", r.PrevOwner)
			}
			t.tell(r.RevokedAt, eventRevoked, "lock_revocation", "lock %q was taken%s by %q: %s (audit row %d)", r.Key, from, r.Operator, r.Reason, r.ID)
		}
		if len(rows) < page {
			return nil
		}
		after = rows[len(rows)-1].ID
	}
}

// operatorLog looks for the records that drew the token, advanced to it, or
// fenced its grant out.
func (t *teller) operatorLog(ctx context.Context) error {
	records, err := t.store.OperatorLog(ctx, lockstore.OperatorLogFilter{})
	_, none := errors.AsType[*lockstore.UnsafeError](err) // audit has said so
	if none || errors.Is(err, lockstore.ErrUnsupported) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, r := range records {
		var details struct {
			Key      string          `json:"key"`
			Prev     lockstore.Token `json:"prev_token"`
			Accounts []string        `json:"accounts"`
		}
		// What another action put there need not have these fields.
		if err := json.NewDecoder(bytes.NewReader(r.Details)).Decode(&details); err != nil {
			details.Prev = 0
		}
		switch {
		case r.Token == t.token && r.Action == lockstore.ActionFenceAccount:
			t.tell(r.LoggedAt, eventFence, "operator_log", "drawn by %q as the fence against token %s of lock %q, for %d accounts: %s; it is nobody's grant (record %d)",
				r.Operator, details.Prev, details.Key, len(details.Accounts), r.Reason, r.ID)
		case r.Token == t.token:
			t.tell(r.LoggedAt, r.Action, "operator_log", "%q: %s (record %d)", r.Operator, r.Reason, r.ID)
		case r.Action == lockstore.ActionFenceAccount && details.Prev == t.token:
			t.tell(r.LoggedAt, eventFence, "operator_log", "fence %s was drawn against it by %q, for %d accounts (record %d); whether they are raised stands in paydb",
				r.Token, r.Operator, len(details.Accounts), r.ID)
		}
	}
	return nil
}

// money tells what the token did in paydb (K-8.2). That paydb does not answer keeps
// nobody from what lockdb has told.
func (t *teller) money(ctx context.Context) error {
	if t.pay == nil {
		t.unknown("what it wrote in paydb: paydb is not configured, and was not looked at")
		return nil
	}
	deeds, err := reconcile.StoryOf(ctx, t.pay, int64(t.token))
	if err != nil {
		if app.BySignal(ctx) {
			return app.Stopped(ctx)
		}
		t.unknown("what it wrote in paydb: %v", err)
		return nil
	}
	for _, m := range deeds.Events {
		t.Events = append(t.Events, event{
			At: lockstore.Time{Time: m.At}, Event: string(m.Kind), What: m.What, Source: m.Source, PayoutID: m.PayoutID,
		})
		if t.Owner == "" && m.Kind == reconcile.MomentClaimed {
			t.Owner = m.Holder
			t.unknown("whether it was granted to %q, who claimed with it in paydb", m.Holder)
		}
	}
	for _, table := range deeds.Cut {
		t.unknown("what it did before in %s: only the last hundred rows are told", table)
	}
	return nil
}

package lock

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/dlockctl/dlockctl/internal/cli/app"
	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/lockstore/postgres"
	"github.com/dlockctl/dlockctl/internal/ui"
)

type revokeOptions struct {
	key, reason, operator string
	token                 app.TokenFlag
	anyToken, yes, dryRun bool
}

func newRevokeCmd(a *app.App) *cobra.Command {
	var opts revokeOptions
	cmd := &cobra.Command{
		Use:   "revoke KEY --reason TEXT",
		Short: "Take a lock away from its holder, with an audit row",
		Long: "Show who holds the lock, ask, then delete that very grant and write an audit row, or do\n" +
			"neither. Without a terminal it needs --yes, and --token N (the grant you saw) or --any-token.\n\n" +
			"Exit 0 REVOKED, 3 NOT_HELD, 6 TOKEN_MOVED (a newer grant stands; look again), 4 blocked.\n\n" +
			"The holder is not stopped by this: its writes are refused from the moment a higher token\n" +
			"reaches the resource, and as long as its session lives it may acquire again.",
		Example: "  dlockctl revoke account:42 --reason 'holder hangs, ticket 7' --dry-run\n" +
			"  dlockctl revoke account:42 --reason 'holder hangs, ticket 7' --token 106 --yes",
		Args: app.Args("KEY"),
		RunE: a.Run(func(ctx context.Context, args []string) error {
			opts.key = args[0]
			return runRevoke(ctx, a, opts)
		}),
	}
	flags := cmd.Flags()
	flags.StringVar(&opts.reason, "reason", "", "why; the audit row keeps it (required)")
	flags.Var(&opts.token, "token", "revoke only this grant")
	flags.BoolVar(&opts.anyToken, "any-token", false, "revoke whichever grant stands")
	flags.String("operator", "", "who you are (default user@host)") // read through the configuration
	flags.BoolVarP(&opts.yes, "yes", "y", false, "do not ask")
	flags.BoolVar(&opts.dryRun, "dry-run", false, "show what would be revoked, change nothing")
	return cmd
}

// planView is what revoke is about to do: shown before the question, and
// printed by --dry-run.
type planView struct {
	Action   string `json:"action"`
	DryRun   bool   `json:"dry_run"`
	Operator string `json:"operator"`
	Reason   string `json:"reason"`
	entryView
}

// outcomeView is what revoke did.
type outcomeView struct {
	Outcome      lockstore.Outcome `json:"outcome"`
	Key          string            `json:"key"`
	AuditID      int64             `json:"audit_id,omitempty"`
	Owner        string            `json:"owner,omitempty"`
	Token        lockstore.Token   `json:"token,omitempty"`
	TokenStr     string            `json:"token_str,omitempty"`
	Presented    lockstore.Token   `json:"presented_token,omitempty"`
	PresentedStr string            `json:"presented_token_str,omitempty"`
	Operator     string            `json:"operator"`
	Reason       string            `json:"reason"`
}

func runRevoke(ctx context.Context, a *app.App, opts revokeOptions) (err error) {
	if opts.operator, err = a.Operator(); err != nil {
		return err
	}
	if err := errors.Join(lockstore.LookupKey(opts.key), lockstore.ValidReason(opts.reason)); err != nil {
		return err
	}
	if err := saidAloud(a, opts); err != nil {
		return err
	}
	purpose := postgres.Changing
	if opts.dryRun {
		purpose = postgres.Reading
	}
	store, err := a.LockStore(ctx, purpose)
	if err != nil {
		return err
	}
	entry, err := store.Show(ctx, opts.key)
	switch {
	case errors.Is(err, lockstore.ErrNotFound):
		return finish(a, opts, lockstore.LockOutcome{Outcome: lockstore.NotHeld, Key: opts.key, Presented: opts.token.Token})
	case err != nil:
		return err
	case opts.token.Token != 0 && opts.token.Token != entry.Token:
		return finish(a, opts, lockstore.LockOutcome{
			Outcome: lockstore.TokenMoved, Key: opts.key, Owner: entry.Owner, Token: entry.Token, Presented: opts.token.Token,
		})
	case opts.dryRun:
		return a.Print(ui.View{Data: planView{"revoke", true, opts.operator, opts.reason, viewEntry(entry, false)}, Columns: planColumns(), Name: "key"})
	}
	if !opts.yes {
		if err := ask(ctx, a, opts, entry); err != nil {
			return err
		}
	}
	outcome, err := revoke(ctx, store, opts, entry.Token)
	if err != nil {
		return err
	}
	return finish(a, opts, outcome)
}

// saidAloud refuses to revoke unseen: where no question shows the grant, the
// caller says which one is meant.
func saidAloud(a *app.App, opts revokeOptions) error {
	unseen := opts.yes || !a.Streams.Interactive()
	switch {
	case opts.token.Token != 0 && opts.anyToken:
		return app.UsageError("give one of them", "--token names one grant and --any-token none")
	case opts.dryRun:
		return nil
	case unseen && !opts.yes:
		return &app.Failure{
			Exit: app.Refused, Code: "not_confirmed", Message: "revoke needs a confirmation, and there is no terminal to ask on",
			Hint: "look with --dry-run, then say yes by flags: --yes --token N, or --yes --any-token",
		}
	case unseen && opts.token.Token == 0 && !opts.anyToken:
		return app.UsageError("--token N is the grant you saw (dlockctl lock show); --any-token is whichever stands",
			"--yes needs --token N or --any-token")
	}
	return nil
}

func ask(ctx context.Context, a *app.App, opts revokeOptions, entry lockstore.Entry) error {
	age, left := ui.Ago(entry.Age), ui.Left(entry.Remaining)
	if entry.ExpiresAt.Infinite {
		left = "never expires"
	}
	a.Note("lock %q is held by %q with token %s, acquired %s, %s", entry.Key, entry.Owner, entry.Token, age, left)
	a.Note("operator %q, reason %q", opts.operator, opts.reason)
	return a.Confirm(ctx, "Revoke it?", "--yes --token N, or --yes --any-token")
}

// anyTokenTries bounds how often --any-token follows a key that changes hands.
const anyTokenTries = 5

// revoke deletes the grant that was seen. With --any-token, which names no
// grant, it follows a newer one that took over meanwhile.
func revoke(ctx context.Context, store lockstore.Store, opts revokeOptions, token lockstore.Token) (lockstore.LockOutcome, error) {
	params := lockstore.RevokeParams{Key: opts.key, Token: token, Operator: opts.operator, Reason: opts.reason}
	for try := 1; ; try++ {
		outcome, err := store.Revoke(ctx, params)
		if err != nil || outcome.Outcome != lockstore.TokenMoved || !opts.anyToken || try == anyTokenTries {
			return outcome, err
		}
		params.Token = outcome.Token
	}
}

// finish prints the outcome, and makes all but REVOKED an error with its exit
// code.
func finish(a *app.App, opts revokeOptions, outcome lockstore.LockOutcome) error {
	view := outcomeView{
		Outcome: outcome.Outcome, Key: outcome.Key, AuditID: outcome.AuditID, Owner: outcome.Owner,
		Token: outcome.Token, Presented: outcome.Presented, Operator: opts.operator, Reason: opts.reason,
	}
	if outcome.Token != 0 {
		view.TokenStr = outcome.Token.String()
	}
	if outcome.Presented != 0 {
		view.PresentedStr = outcome.Presented.String()
	}
	if err := a.Print(ui.View{Data: view, Columns: outcomeColumns(), Name: "outcome"}); err != nil {
		return err
	}
	switch outcome.Outcome {
	case lockstore.Revoked:
		a.Note("note: the holder's writes are refused once a token above %s reaches the resource; while its session lives it may acquire again", outcome.Token)
		return nil
	case lockstore.NotHeld:
		return &app.Failure{Exit: app.NotFound, Code: "not_held", Message: fmt.Sprintf("nobody holds lock %q; nothing was changed", opts.key)}
	case lockstore.TokenMoved:
		return &app.Failure{
			Exit: app.Refused, Code: "token_moved",
			Message: fmt.Sprintf("lock %q is now held by %q with token %s, not %s; nothing was changed", opts.key, outcome.Owner, outcome.Token, outcome.Presented),
			Hint:    "look again: dlockctl lock show " + quoted(opts.key),
		}
	default:
		return fmt.Errorf("revoke lock %q: outcome %q is unknown to this program", opts.key, outcome.Outcome)
	}
}

func planColumns() []ui.Column {
	return append([]ui.Column{
		{Title: "WOULD", Field: "action", Tones: map[string]ui.Tone{"revoke": ui.Warn}},
	}, append(entryColumns()[:6],
		ui.Column{Title: "OPERATOR", Field: "operator"},
		ui.Column{Title: "REASON", Field: "reason"})...)
}

func outcomeColumns() []ui.Column {
	return []ui.Column{
		{Title: "OUTCOME", Field: "outcome", Tones: map[string]ui.Tone{
			string(lockstore.Revoked): ui.Good, string(lockstore.NotHeld): ui.Warn, string(lockstore.TokenMoved): ui.Warn,
		}},
		{Title: "KEY", Field: "key"},
		{Title: "OWNER", Field: "owner", Optional: true},
		{Title: "TOKEN", Field: "token", Kind: ui.Number, Optional: true},
		{Title: "PRESENTED", Field: "presented_token", Kind: ui.Number, Optional: true, Wide: true},
		{Title: "AUDIT", Field: "audit_id", Kind: ui.Number, Optional: true},
		{Title: "OPERATOR", Field: "operator"},
		{Title: "REASON", Field: "reason"},
	}
}

package lock

import (
	"context"
	"errors"
	"slices"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/dlockctl/dlockctl/internal/cli/app"
	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/ui"
)

type revokeOptions struct {
	key, reason, operator string
	token                 app.TokenFlag
	lockIDHash            string
	anyToken, yes, dryRun bool
	endSession            bool
	fenceAccounts         []string
	bulk                  bulkOptions
}

// named tells that the caller says which grant is meant.
func (o revokeOptions) named() bool { return o.token.Token != 0 || o.lockIDHash != "" }

// means tells that the entry is the grant that the caller named.
func (o revokeOptions) means(e lockstore.Entry) bool {
	return (o.token.Token == 0 || o.token.Token == e.Token) && (o.lockIDHash == "" || o.lockIDHash == e.LockIDHash)
}

func newRevokeCmd(a *app.App) *cobra.Command {
	var opts revokeOptions
	var cmd *cobra.Command
	cmd = &cobra.Command{
		Use:        "revoke [KEY] --reason TEXT",
		SuggestFor: []string{"steal", "break", "kill"},
		Short:      "Take locks away from their holders, with an audit row each",
		Long: "Show who holds the lock, ask, then delete that very grant and write an audit row, or do\n" +
			"neither. Without a terminal it needs --yes, and --token N (the grant you saw) or --any-token.\n" +
			"--lock-id-hash names the grant in SyncGuard's tables, also where its fence is no token.\n\n" +
			"Exit 0 REVOKED, 3 NOT_HELD, 6 TOKEN_MOVED (a newer grant stands; look again), 4 blocked,\n" +
			"10 revoked, and not every fence is raised.\n\n" +
			"The holder is not stopped by this: its writes are refused from the moment a higher token\n" +
			"reaches the resource, and as long as its session lives it may acquire again. --end-session ends\n" +
			"the session too, with all its locks. --fence-account draws a token above the holder's and raises\n" +
			"the account's fence and the rail's mark to it, so that the holder is refused at once; the mark\n" +
			"wants the login of payapp_rail (--rail-dsn-file). A rerun finishes what is pending.\n\n" +
			"In bulk, without KEY: --owner, --session and --prefix select together. All of them go in one\n" +
			"transaction or none; without a terminal it needs --yes and --expect-count N.",
		Example: "  dlockctl revoke account:42 --reason 'holder hangs, ticket 7' --dry-run\n" +
			"  dlockctl revoke account:42 --reason 'holder hangs, ticket 7' --token 106 --yes --end-session\n" +
			"  dlockctl revoke --prefix batch/ --owner worker-7 --reason 'drain worker-7' --expect-count 3 --yes",
		Args: app.OptionalArg(),
		RunE: a.Run(func(ctx context.Context, args []string) error {
			if len(args) > 0 {
				opts.key = args[0]
			}
			if cmd.Flags().Changed("lock-id-hash") && opts.lockIDHash == "" { // an unset variable names no grant
				return app.UsageError("give what dlockctl lock show KEY prints, or leave it out", "--lock-id-hash is empty")
			}
			return runRevoke(ctx, a, opts, len(args) > 0)
		}),
	}
	flags := cmd.Flags()
	flags.StringVar(&opts.reason, "reason", "", "why; the audit row keeps it (required)")
	flags.Var(&opts.token, "token", "revoke only this grant")
	flags.StringVar(&opts.lockIDHash, "lock-id-hash", "", "revoke only the grant of the lock id with this `HASH` (lock show)")
	flags.BoolVar(&opts.anyToken, "any-token", false, "revoke whichever grant stands")
	flags.BoolVar(&opts.endSession, "end-session", false, "end the holder's session too, with all its locks")
	flags.StringArrayVar(&opts.fenceAccounts, "fence-account", nil, "also raise the fence of this account_id of paydb above the holder (repeatable)")
	flags.String("operator", "", "who you are (default user@host)") // read through the configuration
	flags.BoolVarP(&opts.yes, "yes", "y", false, "do not ask")
	flags.BoolVar(&opts.dryRun, "dry-run", false, "show what would be revoked, change nothing")
	app.ConfirmFlag(flags)
	opts.bulk.flags(flags)
	return cmd
}

func runRevoke(ctx context.Context, a *app.App, opts revokeOptions, named bool) (err error) {
	if opts.operator, err = a.Operator(); err != nil {
		return err
	}
	if err := a.RequireReason(opts.reason); err != nil {
		return err
	}
	bulk := opts.bulk.narrowed()
	switch {
	case bulk && named:
		return app.UsageError("give KEY for one lock, or --owner, --session, --prefix for many", "KEY and a selection are given")
	case bulk:
		return runRevokeMany(ctx, a, opts)
	case !named:
		return app.UsageError("give KEY, or select with --owner, --session or --prefix", "dlockctl revoke needs KEY or a selection")
	case opts.bulk.expect >= 0:
		return app.UsageError("for one lock, --token or --lock-id-hash says which grant is meant", "--expect-count counts what --owner, --session and --prefix select")
	}
	return runRevokeOne(ctx, a, opts)
}

func runRevokeOne(ctx context.Context, a *app.App, opts revokeOptions) error {
	accounts, err := accountIDs(opts.fenceAccounts)
	if err != nil {
		return err
	}
	opts.fenceAccounts = accounts
	if err := errors.Join(lockstore.LookupKey(opts.key), saidAloud(a, opts)); err != nil {
		return err
	}
	store, err := openToRevoke(ctx, a, opts)
	if err != nil {
		return err
	}
	if err := able(store, opts); err != nil {
		return err
	}
	if err := knownAccounts(ctx, a, opts.fenceAccounts); err != nil {
		return err
	}
	entry, err := store.Show(ctx, opts.key)
	switch {
	case errors.Is(err, lockstore.ErrNotFound):
		return finish(ctx, a, opts, lockstore.LockOutcome{Outcome: lockstore.NotHeld, Key: opts.key, Presented: opts.token.Token, PresentedHash: opts.lockIDHash})
	case err != nil:
		return err
	case !opts.means(entry):
		return finish(ctx, a, opts, lockstore.LockOutcome{
			Outcome: lockstore.TokenMoved, Key: entry.Key, Owner: entry.Owner, Token: entry.Token, Presented: opts.token.Token,
			LockIDHash: entry.LockIDHash, PresentedHash: opts.lockIDHash,
		})
	}
	also, err := alsoRevoked(ctx, store, opts, entry)
	if err != nil {
		return err
	}
	if opts.dryRun {
		return printPlan(a, store, opts, entry, also)
	}
	if !opts.yes {
		if err := ask(ctx, a, opts, entry, also); err != nil {
			return err
		}
	}
	outcome, err := revoke(ctx, store, opts, entry)
	if err != nil {
		return err
	}
	return finish(ctx, a, opts, outcome)
}

// able refuses what the backend does not have, before anything is looked up.
func able(store lockstore.Store, opts revokeOptions) error {
	switch has := store.Capabilities(); {
	case opts.endSession && !has.Sessions:
		return app.Lacks(store, "sessions", "leave --end-session out: there is none to acquire again under")
	case len(opts.fenceAccounts) > 0 && !has.GlobalTokens:
		return app.Lacks(store, "tokens that an account can be fenced by", "leave --fence-account out: a token counts for its key alone")
	case opts.lockIDHash != "" && !has.LockIDs:
		return app.Lacks(store, "lock ids", "leave --lock-id-hash out: --token names the grant")
	case opts.lockIDHash != "":
		return lockstore.ValidLockIDHash(opts.lockIDHash)
	}
	return nil
}

// openToRevoke opens the store for reading when nothing will be changed, and
// asks for a protected profile's confirmation before anything else.
func openToRevoke(ctx context.Context, a *app.App, opts revokeOptions) (lockstore.Store, error) {
	if opts.dryRun {
		return a.LockStore(ctx, app.Reading)
	}
	if err := a.Protect(); err != nil {
		return nil, err
	}
	return a.LockStore(ctx, app.Changing)
}

// alsoRevoked lists what goes with the holder's session.
func alsoRevoked(ctx context.Context, store lockstore.Store, opts revokeOptions, entry lockstore.Entry) ([]lockstore.Entry, error) {
	switch {
	case !opts.endSession:
		return nil, nil
	case entry.Session == "": // without one, the filter below would be every lock
		return nil, app.UsageError("leave --end-session out", "which session lock %q stands under is not known, so that none can be ended", entry.Key)
	}
	all, err := store.List(ctx, lockstore.Filter{Session: entry.Session})
	return slices.DeleteFunc(all, func(e lockstore.Entry) bool { return e.Key == entry.Key }), err
}

// saidAloud refuses to revoke unseen: where no question shows the grant, the
// caller says which one is meant.
func saidAloud(a *app.App, opts revokeOptions) error {
	unseen := opts.yes || !a.Streams.Interactive()
	switch {
	case opts.token.Token != 0 && opts.anyToken:
		return app.UsageError("give one of them", "--token names one grant and --any-token none")
	case opts.lockIDHash != "" && opts.anyToken:
		return app.UsageError("give one of them", "--lock-id-hash names one grant and --any-token none")
	case opts.dryRun:
		return nil
	case unseen && !opts.yes:
		return &app.Failure{
			Exit: app.Refused, Code: "not_confirmed", Message: "revoke needs a confirmation, and there is no terminal to ask on",
			Hint: "look with --dry-run, then say yes by flags: --yes --token N, or --yes --any-token",
		}
	case unseen && !opts.named() && !opts.anyToken:
		return app.UsageError("--token N is the grant you saw (dlockctl lock show); --any-token is whichever stands; --lock-id-hash HASH is one that has no token",
			"--yes needs --token N or --any-token")
	}
	return nil
}

func ask(ctx context.Context, a *app.App, opts revokeOptions, entry lockstore.Entry, also []lockstore.Entry) error {
	describe(a, entry)
	if opts.endSession {
		a.Note("its session %s ends too, and these %d other locks with it:", entry.Session.Masked(), len(also))
		for _, e := range also {
			describe(a, e)
		}
	}
	for _, account := range opts.fenceAccounts {
		a.Note("account %s is fenced: every token up to now is refused there", account)
	}
	a.Note("operator %q, reason %q", opts.operator, opts.reason)
	return a.Confirm(ctx, "Revoke it?", "--yes --token N, or --yes --any-token")
}

// describe says what a revoke is about to break.
func describe(a *app.App, e lockstore.Entry) {
	if e.State == lockstore.Unreadable {
		a.Note("lock %q has a value that cannot be read, with token %s: who holds it is not known", e.Key, e.Token)
		return
	}
	age, left := ui.Ago(e.Age), ui.Left(e.Remaining)
	if e.ExpiresAt.Infinite {
		left = "never expires"
	}
	a.Note("lock %q is held by %s with %s, acquired %s, %s", e.Key, app.Holder(e.Owner), grantOf(e), age, left)
}

// anyTokenTries bounds how often --any-token follows a key that changes hands.
const anyTokenTries = 5

// revoke deletes the grant that was seen. With --any-token, which names no
// grant, it follows a newer one that took over meanwhile.
func revoke(ctx context.Context, store lockstore.Store, opts revokeOptions, seen lockstore.Entry) (lockstore.LockOutcome, error) {
	params := lockstore.RevokeParams{
		Key: opts.key, Token: seen.Token, LockIDHash: seen.LockIDHash, Operator: opts.operator, Reason: opts.reason,
		EndSession: opts.endSession, FenceAccounts: opts.fenceAccounts,
	}
	for try := 1; ; try++ {
		outcome, err := store.Revoke(ctx, params)
		if err != nil || outcome.Outcome != lockstore.TokenMoved || !opts.anyToken || try == anyTokenTries {
			return outcome, err
		}
		params.Token, params.LockIDHash = outcome.Token, outcome.LockIDHash
	}
}

// accountIDs refuses what is no account_id, before anything is looked up, and
// takes each once.
func accountIDs(given []string) ([]string, error) {
	var ids []string
	for _, text := range given {
		id, err := uuid.Parse(text)
		if err != nil || len(text) != len(id.String()) {
			return nil, app.UsageError("give an account_id of paydb, such as 00000000-0000-4000-8000-000000000001", "--fence-account %q is not a UUID", text)
		}
		if !slices.Contains(ids, id.String()) {
			ids = append(ids, id.String())
		}
	}
	return ids, nil
}

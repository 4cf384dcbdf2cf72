package drill

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/dlockctl/dlockctl/internal/cli/app"
	"github.com/dlockctl/dlockctl/internal/instance/owner"
	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/paystore"
	"github.com/dlockctl/dlockctl/internal/scenario"
)

// inPlaceFlags let a drill play on the profile's own databases.
type inPlaceFlags struct{ inPlace, yes bool }

// runInPlace plays on the profile's databases, once somebody has said that these
// are meant, and both are as every change wants them: on two instances, marked as
// the profile says, and granting.
func runInPlace(ctx context.Context, a *app.App, s story, flags inPlaceFlags) error {
	if err := a.Protect(); err != nil {
		return err
	}
	if err := a.CanAsk(flags.yes, "--yes"); err != nil {
		return err
	}
	if _, err := a.LockdbConfig(); err != nil {
		return err
	}
	if err := maySetRole(ctx, a); err != nil {
		return err
	}
	if _, err := a.LockStore(ctx, app.Granting); err != nil {
		return err
	}
	if err := ask(ctx, a, flags); err != nil {
		return err
	}
	cast := scenario.Cast{Open: func(ctx context.Context) (lockstore.Store, error) { return a.AnotherStore(ctx, app.Granting) }}
	for _, c := range []struct {
		name   string
		config func() (*pgx.ConnConfig, error)
		conn   **pgx.Conn
	}{{"lockdb", a.LockdbConfig, &cast.Lock}, {"paydb", a.PayConfig, &cast.Pay}, {"paydb", a.PayConfig, &cast.Owner}} {
		config, err := c.config()
		if err != nil {
			return err
		}
		conn, err := pgx.ConnectConfig(ctx, config)
		if err != nil {
			return &lockstore.UnreachableError{Doing: "connect to " + c.name, Err: err}
		}
		defer func() {
			ctx, cancel := app.CleanUp(ctx)
			defer cancel()
			_ = conn.Close(ctx) // nothing is under way on it
		}()
		*c.conn = conn
	}
	return run(ctx, a, s, s.inPlace, cast)
}

// maySetRole refuses a login that could not make the account, before anything is
// asked.
func maySetRole(ctx context.Context, a *app.App) error {
	keeper, err := a.Floors(ctx, paystore.Changing, false)
	if err != nil {
		return err
	}
	if keeper == nil {
		return app.UsageError("set DLOCKCTL_PAY_DSN / --pay-dsn-file, or leave --in-place out", "no paydb is configured")
	}
	defer func() {
		ctx, cancel := app.CleanUp(ctx)
		defer cancel()
		keeper.Close(ctx)
	}()
	missing, err := keeper.Rights(ctx)
	if err == nil && len(missing) > 0 {
		err = &owner.RightsError{Doing: "play the drill in paydb", Missing: missing}
	}
	return err
}

// ask shows what stays.
func ask(ctx context.Context, a *app.App, flags inPlaceFlags) error {
	if flags.yes {
		return nil
	}
	a.Note("lockdb:  two sessions and two grants of a key of its own, drill:account:…; ended within seconds")
	a.Note("stays:   the journal of these two grants, which is append-only")
	a.Note("paydb:   one transaction, rolled back: an account of currency XTS, a debit, a mark; nothing stays")
	a.Note("rail:    is not asked")
	return a.Confirm(ctx, "Play it on these databases?", "--yes")
}

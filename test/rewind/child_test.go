package rewind_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"

	"github.com/jackc/pgx/v5"

	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/lockstore/mark"
	"github.com/dlockctl/dlockctl/internal/lockstore/postgres"
	"github.com/dlockctl/dlockctl/internal/paystore"
	"github.com/dlockctl/dlockctl/internal/paystore/floor"
	"github.com/dlockctl/dlockctl/internal/restore"
)

// orderVariable makes the test binary an operator who fast-forwards: a process of its
// own.
const orderVariable = "DLOCKCTL_REWIND_TEST_ORDER"

// order is what the operator is told.
type order struct {
	LockDSN string `json:"lock_dsn"`
	PayDSN  string `json:"pay_dsn"`
	MarkDir string `json:"mark_dir"`
}

// word is what the operator says: the statement that the server has answered, behind
// which it waits to be told to go on; at last, how it ended.
type word struct {
	Statement string          `json:"statement,omitempty"`
	Outcome   restore.Outcome `json:"outcome,omitempty"`
	To        lockstore.Token `json:"to,omitempty"`
	Error     string          `json:"error,omitempty"`
}

// carryOut is the operator's process.
func carryOut(ctx context.Context, text string, in io.Reader, out io.Writer) int {
	encoder, goOn := json.NewEncoder(out), bufio.NewReader(in)
	fail := func(err error) int {
		_ = encoder.Encode(word{Error: err.Error()})
		return 1
	}
	after := func(_ context.Context, statement string) error {
		if err := encoder.Encode(word{Statement: statement}); err != nil {
			return err
		}
		_, err := goOn.ReadString('\n')
		return err
	}
	var o order
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		return fail(err)
	}
	stores, err := o.open(ctx, after)
	if err != nil {
		return fail(err)
	}
	opts := options()
	opts.After = after
	result, err := restore.FastForward(ctx, stores, opts)
	if err != nil {
		return fail(err)
	}
	_ = encoder.Encode(word{Outcome: result.Outcome, To: result.To})
	return 0
}

// open leaves closing to the end of the process.
func (o order) open(ctx context.Context, after func(context.Context, string) error) (restore.Stores, error) {
	lockConfig, err := pgx.ParseConfig(o.LockDSN)
	if err != nil {
		return restore.Stores{}, err
	}
	payConfig, err := pgx.ParseConfig(o.PayDSN)
	if err != nil {
		return restore.Stores{}, err
	}
	lock, err := postgres.OpenRewinder(ctx, postgres.RewindOptions{
		Options: postgres.Options{Config: lockConfig, Purpose: postgres.Changing}, After: after,
	})
	if err != nil {
		return restore.Stores{}, err
	}
	pay, err := floor.Open(ctx, floor.Options{Options: paystore.Options{Config: payConfig, Purpose: paystore.Changing}, After: after})
	if err != nil {
		return restore.Stores{}, err
	}
	deployment, err := lock.Deployment(ctx)
	if err != nil {
		return restore.Stores{}, err
	}
	outside, err := mark.Open(o.MarkDir, deployment.ID)
	return restore.Stores{Lock: lock, Pay: pay, Mark: outside}, errors.Join(err)
}

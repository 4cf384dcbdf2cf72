package app

import (
	"bytes"
	"context"
	"strings"

	"github.com/jackc/pgx/v5"
)

// Program runs a command line on an app.
type Program func(ctx context.Context, a *App, args []string) Exit

// Running tells the app which program it is part of, so that a verb can run
// others.
func (a *App) Running(program Program) { a.program = program }

// Again runs another command of this program on the same databases, without a
// terminal, and returns what it left.
func (a *App) Again(ctx context.Context, args ...string) (exit Exit, out, errOut string) {
	var stdout, stderr bytes.Buffer
	streams := *a.Streams
	streams.In, streams.Out, streams.Err = strings.NewReader(""), &stdout, &stderr
	streams.InTTY, streams.OutTTY, streams.ErrTTY, streams.Width = false, false, false, 0
	args = append(args, a.Connection()...)
	if timeout, given := a.flag("timeout"); given {
		args = append(args, "--timeout", timeout)
	}
	other := New(&streams, args).WithStore(a.open)
	exit = a.program(ctx, other, args)
	return exit, stdout.String(), stderr.String()
}

// Secrets are the secret values that this run knows, for whoever takes them out
// of a text that leaves the machine.
func (a *App) Secrets() []string {
	cfg, err := a.Config()
	if err != nil {
		return nil
	}
	password, err := cfg.Etcd.Password()
	if err != nil {
		password = "" // nobody could have shown it
	}
	secrets := []string{password, cfg.Lock.DSN.Reveal(), cfg.Pay.DSN.Reveal(), cfg.Rail.DSN.Reveal(), cfg.Session.Reveal()}
	for _, address := range []func() (*pgx.ConnConfig, error){a.LockConfig, a.PayConfig, a.RailConfig} {
		if conn, err := address(); err == nil {
			secrets = append(secrets, conn.Password)
		}
	}
	return secrets
}

// Command auditor runs reconcile once and writes its report to standard output. It
// is a process of its own because its memory and its processor time are measured.
//
//	auditor [RULE…]
//
// PAY_DSN and LOCK_DSN say where.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/dlockctl/dlockctl/internal/reconcile"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "auditor:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, rules []string) error {
	pay, err := pgx.ParseConfig(os.Getenv("PAY_DSN"))
	if err != nil {
		return fmt.Errorf("read PAY_DSN: %w", err)
	}
	lock, err := pgx.ParseConfig(os.Getenv("LOCK_DSN"))
	if err != nil {
		return fmt.Errorf("read LOCK_DSN: %w", err)
	}
	report, err := reconcile.Run(ctx, reconcile.Options{Pay: pay, Lock: lock, Scope: reconcile.Scope{Rules: rules}, MaxDuration: time.Hour})
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(report)
}

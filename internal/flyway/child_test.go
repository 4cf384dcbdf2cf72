package flyway_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/dlockctl/dlockctl/internal/flyway"
)

// childVariable makes the test binary a migrator: a process of its own, to be killed
// or to race others.
const childVariable = "DLOCKCTL_FLYWAY_TEST_CHILD"

// order is what a child is told to do.
type order struct {
	DSN   string   `json:"dsn"`
	Files []string `json:"files"` // name, text, name, text …
}

func child() int {
	var o order
	if err := json.Unmarshal([]byte(os.Getenv(childVariable)), &o); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	ctx := context.Background()
	c, err := flyway.Load(folder(o.Files...))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	config, err := pgx.ParseConfig(o.DSN)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	m, err := flyway.Open(ctx, config, c, flyway.Options{Owner: "dlock_owner", LockTimeout: time.Minute})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	result, err := m.Up(ctx)
	for _, a := range result.Applied {
		fmt.Println(a.Script)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// process is a running child and what it prints.
type process struct {
	*exec.Cmd
	out, err strings.Builder
}

func start(t *testing.T, dsn string, files ...string) *process {
	t.Helper()
	orders, err := json.Marshal(order{DSN: dsn, Files: files})
	if err != nil {
		t.Fatal(err)
	}
	p := &process{Cmd: exec.CommandContext(t.Context(), os.Args[0])}
	p.Env = append(os.Environ(), childVariable+"="+string(orders))
	p.Stdout, p.Stderr = &p.out, &p.err
	if err := p.Start(); err != nil {
		t.Fatalf("start child: %v", err)
	}
	return p
}

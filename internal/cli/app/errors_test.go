package app_test

import (
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/dlockctl/dlockctl/internal/cli/app"
	"github.com/dlockctl/dlockctl/internal/config"
	"github.com/dlockctl/dlockctl/internal/devenv"
	"github.com/dlockctl/dlockctl/internal/devenv/cluster"
	"github.com/dlockctl/dlockctl/internal/flyway"
	"github.com/dlockctl/dlockctl/internal/instance"
	"github.com/dlockctl/dlockctl/internal/instance/owner"
	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/lockstore/mark"
	"github.com/dlockctl/dlockctl/internal/paystore"
	"github.com/dlockctl/dlockctl/internal/paystore/floor"
	"github.com/dlockctl/dlockctl/internal/restore"
	"github.com/dlockctl/dlockctl/internal/service/payapi"
	"github.com/dlockctl/dlockctl/internal/service/paydb"
	"github.com/dlockctl/dlockctl/internal/service/problem"
	"github.com/dlockctl/dlockctl/internal/ui"
)

type sample struct {
	name string
	err  error
	exit app.Exit
	code string
}

// samples has at least one error for every row of the table.
func samples() []sample {
	return []sample{
		{"ErrArgument", fmt.Errorf("%w: baseline version", flyway.ErrArgument), app.Usage, "invalid_argument"},
		{"SetupError", &devenv.SetupError{Err: errors.New("find the state folder")}, app.Usage, "usage"},
		{"NotMadeError", &devenv.NotMadeError{Dir: "/"}, app.Refused, "not_made_by_dev"},
		{"NotUpError", fmt.Errorf("seed: %w", &devenv.NotUpError{Name: "lockdb", Dir: "/d"}), app.Usage, "no_database"},
		{"ErrLockLost", lockstore.ErrLockLost, app.Lost, "lock_lost"},
		{"ErrSessionLost", lockstore.ErrSessionLost, app.Lost, "session_lost"},
		{"ErrNotFound", lockstore.ErrNotFound, app.NotFound, "not_found"},
		{"ErrNotPrimary", lockstore.ErrNotPrimary, app.Refused, "not_primary"},
		{"ErrSameInstance", lockstore.ErrSameInstance, app.Refused, "same_instance"},
		{"ErrInvalid", lockstore.ErrInvalid, app.Usage, "invalid_argument"},
		{"HeldError", &lockstore.HeldError{Key: "k", Owner: "o", Token: 7, Remaining: time.Second}, app.Held, "held"},
		{"HeldError", errors.Join(&lockstore.HeldError{Key: "k"}, lockstore.ErrNotFound), app.Held, "held"},
		{"WaitTimeoutError", &lockstore.WaitTimeoutError{Key: "k", Waited: time.Second, Last: &lockstore.HeldError{Key: "k"}}, app.Held, "wait_timeout"},
		{"CountMovedError", &lockstore.CountMovedError{Expected: 1, Found: 2}, app.Refused, "count_moved"},
		{"ErrUnsupported", fmt.Errorf("reap: %w", lockstore.ErrUnsupported), app.Usage, "unsupported"},
		{"BlockedError", &lockstore.BlockedError{Key: "k", PIDs: []int32{1}}, app.Held, "blocked"},
		{"GrantsClosedError", &lockstore.GrantsClosedError{Reason: "frozen", Hint: "thaw"}, app.Refused, "grants_closed"},
		{"UnknownOutcomeError", &lockstore.UnknownOutcomeError{Doing: "renew", Err: context.DeadlineExceeded}, app.Unknown, "outcome_unknown"},
		{"UnreachableError", &lockstore.UnreachableError{Doing: "connect", Err: errors.New("refused")}, app.Unreachable, "unreachable"},
		{"UnsafeError", &lockstore.UnsafeError{Clause: "K-1.1", Problem: "no trigger", Fix: "enable it"}, app.Refused, "unsafe_database"},
		{"SchemaError", &lockstore.SchemaError{Have: 1, Min: 2, Max: 3}, app.Refused, "schema_version"},
		{"SchemaError", &lockstore.SchemaError{Have: 4, Min: 2, Max: 3}, app.Refused, "schema_version"},
		{"SchemaError", &lockstore.SchemaError{IsPaydb: true, Min: 2, Max: 3}, app.Refused, "wrong_database"},
		{"UnknownOutcomeError", &paystore.UnknownOutcomeError{Doing: "post payout", Err: errors.New("cut")}, app.Unknown, "outcome_unknown"},
		{"FencedError", &paystore.FencedError{Resource: paystore.ResourceAccount, Presented: 7, Stored: 9}, app.Lost, "fenced_out"},
		{"RejectedError", &paystore.RejectedError{Reason: paystore.ReasonInsufficientFunds}, app.Refused, "rejected"},
		{"StateError", &paystore.StateError{Have: paystore.Posted, Want: []paystore.State{paystore.Claimed}}, app.Refused, "wrong_state"},
		{"EvidenceError", &paystore.EvidenceError{Message: "in flight", Hint: "wait"}, app.Refused, "evidence"},
		{"ConflictError", &paystore.ConflictError{IdempotencyKey: "k", Field: "amount", Have: "1", Given: "2"}, app.Refused, "idempotency_conflict"},
		{"ClaimedError", &paystore.ClaimedError{By: "w", Token: 7}, app.Held, "claimed"},
		{"GateClosedError", &paystore.GateClosedError{Message: "restored", Hint: "plan"}, app.Refused, "pay_gate_closed"},
		{"BlockedError", &paystore.BlockedError{PIDs: []int32{1}}, app.Held, "blocked"},
		{"ErrOverflow", paystore.ErrOverflow, app.Refused, "overflow"},
		{"ErrNotClearable", paystore.ErrNotClearable, app.Refused, "not_clearable"},
		{"ErrNotPrimary", paystore.ErrNotPrimary, app.Refused, "not_primary"},
		{"ErrSameInstance", paystore.ErrSameInstance, app.Refused, "same_instance"},
		{"UnsafeError", &paystore.UnsafeError{Clause: "K-4.10", Problem: "no trigger", Fix: "enable it"}, app.Refused, "unsafe_database"},
		{"SchemaError", &paystore.SchemaError{Have: 1, Min: 2, Max: 3}, app.Refused, "schema_version"},
		{"SchemaError", &paystore.SchemaError{IsLockdb: true, Min: 2, Max: 3}, app.Refused, "wrong_database"},
		{"ErrNotFound", paystore.ErrNotFound, app.NotFound, "not_found"},
		{"ErrInvalid", paystore.ErrInvalid, app.Usage, "invalid_argument"},
		{"UnreachableError", &paystore.UnreachableError{Doing: "connect", Err: errors.New("refused")}, app.Unreachable, "unreachable"},
		{"CutOffError", &restore.CutOffError{Step: restore.StepAdvance, Err: &app.SignalError{Signal: syscall.SIGINT}}, app.Unknown, "cut_off"},
		{"UnknownOutcomeError", &owner.UnknownOutcomeError{Doing: "freeze", Err: errors.New("cut")}, app.Unknown, "outcome_unknown"},
		{"StalePlanError", &restore.StalePlanError{Moved: []string{"the target"}}, app.Refused, "stale_plan"},
		{"PlanFileError", &restore.PlanFileError{Problem: "edited"}, app.Usage, "plan_file"},
		{"ThawRefusedError", &restore.ThawRefusedError{Why: "restored", Command: "dlockctl restore plan"}, app.Refused, "thaw_refused"},
		{"TakenOverError", &restore.TakenOverError{Step: restore.StepVerify}, app.Refused, "gate_moved"},
		{"GateMovedError", &lockstore.GateMovedError{}, app.Refused, "gate_moved"},
		{"ErrLockdbFirst", restore.ErrLockdbFirst, app.Refused, "lockdb_first"},
		{"ErrNoPaydb", errors.Join(restore.ErrNoPaydb, errors.New("refused")), app.Refused, "no_paydb"},
		{"UnresolvedError", &floor.UnresolvedError{Payouts: 2}, app.Refused, "unresolved_payouts"},
		{"RoleError", &paydb.RoleError{Login: "l", Role: paydb.Rail, Problem: "it lacks the rights of that role"}, app.Refused, "wrong_login"},
		{"RailError", &payapi.RailError{}, app.Unreachable, "rail_unreachable"},
		{"Problem", problem.New(401, problem.Unauthenticated, "no key"), app.Refused, "unauthenticated"},
		{"Problem", problem.New(403, problem.Forbidden, "no scope"), app.Refused, "forbidden"},
		{"Problem", problem.New(503, problem.FloorUnknown, "not told yet"), app.Refused, "floor_unknown"},
		{"Problem", problem.New(429, problem.RateLimited, "too often"), app.Unreachable, "rate_limited"},
		{"Problem", problem.New(503, problem.Draining, "stopping"), app.Unreachable, "draining"},
		{"Problem", problem.New(408, problem.TooSlow, "slow"), app.Unreachable, "too_slow"},
		{"Problem", problem.New(413, problem.TooLarge, "large"), app.Usage, "too_large"},
		{"Problem", problem.New(415, problem.MediaType, "no JSON"), app.Unexpected, "media_type"},
		{"Problem", problem.New(422, problem.Usage, "validation failed"), app.Usage, "usage"},
		{"Problem", problem.New(500, problem.Unexpected, "oops"), app.Unexpected, "unexpected"},
		{"ErrMissing", mark.ErrMissing, app.Refused, "mark_missing"},
		{"DamagedError", &mark.DamagedError{Path: "/m", Problem: "edited"}, app.Refused, "mark_damaged"},
		{"BlockedError", &owner.BlockedError{Doing: "advance", Blockers: []owner.Process{{PID: 7}}}, app.Held, "blocked"},
		{"RightsError", &owner.RightsError{Doing: "freeze", Login: "l", Missing: []string{"GRANT x TO l"}}, app.Refused, "permission_denied"},
		{"UnreachableError", &owner.UnreachableError{Doing: "connect", Err: errors.New("refused")}, app.Unreachable, "unreachable"},
		{"HistoryError", &flyway.HistoryError{Table: "t", Findings: []flyway.Finding{{Message: "edited", Hint: "put it back"}}}, app.History, "history"},
		{"LockError", &flyway.LockError{Err: context.DeadlineExceeded}, app.Held, "migration_locked"},
		{"MigrationError", &flyway.MigrationError{Script: "V1__x.sql", Err: &pgconn.PgError{Code: "42601"}}, app.Unexpected, "migration_failed"},
		{"MigrationError", &flyway.MigrationError{Script: "V1__x.sql", Dirty: true, Err: errors.New("x")}, app.History, "migration_dirty"},
		{"PoolerError", &flyway.PoolerError{First: 1, Second: 2}, app.Refused, "pooler"},
		{"FileError", &flyway.FileError{File: "V1.sql", Reason: "bad name"}, app.Usage, "migration_file"},
		{"ErrStandby", flyway.ErrStandby, app.Refused, "not_primary"},
		{"UnknownOutcomeError", &flyway.UnknownOutcomeError{Script: "V1__x.sql", Err: errors.New("cut")}, app.Unknown, "outcome_unknown"},
		{"VersionError", &instance.VersionError{Version: "14.1"}, app.Refused, "server_too_old"},
		{"EnvironmentError", &instance.EnvironmentError{Database: "lockdb", Marked: "prod", Configured: "test"}, app.Refused, "wrong_environment"},
		{"ErrNoProfile", config.ErrNoProfile, app.Usage, "no_profile"},
		{"ErrPortTaken", cluster.ErrPortTaken, app.Refused, "port_taken"},
		{"ErrDiskFull", cluster.ErrDiskFull, app.Unexpected, "disk_full"},
		{"DeadlineError", &app.DeadlineError{After: time.Second}, app.Unreachable, "deadline"},
		{"SignalError", &app.SignalError{Signal: syscall.SIGINT}, app.Interrupted, "interrupted"},
		{"SignalError", &app.SignalError{Signal: syscall.SIGTERM}, app.Terminated, "terminated"},
		{"ConnectError", &pgconn.ConnectError{Config: &pgconn.Config{}}, app.Unreachable, "unreachable"},
		{"EtcdError", rpctypes.ErrPermissionDenied, app.Refused, "permission_denied"},
		{"EtcdError", rpctypes.ErrNoSpace, app.Unexpected, "etcd"},
		{"PgError", &pgconn.PgError{Code: "42501"}, app.Refused, "permission_denied"},
		{"PgError", &pgconn.PgError{Code: "XX000"}, app.Unexpected, "database"},
	}
}

// Mutation: take any row out of the table, or swap an exit code.
func TestErrorTable(t *testing.T) {
	t.Parallel()
	for _, s := range samples() {
		got := app.Explain(fmt.Errorf("do something: %w", s.err))
		if got.Exit != s.exit || got.Code != s.code {
			t.Errorf("%s %v: exit %d code %q, want %d %q", s.name, s.err, got.Exit, got.Code, s.exit, s.code)
		}
		if !slices.Contains(app.RuleNames(), s.name) {
			t.Errorf("%s has no row of its own", s.name)
		}
	}
	for _, name := range app.RuleNames() {
		if !slices.ContainsFunc(samples(), func(s sample) bool { return s.name == name }) {
			t.Errorf("row %s has no sample", name)
		}
	}
	if got := app.Explain(errors.New("never heard of")); got.Exit != app.Unexpected || got.Code != "unexpected" {
		t.Errorf("unknown error: %+v", got)
	}
}

// Every error that the stores export has a row. The list is read from their
// source, so a new one without a row fails here.
//
// Mutation: take any row out of lockRules.
func TestEveryExportedErrorHasARow(t *testing.T) {
	t.Parallel()
	rows := app.RuleNames()
	for _, dir := range []string{
		"../../lockstore", "../../paystore", "../../flyway", "../../config", "../../devenv", "../../devenv/cluster", "../../instance",
		"../../restore", "../../instance/owner", "../../lockstore/mark", "../../paystore/floor", "../../service/paydb", "../../service/payapi",
	} {
		names := exportedErrors(t, dir)
		if dir == "../../lockstore" && len(names) < 12 {
			t.Errorf("only %v found in %s: the search is broken", names, dir)
		}
		for _, name := range names {
			if !slices.Contains(rows, name) {
				t.Errorf("%s of %s has no row in the error table", name, dir)
			}
		}
	}
}

// exportedErrors lists the sentinels Err… and the types …Error of a package.
func exportedErrors(t *testing.T, dir string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no source in %s: %v", dir, err)
	}
	var names []string
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, decl := range parsed.Decls {
			if gen, ok := decl.(*ast.GenDecl); ok {
				names = append(names, errorNames(gen)...)
			}
		}
	}
	return names
}

func errorNames(gen *ast.GenDecl) []string {
	var names []string
	for _, spec := range gen.Specs {
		switch s := spec.(type) {
		case *ast.ValueSpec:
			for _, n := range s.Names {
				if gen.Tok == token.VAR && n.IsExported() && strings.HasPrefix(n.Name, "Err") {
					names = append(names, n.Name)
				}
			}
		case *ast.TypeSpec:
			if s.Name.IsExported() && strings.HasSuffix(s.Name.Name, "Error") {
				names = append(names, s.Name.Name)
			}
		}
	}
	return names
}

// dev up helps where the embedded databases are in use, and nowhere else.
//
// Mutation: return one of the two hints for both, or pass a constant in Report.
func TestUnreachableHint(t *testing.T) {
	t.Parallel()
	for want, env := range map[string]map[string]string{
		"hint: are the embedded databases up? dlockctl dev up starts them\n":  nil,
		"hint: is the server up, and are address, user and password right?\n": {"DLOCKCTL_LOCK_DSN": "host=/nowhere user=u"},
	} {
		for _, err := range []error{&lockstore.UnreachableError{Doing: "connect", Err: errors.New("refused")}, &pgconn.ConnectError{Config: &pgconn.Config{}}} {
			streams, _, errOut := ui.Test("", env)
			exit := app.New(streams, nil).Report(fmt.Errorf("open lockdb: %w", err))
			if exit != app.Unreachable || !strings.HasSuffix(errOut.String(), want) {
				t.Errorf("%T with %v: exit %d, %q", err, env, exit, errOut)
			}
		}
	}
}

// What a signal cut off half-way keeps its own exit: that it may have been done
// matters more than who stopped it.
//
// Mutation: take a case out of stopped.
func TestSignalKeepsWhatIsUnsettled(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(&app.SignalError{Signal: syscall.SIGINT})
	for _, c := range []struct {
		err  error
		exit app.Exit
		code string
	}{
		{&lockstore.UnknownOutcomeError{Doing: "renew", Err: context.Canceled}, app.Unknown, "outcome_unknown"},
		{&flyway.UnknownOutcomeError{Script: "V1__x.sql", Err: context.Canceled}, app.Unknown, "outcome_unknown"},
		{&flyway.MigrationError{Script: "V1__x.sql", Dirty: true, Err: context.Canceled}, app.History, "migration_dirty"},
		{&flyway.MigrationError{Script: "V1__x.sql", Err: context.Canceled}, app.Interrupted, "interrupted"},
		{&restore.CutOffError{Step: restore.StepBarrier, Err: context.Canceled}, app.Unknown, "cut_off"},
		{&owner.UnknownOutcomeError{Doing: "freeze", Err: context.Canceled}, app.Unknown, "outcome_unknown"},
		{&owner.UnreachableError{Doing: "connect", Err: context.Canceled}, app.Interrupted, "interrupted"},
		{&lockstore.UnreachableError{Doing: "connect", Err: context.Canceled}, app.Interrupted, "interrupted"},
	} {
		got := app.Explain(app.Late(ctx, fmt.Errorf("migrate lockdb: %w", c.err)))
		if got.Exit != c.exit || got.Code != c.code || !strings.HasPrefix(got.Message, "interrupted: ") {
			t.Errorf("%#v: exit %d, code %q, %q; want %d %q", c.err, got.Exit, got.Code, got.Message, c.exit, c.code)
		}
	}
}

// An error is one line, however many its causes wrote.
func TestErrorIsOneLine(t *testing.T) {
	t.Parallel()
	err := errors.Join(errors.New("connect to `user=u`:\n\th1: refused\n\th2: refused"), errors.New("and more"))
	if got, want := app.Explain(err).Message, "connect to `user=u`: h1: refused; h2: refused; and more"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// docs/exit-codes.md is the table of the code, and nothing else.
//
// Mutation: change a meaning in Exit.Meaning, or a code string of a rule.
func TestExitCodesDocument(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../../docs/exit-codes.md")
	if err != nil {
		t.Fatal(err)
	}
	doc := string(text)
	for _, e := range app.Exits() {
		if row := fmt.Sprintf("| %d | %s |", e, e.Meaning()); !strings.Contains(doc, row) {
			t.Errorf("docs/exit-codes.md has no row %q", row)
		}
	}
	for code, exits := range app.RuleCodes() {
		for _, exit := range exits {
			if row := fmt.Sprintf("| `%s` | %d |", code, exit); !strings.Contains(doc, row) {
				t.Errorf("docs/exit-codes.md has no row that begins %q", row)
			}
		}
	}
}

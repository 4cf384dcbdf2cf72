package lockapi

import (
	"encoding/json"
	"errors"
	"time"

	"github.com/dlockctl/dlockctl/internal/instance"
	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/service/problem"
)

// Error turns a problem back into the store's own error, so that a client acts,
// and exits, as if it had asked the database itself. A problem that is not the
// store's, such as a credential refused, is returned as it is.
func Error(p *problem.Problem) error {
	err := typed(p)
	if err == nil {
		return p
	}
	if err.Error() == p.Detail || p.Detail == "" {
		return err
	}
	return &told{p.Detail, err}
}

// told is an error in the server's words.
type told struct {
	text string
	err  error
}

func (t *told) Error() string { return t.text }

func (t *told) Unwrap() error { return t.err }

func typed(p *problem.Problem) error {
	switch p.Code {
	case problem.OutcomeUnknown:
		d := details[doingDetails](p)
		return &lockstore.UnknownOutcomeError{Doing: d.Doing, Err: cause(d, p)}
	case problem.Unreachable:
		d := details[doingDetails](p)
		return &lockstore.UnreachableError{Doing: d.Doing, Err: cause(d, p)}
	case problem.Draining:
		return &lockstore.UnreachableError{Doing: "ask lock-server", Err: errors.New(p.Error())}
	case problem.Contended:
		return heldError(p)
	case problem.Blocked:
		d := details[blockedDetails](p)
		return &lockstore.BlockedError{Key: d.Key, PIDs: d.PIDs}
	case problem.WaitTimeout:
		return waitError(p)
	case problem.CountMoved:
		d := details[countDetails](p)
		return &lockstore.CountMovedError{Expected: d.Expected, Found: d.Found}
	}
	if err := typedRefusal(p); err != nil {
		return err
	}
	for _, s := range sentinels {
		if s.code == p.Code {
			return s.err
		}
	}
	return nil
}

func typedRefusal(p *problem.Problem) error {
	switch p.Code {
	case problem.GrantsClosed:
		return &lockstore.GrantsClosedError{Reason: details[reasonDetails](p).Reason, Hint: p.Hint}
	case problem.FloorUnknown:
		return &lockstore.GrantsClosedError{Reason: p.Error(), Hint: p.Hint}
	case problem.UnsafeDatabase:
		d := details[unsafeDetails](p)
		return &lockstore.UnsafeError{Clause: d.Clause, Problem: d.Problem, Fix: p.Hint}
	case problem.SchemaVersion, problem.WrongDatabase:
		if len(p.Details) == 0 || string(p.Details) == "null" {
			return nil // the history itself is at fault: the server's words say all
		}
		d := details[schemaDetails](p)
		return &lockstore.SchemaError{Have: d.Have, IsPaydb: d.IsPaydb, Min: d.Min, Max: d.Max}
	case problem.WrongEnvironment:
		d := details[environmentDetails](p)
		return &instance.EnvironmentError{Database: d.Database, Marked: d.Marked, Configured: d.Configured}
	case problem.ServerTooOld:
		return &instance.VersionError{Version: details[versionDetails](p).Version}
	}
	return nil
}

func heldError(p *problem.Problem) error {
	d := details[heldDetails](p)
	// A time that cannot be read is not worth hiding who holds it.
	expires, _ := d.ExpiresAt.Value()
	return &lockstore.HeldError{Key: d.Key, Owner: d.Owner, Token: d.Token, ExpiresAt: expires, Remaining: time.Duration(d.RemainingMS) * time.Millisecond}
}

func waitError(p *problem.Problem) error {
	d := details[waitDetails](p)
	err := &lockstore.WaitTimeoutError{Key: d.Key, Waited: time.Duration(d.WaitedMS) * time.Millisecond}
	if d.Last != nil {
		err.Last = Error(d.Last.Problem())
	}
	return err
}

// details reads what a problem is about; what cannot be read stays empty, for
// the code decides.
func details[T any](p *problem.Problem) T {
	var d T
	_ = json.Unmarshal(p.Details, &d)
	return d
}

func cause(d doingDetails, p *problem.Problem) error {
	if d.Cause == "" {
		return errors.New(p.Error())
	}
	return errors.New(d.Cause)
}

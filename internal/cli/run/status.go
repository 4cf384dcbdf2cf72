package run

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/dlockctl/dlockctl/internal/cli/app"
	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/runner"
)

// statusFile says in JSON what the exit code and stderr say, for whoever cannot
// tell the exit code from the command's own. It is written anew, whole, each time
// something has changed: one that still says running was left by a wrapper that
// was killed.
type statusFile struct {
	path       string
	key, owner string
	ttl        time.Duration
}

// statusView is what stands in it.
type statusView struct {
	Outcome  runner.Outcome `json:"outcome"`
	ExitCode *int           `json:"exit_code,omitempty"` // absent while it goes on
	Message  string         `json:"message,omitempty"`
	Key      string         `json:"key"`
	Owner    string         `json:"owner"`
	*app.Token
	TTLMS     int64          `json:"ttl_ms"`
	BegunAt   lockstore.Time `json:"begun_at,omitzero"`
	GrantedAt lockstore.Time `json:"granted_at,omitzero"`
	StartedAt lockstore.Time `json:"started_at,omitzero"`
	EndedAt   lockstore.Time `json:"ended_at,omitzero"`
	// WaitedMS and HeldMS are counted by the monotonic clock.
	WaitedMS   *int64          `json:"waited_ms,omitempty"`
	HeldMS     *int64          `json:"held_ms,omitempty"`
	Command    *commandView    `json:"command,omitempty"`
	OverlapMS  int64           `json:"overlap_ms,omitempty"`
	Release    string          `json:"release,omitempty"`
	Revocation *revocationView `json:"revocation,omitempty"`
}

// commandView is the command's own process.
type commandView struct {
	PID      int  `json:"pid"`
	ExitCode *int `json:"exit_code,omitempty"`
	Signal   int  `json:"signal,omitempty"`
	Killed   bool `json:"killed,omitempty"`
	// LeftBehind counts its processes that had to be stopped after its end, Alive
	// those that could not be.
	LeftBehind int `json:"left_behind,omitempty"`
	Alive      int `json:"alive,omitempty"`
}

type revocationView struct {
	AuditID   int64          `json:"audit_id"`
	Operator  string         `json:"operator"`
	Reason    string         `json:"reason"`
	RevokedAt lockstore.Time `json:"revoked_at,omitzero"`
}

// check refuses, before anything is sent, a path where no file can be put.
func (s *statusFile) check() error {
	if s.path == "" {
		return nil
	}
	info, err := os.Lstat(s.path)
	if err == nil && !info.Mode().IsRegular() {
		// Renaming a file onto a device or a link would take its place.
		return app.UsageError("give the path of a plain file", "--status-file %s is no plain file", s.path)
	}
	if err := s.write(runner.Result{Outcome: runner.Waiting, Begun: time.Now()}); err != nil {
		return app.UsageError("give a path in a folder that can be written to", "--status-file: %v", err)
	}
	return nil
}

// write puts a whole new file in the place of the old.
func (s *statusFile) write(result runner.Result) error {
	if s.path == "" {
		return nil
	}
	text, err := json.MarshalIndent(s.view(result), "", "  ")
	if err != nil {
		return fmt.Errorf("write the status file: %w", err)
	}
	draft := filepath.Join(filepath.Dir(s.path), ".dlockctl-status-"+rand.Text())
	file, err := os.OpenFile(draft, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644) //nolint:gosec // G302: it holds no secret, and others watch it
	if err != nil {
		return fmt.Errorf("write the status file: %w", err)
	}
	_, err = file.Write(append(text, '\n'))
	if err = errors.Join(err, file.Close()); err == nil {
		err = os.Rename(draft, s.path)
	}
	if err != nil {
		return fmt.Errorf("write the status file: %w", errors.Join(err, os.Remove(draft)))
	}
	return nil
}

func (s *statusFile) view(r runner.Result) statusView {
	v := statusView{
		Outcome: r.Outcome, Key: s.key, Owner: s.owner, TTLMS: s.ttl.Milliseconds(),
		BegunAt: moment(r.Begun), GrantedAt: moment(r.Granted), StartedAt: moment(r.Started), EndedAt: moment(r.Ended),
		WaitedMS: between(r.Begun, r.Granted), HeldMS: between(r.Granted, r.Ended),
		OverlapMS: r.Overlap.Milliseconds(), Release: string(r.Release),
	}
	if r.Outcome != runner.Waiting && r.Outcome != runner.Running {
		v.ExitCode = &r.Exit
	}
	if r.Err != nil {
		v.Message = r.Err.Error()
	}
	if r.Grant.Token != 0 {
		token := app.NewToken(r.Grant.Token)
		v.Token = &token
	}
	if r.PID != 0 {
		v.Command = viewCommand(r)
	}
	if row := r.Revocation; row != nil {
		v.Revocation = &revocationView{row.ID, row.Operator, row.Reason, row.RevokedAt}
	}
	return v
}

func viewCommand(r runner.Result) *commandView {
	v := &commandView{PID: r.PID, Killed: r.Killed, LeftBehind: r.Swept, Alive: r.Survivors}
	switch {
	case r.Child == nil:
	case r.Child.Signal != 0:
		v.Signal = int(r.Child.Signal)
	default:
		v.ExitCode = &r.Child.Code
	}
	return v
}

// moment is a time as all of this program writes it.
func moment(t time.Time) lockstore.Time { return lockstore.Time{Time: t} }

func between(from, to time.Time) *int64 {
	if from.IsZero() || to.IsZero() {
		return nil
	}
	ms := to.Sub(from).Milliseconds()
	return &ms
}

package locktest

import (
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"
)

// Require fails the test unless the fenced mutex explains the history and the
// history holds at least as much as asked for. A history that is refused is kept
// in a file, with a picture of it; TestRecheck judges such a file again.
func Require(t testing.TB, history History, rules Rules, least Stats) {
	t.Helper()
	stats := StatsOf(history)
	t.Logf("history: %+v", stats)
	for _, want := range []struct {
		what        string
		have, least int
	}{
		{"clients", stats.Clients, least.Clients},
		{"keys", stats.Keys, least.Keys},
		{"operations", stats.Ops, least.Ops},
		{"takeovers by expiry", stats.Takeovers, least.Takeovers},
		{"re-entries", stats.ReEntries, least.ReEntries},
		{"revocations", stats.Revoked, least.Revoked},
		{"unknown outcomes", stats.Unknown, least.Unknown},
	} {
		if want.have < want.least {
			t.Errorf("the history has %d %s, want at least %d: it proves too little", want.have, want.what, want.least)
		}
	}
	verdict := Check(history, rules)
	if verdict.Err == nil {
		return
	}
	t.Errorf("the history is refused: %v", verdict.Err)
	path, err := keep(t, history, verdict)
	if err != nil {
		t.Errorf("keep the history: %v", err)
		return
	}
	t.Logf("kept as %s, with a picture beside it; judge it again: DLOCKCTL_HISTORY=%s go test -run TestRecheck ./internal/lockstore/locktest", path, path)
}

// keep writes into the test's artifacts, when they are asked for, else where the
// system keeps temporary files: what is in the test's own folder goes with it.
func keep(t testing.TB, history History, verdict Verdict) (string, error) {
	dir := t.ArtifactDir()
	if !artifacts() {
		var err error
		if dir, err = os.MkdirTemp("", "dlockctl-history-*"); err != nil {
			return "", err
		}
	}
	path := filepath.Join(dir, "history.jsonl")
	if err := write(path, history.Write); err != nil {
		return "", err
	}
	return path, write(filepath.Join(dir, "history.html"), verdict.Visualize)
}

func write(path string, content func(io.Writer) error) (err error) {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() {
		if closeErr := file.Close(); err == nil && closeErr != nil {
			err = fmt.Errorf("write %s: %w", path, closeErr)
		}
	}()
	return content(file)
}

// artifacts tells whether `go test -artifacts` keeps what tests put into their
// ArtifactDir.
func artifacts() bool {
	f := flag.Lookup("test.artifacts")
	return f != nil && f.Value.String() == "true"
}

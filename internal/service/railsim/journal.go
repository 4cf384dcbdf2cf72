package railsim

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// record is one line of the state file: a request, or a mood that was set.
type record struct {
	Request *entry `json:"request,omitempty"`
	Mood    *Mood  `json:"mood,omitempty"`
}

// journal is the state file: lines of JSON that are only ever added. A nil one keeps
// nothing.
type journal struct{ file *os.File }

// openJournal reads the state file from its beginning, and makes it when there is none.
func openJournal(path string, apply func(record)) (*journal, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the simulator's state: %w", err)
	}
	if err := replay(file, apply); err != nil {
		return nil, errors.Join(fmt.Errorf("read the simulator's state %s: %w", path, err), file.Close())
	}
	// A file whose name is not on disk is forgotten with all that is in it.
	dir, err := os.Open(filepath.Dir(path))
	if err == nil {
		err = errors.Join(dir.Sync(), dir.Close())
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("keep the simulator's state: %w", err), file.Close())
	}
	return &journal{file}, nil
}

func replay(file *os.File, apply func(record)) error {
	text, err := io.ReadAll(file)
	if err != nil {
		return err //nolint:wrapcheck // the caller says what was being read
	}
	whole := bytes.LastIndexByte(text, '\n') + 1
	if whole < len(text) { // torn by a crash, and so never answered
		if err := file.Truncate(int64(whole)); err != nil {
			return err
		}
	}
	for n, line := range bytes.Split(bytes.TrimSuffix(text[:whole], []byte("\n")), []byte("\n")) {
		if whole == 0 {
			break
		}
		var r record
		if err := json.Unmarshal(line, &r); err != nil {
			return fmt.Errorf("line %d is not the simulator's: %w", n+1, err)
		}
		apply(r)
	}
	return nil
}

// add returns when the line is on disk.
func (j *journal) add(r record) error {
	if j == nil {
		return nil
	}
	line, err := json.Marshal(r)
	if err == nil {
		_, err = j.file.Write(append(line, '\n'))
	}
	if err == nil {
		err = j.file.Sync()
	}
	if err != nil {
		return fmt.Errorf("keep the simulator's state: %w", err)
	}
	return nil
}

func (j *journal) close() error {
	if j == nil {
		return nil
	}
	return j.file.Close()
}

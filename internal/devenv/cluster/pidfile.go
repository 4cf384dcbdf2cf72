package cluster

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Postmaster is what a server writes into postmaster.pid of its data folder.
type Postmaster struct {
	PID       int
	Data      string
	Port      int
	SocketDir string
	Ready     bool
}

// ReadPostmaster reads data/postmaster.pid; fs.ErrNotExist when there is none. That the file exists does not mean
// that a server runs: Alive tells.
func ReadPostmaster(data string) (Postmaster, error) {
	raw, err := os.ReadFile(filepath.Join(data, "postmaster.pid"))
	if err != nil {
		return Postmaster{}, fmt.Errorf("read the pid file: %w", err)
	}
	if len(raw) == 0 { // for a moment while the server starts; after a crash in it PostgreSQL's own refusal says what to do
		return Postmaster{}, fmt.Errorf("read the pid file: it is empty: %w", fs.ErrNotExist)
	}
	lines := strings.Split(string(raw), "\n")
	pid, err := strconv.Atoi(strings.TrimSpace(lines[0]))
	if err != nil || pid <= 0 {
		return Postmaster{}, fmt.Errorf("read the pid file of %s: its first line is no process id", data)
	}
	p := Postmaster{PID: pid}
	if len(lines) >= 5 {
		p.Data = lines[1]
		p.Port, _ = strconv.Atoi(strings.TrimSpace(lines[3])) // absent while the server starts
		p.SocketDir = lines[4]
	}
	p.Ready = len(lines) >= 8 && strings.TrimSpace(lines[7]) == "ready"
	return p, nil
}

// Alive reports whether a process with that id exists. After a crash and a reboot it may be anybody's: ask the
// server itself for its data folder before believing it.
func (p Postmaster) Alive() bool { return exists(p.PID) }

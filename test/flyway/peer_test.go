//go:build flyway

package flyway_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// patience is how long a Flyway may take to answer: one that hangs fails its test.
const patience = time.Minute

// peer is a running Flyway.
type peer struct {
	requests io.Writer
	answers  *bufio.Scanner
	log      *strings.Builder
	stop     context.CancelFunc
}

// startPeer starts a Flyway for the length of a test: a Java machine costs more than
// all that it is asked.
func startPeer(t *testing.T) *peer {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	classes := strings.Join([]string{"target/flyway-peer.jar", filepath.Join("target", "lib", "*")}, string(os.PathListSeparator))
	cmd := exec.CommandContext(ctx, "java", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", classes, "dlockctl.Peer")
	p := &peer{log: &strings.Builder{}, stop: cancel}
	cmd.Stderr = p.log
	requests, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	answers, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatalf("start Flyway (`make flyway` builds it): %v", err)
	}
	p.requests, p.answers = requests, bufio.NewScanner(answers)
	t.Cleanup(func() {
		cancel()
		_ = cmd.Wait() // it was killed
	})
	return p
}

// ask sends commands and returns the answer's lines; the error has Flyway's words.
func (p *peer) ask(s *stand, commands ...string) ([]string, error) {
	hang := time.AfterFunc(patience, p.stop)
	defer hang.Stop()
	dsn, err := url.Parse(s.db.DSN("t_owner"))
	if err != nil {
		return nil, err
	}
	password, _ := dsn.User.Password()
	locations := make([]string, len(s.dirs))
	for i, dir := range s.dirs {
		locations[i] = "filesystem:" + dir
	}
	request := append([]string{
		"jdbc:postgresql://" + dsn.Host + dsn.Path + "?sslmode=disable", dsn.User.Username(), password,
		strings.Join(locations, ","), fmt.Sprint(!s.sessionLock),
	}, commands...)
	if _, err := fmt.Fprintln(p.requests, strings.Join(request, "\t")); err != nil {
		return nil, fmt.Errorf("ask Flyway to %v: %w", commands, err)
	}
	var lines []string
	for p.answers.Scan() {
		switch line := p.answers.Text(); {
		case line == ".":
			return lines, nil
		case strings.HasPrefix(line, "error|"):
			err = fmt.Errorf("flyway %v: %s", commands, strings.TrimPrefix(line, "error|"))
			for p.answers.Scan() && p.answers.Text() != "." {
			}
			return lines, err
		default:
			lines = append(lines, line)
		}
	}
	return nil, fmt.Errorf("flyway %v gave no answer within %s: %s", commands, patience, p.log.String())
}

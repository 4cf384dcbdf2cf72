package lockserver_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/pgtest"
	"github.com/dlockctl/dlockctl/internal/service/lockapi"
	"github.com/dlockctl/dlockctl/internal/service/lockserver"
)

// A watch tells what stands, then each change of what it asked for, with masked
// ids, and ends when the service does.
//
// Clauses: K-2.12
// Mutation: leave wants out of send, show the ids, or wait on after Draining.
func TestWatch(t *testing.T) {
	t.Parallel()
	dbs := pgtest.Migrated(t, 16)
	s := serve(t, options(dbs.Lock.Config(t, "t_lockapp")), "").ready(t)
	c := caller{s, ""}
	session := c.session(t, "alice")
	c.acquire(t, "a/1", session)
	response, err := c.send(t.Context(), t, http.MethodGet, "/v1/locks/watch?prefix=a/", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if kind := response.Header.Get("Content-Type"); kind != "text/event-stream" {
		t.Errorf("the stream is %s", kind)
	}
	lines := bufio.NewScanner(response.Body)
	next := func() string {
		event := ""
		for lines.Scan() {
			name, value, _ := strings.Cut(lines.Text(), ": ")
			if name == "event" {
				event = value
			}
			if name == "data" && event == "change" {
				var change lockapi.Change
				if err := json.Unmarshal([]byte(value), &change); err != nil {
					t.Fatal(err)
				}
				if strings.Contains(value, session.SessionID) {
					t.Errorf("the session id is in %s", value)
				}
				return string(change.Change) + " " + change.Key
			}
		}
		return "end"
	}
	got := []string{next()}
	c.acquire(t, "b/1", session) // not asked for
	grant := c.acquire(t, "a/2", session)
	got = append(got, next())
	c.post(t, "/v1/locks/release", lockapi.ReleaseRequest{Key: "a/2"}, lockapi.TokenHeader, grant.TokenStr)
	got = append(got, next())
	if err := s.stop(); err != nil {
		t.Fatal(err)
	}
	got = append(got, next())
	if diff := cmp.Diff([]string{"held a/1", "held a/2", "gone a/2", "end"}, got); diff != "" {
		t.Errorf("the events (-want +got):\n%s", diff)
	}
}

// A watcher that does not keep up is cut off, and holds up neither the others nor
// the look itself; one that comes later is told what stands.
//
// Mutation: send without a default, or leave the snapshot out of join.
func TestSlowWatcherIsCutOff(t *testing.T) {
	t.Parallel()
	w := lockserver.NewWatch()
	slow, leave := w.Join(lockstore.Filter{})
	defer leave()
	quick, leaveQuick := w.Join(lockstore.Filter{Prefix: "k1"})
	defer leaveQuick()
	var last lockstore.Entry
	for i := range lockserver.MostBehind + 1 {
		last = lockstore.Entry{Key: fmt.Sprint("k", i%7), Token: lockstore.Token(i + 1), Owner: "o"}
		w.Tell(last)
		for len(quick) > 0 {
			<-quick
		}
	}
	n := 0
	for range slow { // it ends, since it was closed
		n++
	}
	if n != lockserver.MostBehind {
		t.Errorf("it was told %d changes before it was cut off, want %d", n, lockserver.MostBehind)
	}
	late, leaveLate := w.Join(lockstore.Filter{})
	defer leaveLate()
	if change := <-late; change.Kind != lockstore.ChangeHeld || change.Key != last.Key || change.Token != last.Token {
		t.Errorf("who comes later is told %+v", change)
	}
}

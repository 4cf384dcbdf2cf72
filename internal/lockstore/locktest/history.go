package locktest

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/dlockctl/dlockctl/internal/lockstore"
)

// Kind is what a client asked for.
type Kind string

// The kinds of operation of a history.
const (
	Acquire Kind = "acquire"
	Renew   Kind = "renew"
	Release Kind = "release"
	Revoke  Kind = "revoke"
	Show    Kind = "show"
)

// Result is what the client was told.
type Result string

// The results. Unknown is an answer that was lost: it may have been done at any
// time since, or never (K-2.9). Failed was certainly not done.
const (
	OK       Result = "ok"
	Held     Result = "held"      // acquire: a live other holds the key
	Lost     Result = "lost"      // renew: no longer the caller's
	Stale    Result = "stale"     // release: nothing was deleted
	NotHeld  Result = "not_held"  // revoke
	Moved    Result = "moved"     // revoke: a newer grant stands
	NotFound Result = "not_found" // show
	Failed   Result = "failed"
	Unknown  Result = "unknown"
)

// Op is one operation of a history, as a line of its file.
type Op struct {
	Client int    `json:"client"`
	Kind   Kind   `json:"kind"`
	Key    string `json:"key"`
	// Owner and Session are who asks, of acquire only.
	Owner   string              `json:"owner,omitempty"`
	Session lockstore.SessionID `json:"session,omitempty"`
	// Token is the one presented, of renew, release and revoke.
	Token lockstore.Token `json:"token,omitempty"`
	// TTL is the lease asked for, in microseconds.
	TTL int64 `json:"ttl_us,omitempty"`

	Result Result `json:"result"`
	Answer Answer `json:"answer,omitzero"`

	// Call and Return are the test's clock, in nanoseconds since its start: they
	// order what did not overlap and decide no expiry.
	Call   int64 `json:"call_ns"`
	Return int64 `json:"return_ns"`
	// Trust is until when, by the same clock, the client may rely on the grant
	// (K-2.10).
	Trust int64 `json:"trust_ns,omitempty"`
}

// Answer is what the backend said of the grant. Its times are the backend's
// own, in microseconds since 1970; 0 is not said.
type Answer struct {
	Token    lockstore.Token     `json:"token,omitempty"`
	Owner    string              `json:"owner,omitempty"`
	Session  lockstore.SessionID `json:"session,omitempty"`
	Acquired int64               `json:"acquired_us,omitempty"`
	Expires  int64               `json:"expires_us,omitempty"`
	// Now is the backend's clock at which a show was answered.
	Now     int64 `json:"now_us,omitempty"`
	Expired bool  `json:"expired,omitempty"`
}

// History is what all clients did, in any order.
type History []Op

// Write writes the history as JSON lines, to be read again by ReadHistory.
func (h History) Write(out io.Writer) error {
	buffered := bufio.NewWriter(out)
	encoder := json.NewEncoder(buffered)
	for i := range h {
		if err := encoder.Encode(&h[i]); err != nil {
			return fmt.Errorf("write a history: %w", err)
		}
	}
	if err := buffered.Flush(); err != nil {
		return fmt.Errorf("write a history: %w", err)
	}
	return nil
}

// ReadHistory reads what Write wrote.
func ReadHistory(in io.Reader) (History, error) {
	var history History
	decoder := json.NewDecoder(in)
	decoder.DisallowUnknownFields()
	for {
		var op Op
		err := decoder.Decode(&op)
		if errors.Is(err, io.EOF) {
			return history, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read operation %d of a history: %w", len(history)+1, err)
		}
		history = append(history, op)
	}
}

func micros(t lockstore.Time) int64 {
	switch {
	case t.Infinite:
		return never
	case t.IsZero():
		return 0
	}
	return t.UnixMicro()
}

// clockOf is the backend's clock at the moment an entry was read.
func clockOf(entry lockstore.Entry) int64 {
	return micros(entry.ExpiresAt) - entry.Remaining.Round(time.Microsecond).Microseconds()
}

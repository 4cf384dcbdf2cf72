// Package telemetry is what a service says about itself: log lines, metrics and,
// when it is asked to by OTEL_* variables, traces. It knows no store and no
// service, and costs nothing that is switched off.
package telemetry

import (
	"fmt"
	"io"
	"log/slog"
	"strings"
)

// The log events of K-4.4: the message of a line, for who searches or counts.
const (
	EventLeaseExpired  = "lease_expired"
	EventLockReleased  = "lock_released"
	EventFencedOut     = "fenced_out"
	EventDuplicateRail = "duplicate_rail_submission_attempted"
)

// NewLogger returns a logger that writes lines of a format, text or json, from a
// level on: debug, info, warn or error. Times are UTC.
func NewLogger(w io.Writer, format, level string) (*slog.Logger, error) {
	var least slog.Level
	if err := least.UnmarshalText([]byte(strings.ToUpper(level))); err != nil {
		return nil, fmt.Errorf("log level %q is unknown; give debug, info, warn or error", level)
	}
	opts := &slog.HandlerOptions{Level: least, ReplaceAttr: utc}
	switch format {
	case "text":
		return slog.New(slog.NewTextHandler(w, opts)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(w, opts)), nil
	}
	return nil, fmt.Errorf("log format %q is unknown; give text or json", format)
}

// utc makes the times of several hosts comparable at a glance.
func utc(groups []string, attr slog.Attr) slog.Attr {
	if len(groups) == 0 && attr.Key == slog.TimeKey {
		attr.Value = slog.TimeValue(attr.Value.Time().UTC())
	}
	return attr
}

package supervise

import (
	"bytes"
	"regexp"
)

// lines cuts what a process writes into lines. A line without end is handed on in
// pieces.
type lines struct {
	each func(line []byte)
	held []byte
}

const longestLine = 64 << 10

// Write hands on each whole line.
func (l *lines) Write(text []byte) (int, error) {
	l.held = append(l.held, text...)
	for {
		end := bytes.IndexByte(l.held, '\n')
		switch {
		case end >= 0:
			l.each(l.held[:end+1])
			l.held = l.held[end+1:]
		case len(l.held) > longestLine:
			l.rest()
		default:
			return len(text), nil
		}
	}
}

// rest hands on what has no end of line.
func (l *lines) rest() {
	if len(l.held) > 0 {
		l.each(append(l.held, '\n'))
		l.held = nil
	}
}

// listening is the log line by which a service says where, in both formats.
var listening = regexp.MustCompile(`"?msg"?[=:]"?listening\b.*"?address"?[=:]"?([^"\s,}]+)`)

func listeningAt(line []byte) string {
	if found := listening.FindSubmatch(line); found != nil {
		return string(found[1])
	}
	return ""
}

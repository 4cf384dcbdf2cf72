package ui

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/term"
)

// Streams are the process's ends: data goes to Out; prompts, progress, notes
// and errors go to Err.
type Streams struct {
	In  io.Reader
	Out io.Writer
	Err io.Writer
	// InTTY, OutTTY and ErrTTY tell which of them is a terminal; each is
	// judged by itself, for one may be piped and another not.
	InTTY, OutTTY, ErrTTY bool
	// Width is Out's width in cells, 0 when unknown.
	Width int
	// Env looks an environment variable up; an unset one is "".
	Env func(name string) string
	// Now is the wall clock, for ages of what lies in the past. It decides
	// nothing (K-2.1).
	Now func() time.Time
}

// System returns the streams of this process.
func System() *Streams {
	s := &Streams{
		In: os.Stdin, Out: os.Stdout, Err: os.Stderr,
		InTTY:  isTerminal(os.Stdin),
		OutTTY: isTerminal(os.Stdout),
		ErrTTY: isTerminal(os.Stderr),
		Env:    os.Getenv,
		Now:    time.Now,
	}
	if s.OutTTY {
		if width, _, err := term.GetSize(int(os.Stdout.Fd())); err == nil {
			s.Width = width
		}
	}
	return s
}

// Test returns streams over buffers that are no terminals, fed from in, with
// the given environment only, and the buffers of Out and Err.
func Test(in string, env map[string]string) (s *Streams, out, errOut *bytes.Buffer) {
	out, errOut = &bytes.Buffer{}, &bytes.Buffer{}
	return &Streams{
		In: strings.NewReader(in), Out: out, Err: errOut,
		Env: func(name string) string { return env[name] },
		Now: time.Now,
	}, out, errOut
}

// Interactive tells whether a question can be put to a person: read from In
// and shown on Err.
func (s *Streams) Interactive() bool { return s.InTTY && s.ErrTTY }

// Note writes a line for the person at the terminal to Err. Control characters
// in it are made visible.
func (s *Streams) Note(format string, args ...any) {
	fmt.Fprintln(s.Err, Visible(fmt.Sprintf(format, args...)))
}

func isTerminal(f *os.File) bool { return term.IsTerminal(int(f.Fd())) }

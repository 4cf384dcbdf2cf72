package ui

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
)

// ErrNoTerminal is returned by Confirm when there is nobody to ask.
var ErrNoTerminal = errors.New("there is no terminal to ask on")

// Confirm asks question on Err and reads a yes or a no from In; anything but a
// clear yes is a no, and an answer that is neither is asked again. It returns
// ErrNoTerminal when In or Err is no terminal (the caller names the flag that
// says yes instead), and the context's cause when that ends first.
func (s *Streams) Confirm(ctx context.Context, question string) (bool, error) {
	if !s.Interactive() {
		return false, ErrNoTerminal
	}
	type answer struct {
		yes bool
		err error
	}
	// A read from a terminal cannot be cancelled, so it is left behind when
	// the context ends: the process is about to exit.
	answered := make(chan answer, 1)
	go func() {
		yes, err := s.ask(Visible(question))
		answered <- answer{yes, err}
	}()
	select {
	case a := <-answered:
		return a.yes, a.err
	case <-ctx.Done():
		fmt.Fprintln(s.Err)
		return false, context.Cause(ctx)
	}
}

func (s *Streams) ask(question string) (bool, error) {
	in := bufio.NewReader(s.In)
	for {
		fmt.Fprintf(s.Err, "%s [y/N] ", question)
		line, err := in.ReadString('\n')
		switch strings.ToLower(strings.TrimSpace(line)) {
		case "y", "yes":
			return true, nil
		case "", "n", "no":
			if err != nil {
				fmt.Fprintln(s.Err)
			}
			return false, nil
		}
		switch {
		case errors.Is(err, io.EOF):
			fmt.Fprintln(s.Err)
			return false, nil
		case err != nil:
			return false, fmt.Errorf("read the answer: %w", err)
		}
	}
}

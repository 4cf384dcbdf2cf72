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
	in := bufio.NewReader(s.In)
	for {
		fmt.Fprintf(s.Err, "%s [y/N] ", Visible(question))
		line, err := readLine(ctx, in)
		if cause := context.Cause(ctx); cause != nil {
			fmt.Fprintln(s.Err)
			return false, cause
		}
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

// readLine returns when there is a line or ctx has ended. A read from a terminal
// cannot be cancelled, so it is left behind then: the process is about to exit.
func readLine(ctx context.Context, in *bufio.Reader) (string, error) {
	type answer struct {
		line string
		err  error
	}
	answered := make(chan answer, 1)
	go func() {
		line, err := in.ReadString('\n')
		answered <- answer{line, err}
	}()
	select {
	case a := <-answered:
		return a.line, a.err
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}

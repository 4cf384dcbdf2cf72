package app

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/dlockctl/dlockctl/internal/config"
	"github.com/dlockctl/dlockctl/internal/ui"
)

// ErrReaderGone is returned by Stream.Item when nobody reads stdout any more,
// as behind `| head`: the stream's natural end, not a failure.
var ErrReaderGone = errors.New("the reader of stdout has gone")

// Stream prints results one by one as they come: lines for a person, and one
// JSON object a line where the output is piped or asked for so.
type Stream struct {
	printer ui.Printer
	styles  ui.Styles
	pipe    chan os.Signal
}

// Stream begins one; Close ends it. It refuses the formats that have a frame
// around all rows, which a stream never has.
func (a *App) Stream() (*Stream, error) {
	cfg, err := a.Config()
	if err != nil {
		return nil, err
	}
	printer := a.bestPrinter()
	switch printer.Format {
	case ui.YAML, ui.CSV:
		return nil, UsageError("give -o jsonl, table or wide", "-o %s needs all rows at once, and this prints them as they come", printer.Format)
	case ui.JSON:
		printer.Format = ui.JSONL
	case ui.Table:
		if !a.Streams.OutTTY && cfg.Origin("output").Layer == config.Default {
			printer.Format = ui.JSONL
		}
	case ui.Wide, ui.JSONL, ui.Name:
	}
	s := &Stream{printer: printer, styles: a.Streams.OutStyles(printer.Color), pipe: make(chan os.Signal, 1)}
	// Whoever listens gets EPIPE from the write instead of being killed by it.
	signal.Notify(s.pipe, syscall.SIGPIPE)
	return s, nil
}

// Close gives the broken pipe's signal back.
func (s *Stream) Close() { signal.Stop(s.pipe) }

// Readable tells that lines for a person are printed, and wide that they may be
// long.
func (s *Stream) Readable() (readable, wide bool) {
	return s.printer.Format == ui.Table || s.printer.Format == ui.Wide, s.printer.Format == ui.Wide
}

// Paint paints part of a line.
func (s *Stream) Paint(tone ui.Tone, text string) string { return s.styles.Paint(tone, text) }

// Item prints data, or its line where a person reads; name is the field that -o
// name prints. The line's own control characters are the caller's to escape.
func (s *Stream) Item(data any, name, line string) error {
	var err error
	if readable, _ := s.Readable(); readable {
		_, err = fmt.Fprintln(s.printer.Streams.Out, line)
	} else {
		err = s.printer.Print(ui.View{Data: data, Name: name})
	}
	if errors.Is(err, syscall.EPIPE) {
		return ErrReaderGone
	}
	if err != nil {
		return fmt.Errorf("write to stdout: %w", err)
	}
	return nil
}

// Ended says how a stream ended: by a signal, because its reader has gone, which
// is no error, or as it failed.
func (s *Stream) Ended(ctx context.Context, err error) error {
	if errors.Is(err, ErrReaderGone) {
		return nil
	}
	if cause := Stopped(ctx); err != nil && cause != nil {
		return cause
	}
	return err
}

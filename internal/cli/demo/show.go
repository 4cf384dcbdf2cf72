package demo

import (
	"fmt"

	"github.com/dlockctl/dlockctl/internal/cli/app"
	"github.com/dlockctl/dlockctl/internal/scenario"
	"github.com/dlockctl/dlockctl/internal/ui"
)

// show prints a story as it is played.
type show struct {
	streams *ui.Streams
	styles  ui.Styles
	err     error // of the first write that failed
}

func newShow(a *app.App) (*show, error) {
	cfg, err := a.Config()
	if err != nil {
		return nil, err
	}
	mode, err := ui.ParseColorMode(cfg.Color)
	if err != nil {
		return nil, err
	}
	return &show{streams: a.Streams, styles: a.Streams.OutStyles(mode)}, nil
}

func (s *show) event(e scenario.Event) {
	switch {
	case e.Chapter != "":
		s.line("\n%s", s.styles.Paint(ui.Strong, ui.Visible(e.Chapter)))
	case e.Step != "":
		s.line("  - %s", ui.Visible(e.Step))
	case e.Outcome != nil && e.Outcome.OK:
		s.line("  %s %s", s.styles.Paint(ui.Good, "ok"), ui.Visible(e.Outcome.Must))
		s.line("     %s", s.styles.Paint(ui.Faint, ui.Visible(e.Outcome.Saw)))
	case e.Outcome != nil:
		s.line("  %s %s", s.styles.Paint(ui.Bad, "NOT SO:"), ui.Visible(e.Outcome.Must))
		s.line("     %s", ui.Visible(e.Outcome.Saw))
	}
}

func (s *show) line(format string, args ...any) {
	if s.err == nil {
		_, s.err = fmt.Fprintf(s.streams.Out, format+"\n", args...)
	}
}

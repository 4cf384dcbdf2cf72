package app

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/dlockctl/dlockctl/internal/config"
	"github.com/dlockctl/dlockctl/internal/ui"
)

// printer refuses an output format or colour mode that does not exist, and
// says where it came from.
func (a *App) printer(cfg *config.Config) (ui.Printer, error) {
	format, err := ui.ParseFormat(cfg.Output)
	if err != nil {
		return ui.Printer{}, UsageError("", "%v (from %s)", err, cfg.Origin("output"))
	}
	color, err := ui.ParseColorMode(cfg.Color)
	if err != nil {
		return ui.Printer{}, UsageError("", "%v (from %s)", err, cfg.Origin("color"))
	}
	return a.shaped(ui.Printer{Streams: a.Streams, Format: format, Color: color}, cfg.Origin("output").Layer == config.Flag)
}

// shaped adds what the flags say of the shape of a result. They are read before
// anything is done, so that what is wrong with them in themselves costs nothing.
func (a *App) shaped(p ui.Printer, formatGiven bool) (ui.Printer, error) {
	var err error
	for _, t := range []struct {
		flag  string
		parse func(string) (ui.Transform, error)
	}{{"jq", ui.ParseJQ}, {"template", ui.ParseTemplate}} {
		text, given := a.flag(t.flag)
		switch {
		case !given:
			continue
		case p.Transform != nil:
			return p, UsageError("leave one of them out", "--jq and --template cannot both shape the result")
		case formatGiven && p.Format != ui.JSON && p.Format != ui.JSONL:
			return p, UsageError("leave -o out, or give -o json", "--%s reads JSON, and -o %s is none", t.flag, p.Format)
		}
		if p.Transform, err = t.parse(text); err != nil {
			return p, UsageError("dlockctl help formatting", "--%s: %v", t.flag, err)
		}
		if p.Format != ui.JSONL {
			p.Format = ui.JSON
		}
	}
	if columns, given := a.flagSlice("columns"); given {
		if p.Columns = columns; p.Transform != nil || p.Format != ui.Table && p.Format != ui.Wide && p.Format != ui.CSV {
			return p, UsageError("--jq picks fields of JSON", "--columns is for tables and CSV, not for -o %s", p.Format)
		}
	}
	headless, _ := a.flag("no-headers")
	p.NoHeaders = headless == "true"
	return p, nil
}

// Print writes a result to stdout in the format asked for.
func (a *App) Print(v ui.View) error {
	err := a.bestPrinter().Print(v)
	if unfit, ok := errors.AsType[*ui.TransformError](err); ok {
		return &Failure{
			Exit: Unexpected, Code: "output", Message: fmt.Sprintf("the result cannot be printed so: %v", unfit),
			Hint: "whatever the command was to do is done; its result: " + string(unfit.Result), Details: unfit.Result,
		}
	}
	return err
}

// Format is the output format in force.
func (a *App) Format() ui.Format { return a.bestPrinter().Format }

// ForPeople tells that the result is laid out to be read, and may be followed by
// more of it.
func (a *App) ForPeople() bool {
	format := a.Format()
	return format == ui.Table || format == ui.Wide
}

// bestPrinter is the printer as far as it can be known: before the command's
// flags are taken in, and where the configuration cannot be read, which are
// errors of their own, the arguments and the environment still say how that
// error is wanted.
func (a *App) bestPrinter() ui.Printer {
	p := ui.Printer{Streams: a.Streams, Format: ui.Table, Color: ui.ColorAuto}
	if cfg, err := a.Config(); err == nil {
		if format, err := ui.ParseFormat(cfg.Output); err == nil {
			p.Format = format
		}
		if color, err := ui.ParseColorMode(cfg.Color); err == nil {
			p.Color = color
		}
		if a.flags != nil {
			p, _ = a.shaped(p, cfg.Origin("output").Layer == config.Flag) // what is wrong with it was said before
			return p
		}
	}
	for _, output := range []string{outputArg(a.args), a.Streams.Env("DLOCKCTL_OUTPUT")} {
		if format, err := ui.ParseFormat(output); err == nil {
			p.Format = format
			break
		}
	}
	return p
}

// outputArg finds -o among arguments that may not be parsable as a whole.
func outputArg(args []string) string {
	for i, arg := range args {
		switch {
		case arg == "--":
			return ""
		case (arg == "-o" || arg == "--output") && i+1 < len(args):
			return args[i+1]
		case strings.HasPrefix(arg, "--output="):
			return strings.TrimPrefix(arg, "--output=")
		case strings.HasPrefix(arg, "-o") && len(arg) > 2:
			return strings.TrimPrefix(arg[2:], "=")
		}
	}
	return ""
}

// Silence keeps everything off stderr until the returned function is called: a
// shell that completes shows it in the middle of the line that is being typed,
// and a screen in the middle of what it has drawn.
func (a *App) Silence() (speak func()) {
	was := a.Streams
	quiet := *was
	quiet.Err, quiet.ErrTTY = io.Discard, false
	a.Streams = &quiet
	return func() { a.Streams = was }
}

// Styles paints for stdout.
func (a *App) Styles() ui.Styles { return a.Streams.OutStyles(a.bestPrinter().Color) }

// Note says something to the person at stderr, beside the data.
func (a *App) Note(format string, args ...any) { a.Streams.Note(format, args...) }

// Warn is a note that ought to be read.
func (a *App) Warn(format string, args ...any) {
	a.say(ui.Warn, "warning:", fmt.Sprintf(format, args...))
}

// Hint says what to do about a warning.
func (a *App) Hint(text string) { a.say(ui.Faint, "hint:", text) }

// Aside is a note that only a person reads. Where stderr is kept for the one
// JSON object of an error, it is left out.
func (a *App) Aside(format string, args ...any) {
	if a.asides() {
		a.Note(format, args...)
	}
}

func (a *App) asides() bool {
	format := a.Format()
	return a.Streams.ErrTTY || format != ui.JSON && format != ui.JSONL
}

// Progress tells what is going on, on stderr.
func (a *App) Progress(line string) { a.say(ui.Faint, "…", line) }

func (a *App) say(tone ui.Tone, label, text string) {
	styles := a.Streams.ErrStyles(a.bestPrinter().Color)
	fmt.Fprintf(a.Streams.Err, "%s %s\n", styles.Paint(tone, label), ui.Visible(text))
}

// embedded tells that the command ran on the embedded databases, and not through a
// lock-server.
func (a *App) embedded() bool {
	cfg, err := a.Config()
	return err == nil && cfg.Embedded() && cfg.Server.URL == ""
}

// Report says what went wrong on stderr, as one JSON object with -o json, and
// returns the exit code.
func (a *App) Report(err error) Exit {
	if child, ok := errors.AsType[*childError](err); ok {
		return child.exit
	}
	problem := explain(err, a.embedded())
	problem.Hint = a.Runnable(problem.Hint)
	printer := a.bestPrinter()
	if printer.Format == ui.JSON || printer.Format == ui.JSONL {
		if ui.WriteJSON(a.Streams.Err, problem) == nil {
			return problem.Exit
		}
	}
	if problem.help != "" {
		fmt.Fprintf(a.Streams.Err, "%s\n", problem.help)
	}
	a.say(ui.Bad, "error:", problem.Message)
	if problem.Hint != "" {
		a.Hint(problem.Hint)
	}
	return problem.Exit
}

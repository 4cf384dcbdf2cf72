// Command terminal records what a command writes, and draws recordings as pictures.
//
//	terminal -record FILE.cast -as 'dlockctl demo' -- COMMAND…   write down what a command prints, and when
//	terminal -write      draw each recording of docs/assets: .cast a film, .ansi a screen
//	terminal -verify     fail when a picture there is not what -write draws
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/dlockctl/dlockctl/internal/tools/terminal/picture"
)

// The sizes: a film is as wide as a page of a forge, a screen is the smallest that
// everything works on.
const (
	filmWidth, filmHeight     = 100, 26
	screenWidth, screenHeight = 80, 24
)

func main() {
	assets := flag.String("assets", filepath.Join("docs", "assets"), "the folder of the recordings")
	write := flag.Bool("write", false, "draw each recording")
	verify := flag.Bool("verify", false, "fail when a picture is not what is recorded")
	record := flag.String("record", "", "`FILE` to write down what the command prints")
	as := flag.String("as", "", "what the picture says was typed")
	flag.Parse()

	//nolint:forbidigo // main alone has no caller to take these from
	ctx, stderr, exit := context.Background(), os.Stderr, os.Exit
	var err error
	if *record != "" {
		err = recordTo(ctx, stderr, *record, *as, flag.Args())
	} else {
		err = draw(*assets, *write, *verify)
	}
	if err != nil {
		_, _ = fmt.Fprintln(stderr, "terminal:", err) // there is nowhere else to say it
		exit(1)
	}
}

// draw draws each recording of the folder, and writes it or compares it.
func draw(assets string, write, verify bool) error {
	recordings, err := filepath.Glob(filepath.Join(assets, "*.*"))
	if err != nil {
		return err
	}
	drawn := 0
	for _, path := range recordings {
		picture, err := pictureOf(path)
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		if picture == nil {
			continue
		}
		drawn++
		target := strings.TrimSuffix(path, filepath.Ext(path)) + ".svg"
		if write {
			if err := os.WriteFile(target, picture, 0o644); err != nil {
				return err
			}
		}
		if have, err := os.ReadFile(target); verify && (err != nil || !bytes.Equal(have, picture)) {
			return errors.Join(err, fmt.Errorf("%s is not what was recorded: run `go run ./internal/tools/terminal -write`", target))
		}
	}
	if drawn == 0 {
		return fmt.Errorf("there is no recording in %s", assets)
	}
	return nil
}

// pictureOf draws one file, nil for one that is no recording.
func pictureOf(path string) ([]byte, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	switch filepath.Ext(path) {
	case ".cast":
		cast, err := picture.Read(bytes.NewReader(text))
		if err != nil {
			return nil, err
		}
		return picture.Film(cast)
	case ".ansi":
		name := strings.TrimSuffix(filepath.Base(path), ".ansi")
		return picture.Still(picture.Frame{Width: screenWidth, Height: screenHeight, Title: "dlockctl " + name}, string(text))
	}
	return nil, nil
}

// recordTo runs a command and writes down what comes on its stdout.
func recordTo(ctx context.Context, stderr io.Writer, path, as string, command []string) error {
	if len(command) == 0 {
		return errors.New("no command: terminal -record FILE -as TEXT -- COMMAND…")
	}
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Stderr = stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return fmt.Errorf("listen to %s: %w", command[0], err)
	}
	started := time.Now()
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start the command: %w", err)
	}
	cast := picture.Cast{Width: filmWidth, Height: filmHeight, Command: as}
	chunk := make([]byte, 64<<10)
	for {
		n, err := out.Read(chunk)
		if n > 0 {
			cast.Events = append(cast.Events, picture.Event{At: time.Since(started), Text: string(chunk[:n])})
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return fmt.Errorf("listen to %s: %w", command[0], err)
		}
	}
	if err := cmd.Wait(); err != nil {
		return fmt.Errorf("%s: %w", command[0], err)
	}
	var file bytes.Buffer
	if err := cast.Write(&file); err != nil {
		return err
	}
	return os.WriteFile(path, file.Bytes(), 0o644)
}

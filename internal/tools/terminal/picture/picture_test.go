package picture_test

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dlockctl/dlockctl/internal/tools/terminal/picture"
)

var frame = picture.Frame{Width: 10, Height: 3, Title: "a & b"}

func still(t *testing.T, screen string) string {
	t.Helper()
	svg, err := picture.Still(frame, screen)
	if err != nil {
		t.Fatal(err)
	}
	wellFormed(t, svg)
	return string(svg)
}

func wellFormed(t *testing.T, svg []byte) {
	t.Helper()
	decoder := xml.NewDecoder(bytes.NewReader(svg))
	for {
		if _, err := decoder.Token(); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			t.Fatalf("%v in\n%s", err, svg)
		}
	}
}

var text = regexp.MustCompile(`<text( class="[^"]*")? x="([0-9.]+)" y="([0-9]+)" textLength="[0-9.]+">([^<]*)</text>`)

// shown lists what a picture shows: where, how and what.
func shown(svg string) (all []string) {
	for _, m := range text.FindAllStringSubmatch(svg, -1) {
		all = append(all, m[2]+","+m[3]+m[1]+" "+m[4])
	}
	return all
}

// Mutation: leave escape, trimmed or the wrap out.
func TestStillShowsWhatTheTerminalShowed(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		screen string
		want   []string
	}{
		"markup is text":     {"<b>&\"", []string{"0.0,13 &lt;b&gt;&amp;&#34;"}},
		"blanks are a place": {"  a  b  ", []string{"16.8,13 a  b"}},
		"long rows go on":    {"0123456789ab\nc", []string{"0.0,13 0123456789", "0.0,31 ab", "0.0,49 c"}},
		"a row that is full": {"0123456789\nc", []string{"0.0,13 0123456789", "0.0,31 c"}},
		"empty rows count":   {"\n\nc\n", []string{"0.0,49 c"}},
		"colours": {
			"\x1b[1;31ma\x1b[0m\x1b[2mb\x1b[22mc\x1b[38;5;10md\x1b[39;7me\x1b[m",
			[]string{
				`0.0,13 class="c1 b" a`, `8.4,13 class="f" b`, `16.8,13 c`, `25.2,13 class="c10" d`, `33.6,13 class="r" e`,
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(c.want, shown(still(t, c.screen))); diff != "" {
				t.Errorf("the picture (-want +got):\n%s", diff)
			}
		})
	}
}

// Nothing is left out in silence: what cannot be drawn is an error.
//
// Mutation: ignore unknown sequences.
func TestStillRefusesWhatItCannotDraw(t *testing.T) {
	t.Parallel()
	for name, screen := range map[string]string{
		"a cursor that moves": "\x1b[2Ja", "a link": "\x1b]8;;x\x07", "a bell": "\a", "a colour of many": "\x1b[38;5;200ma",
		"an underline": "\x1b[4ma", "no number": "\x1b[1:2ma", "more rows than there are": "1\n2\n3\n4",
	} {
		if svg, err := picture.Still(frame, screen); err == nil {
			t.Errorf("%s was drawn:\n%s", name, svg)
		}
	}
}

// The picture is readable in the light and in the dark, says what it is, and does
// nothing but show.
func TestStillIsAPicture(t *testing.T) {
	t.Parallel()
	svg := still(t, "a")
	for _, want := range []string{"<title>a &amp; b</title>", "@media (prefers-color-scheme:dark)", `role="img"`} {
		if !strings.Contains(svg, want) {
			t.Errorf("the picture lacks %s", want)
		}
	}
	for _, never := range []string{"<script", "href", "url(", "@import"} {
		if strings.Contains(svg, never) {
			t.Errorf("the picture has %s", never)
		}
	}
	if svg != still(t, "a") {
		t.Error("drawn twice, it is another one")
	}
}

// A recording is read as it was written.
func TestCastIsReadAsItWasWritten(t *testing.T) {
	t.Parallel()
	want := picture.Cast{Width: 10, Height: 3, Command: "go", Events: []picture.Event{
		{At: 500 * time.Millisecond, Text: "<a>\x1b[1mb\x1b[0m\n"}, {At: 2 * time.Second, Text: "c\n"},
	}}
	var file bytes.Buffer
	if err := want.Write(&file); err != nil {
		t.Fatal(err)
	}
	got, err := picture.Read(&file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the recording (-want +got):\n%s", diff)
	}
	for _, broken := range []string{"", "x", `{"version":1,"width":1,"height":1}`, `{"version":2}`, `{"version":2,"width":1,"height":1}` + "\n[1]\nx"} {
		if _, err := picture.Read(strings.NewReader(broken)); err == nil {
			t.Errorf("%q is a recording", broken)
		}
	}
}

var keyframe = regexp.MustCompile(`[0-9.]+%\{transform:translateY\([-0-9]+px\)\}`)

// A film shows the command first, moves up by a row for each that does not fit, after
// the pause that there was, within reason; who wants no movement gets none.
//
// Mutation: take no bounds for a pause, or move before the screen is full.
func TestFilmMovesAsTheSessionDid(t *testing.T) {
	t.Parallel()
	svg, err := picture.Film(picture.Cast{Width: 10, Height: 3, Command: "go", Events: []picture.Event{
		{At: time.Second, Text: "a\n"}, {At: time.Second, Text: "b\n"}, {At: time.Hour, Text: "c\nd\n"},
	}})
	if err != nil {
		t.Fatal(err)
	}
	wellFormed(t, svg)
	want := []string{`0.0,13 class="b" $ go`, "0.0,31 a", "0.0,49 b", "0.0,67 c", "0.0,85 d"}
	if diff := cmp.Diff(want, shown(string(svg))); diff != "" {
		t.Errorf("the film (-want +got):\n%s", diff)
	}
	// 1 s, 0.3 s, 1.5 s, 0.3 s, 0.3 s and 6 s of rest: 9.4 s.
	frames := []string{
		"0.000%{transform:translateY(0px)}", "13.830%{transform:translateY(0px)}", "29.787%{transform:translateY(-18px)}", "32.979%{transform:translateY(-36px)}",
	}
	if diff := cmp.Diff(frames, keyframe.FindAllString(string(svg), -1)); diff != "" {
		t.Errorf("its movement (-want +got):\n%s", diff)
	}
	if !strings.Contains(string(svg), "@media (prefers-reduced-motion:no-preference){.m{animation:m 9.4s step-end infinite}}") {
		t.Error("it moves for everybody, or not at all")
	}
}

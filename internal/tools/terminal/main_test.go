package main

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The pictures of the documentation are those of its recordings.
//
// Mutation: change a picture or a recording by hand.
func TestPicturesAreWhatWasRecorded(t *testing.T) {
	t.Parallel()
	if err := draw(filepath.Join("..", "..", "..", "docs", "assets"), false, true); err != nil {
		t.Error(err)
	}
}

// What a command prints is recorded, drawn, and found to be drawn; a picture that was
// touched is found not to be.
func TestRecordAndDraw(t *testing.T) {
	t.Parallel()
	assets := t.TempDir()
	if err := draw(assets, false, true); err == nil || !strings.Contains(err.Error(), "no recording") {
		t.Errorf("an empty folder: %v", err)
	}
	var stderr strings.Builder
	if err := recordTo(t.Context(), &stderr, filepath.Join(assets, "a.cast"), "say <it>", []string{"sh", "-c", `printf 'one\033[31m two\033[0m\n'; echo not in the picture >&2`}); err != nil {
		t.Fatal(err)
	}
	if err := draw(assets, false, true); err == nil {
		t.Error("nothing was drawn, and that was not noticed")
	}
	if err := draw(assets, true, true); err != nil {
		t.Fatal(err)
	}
	drawn := filepath.Join(assets, "a.svg")
	text, err := os.ReadFile(drawn)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"$ say &lt;it&gt;", `class="c1"`, ">two<"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("the picture lacks %s", want)
		}
	}
	if strings.Contains(string(text), "not in the picture") || stderr.String() != "not in the picture\n" {
		t.Errorf("stderr is in the picture, or lost: %q", stderr.String())
	}
	if err := os.WriteFile(drawn, append(text, ' '), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := draw(assets, false, true); err == nil {
		t.Error("a picture that was touched passes")
	}
	if err := recordTo(t.Context(), io.Discard, filepath.Join(assets, "b.cast"), "", []string{"false"}); err == nil {
		t.Error("a command that failed was recorded")
	}
}

package buildinfo_test

import (
	"runtime"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dlockctl/dlockctl/internal/buildinfo"
)

// The record is the one that the standard library reads.
//
// Mutation: read another line than mod, or another symbol than runtime/debug.modinfo.
func TestRead(t *testing.T) {
	t.Parallel()
	build, ok := debug.ReadBuildInfo()
	if !ok {
		t.Fatal("the test was built without its modules")
	}
	want := buildinfo.Info{Version: build.Main.Version, Go: build.GoVersion}
	for _, s := range build.Settings {
		switch s.Key {
		case "vcs.revision":
			want.Commit = s.Value
		case "vcs.modified":
			want.Dirty = s.Value == "true"
		}
	}
	if want.Version == "" {
		want.Version = "(devel)"
	}
	if diff := cmp.Diff(want, buildinfo.Read()); diff != "" {
		t.Errorf("(-standard library +ours):\n%s", diff)
	}
}

// A record as the standard library writes it is read as that, whole or in part.
//
// Mutation: stop at the first dep line, or take the sum for the version.
func TestParse(t *testing.T) {
	t.Parallel()
	written := &debug.BuildInfo{
		Path: "example.com/tool",
		Main: debug.Module{Path: "example.com", Version: "v1.2.3", Sum: "h1:none"},
		Deps: []*debug.Module{{Path: "example.com/mod", Version: "v9.9.9", Sum: "h1:other", Replace: &debug.Module{Path: "./vcs.revision=x", Version: "v8"}}},
		Settings: []debug.BuildSetting{
			{Key: "-ldflags", Value: "-X main.vcs=\"vcs.revision=wrong\"\n"},
			{Key: "vcs", Value: "git"},
			{Key: "vcs.revision", Value: "0123abcd"},
			{Key: "vcs.modified", Value: "true"},
		},
	}
	marks := strings.Repeat("#", 16)
	for text, want := range map[string]buildinfo.Info{
		marks + written.String() + marks:   {Version: "v1.2.3", Commit: "0123abcd", Dirty: true},
		marks + "mod\texample.com" + marks: {Version: "(devel)"},
		marks + marks:                      {Version: "(devel)"},
		"":                                 {Version: "(devel)"},
	} {
		want.Go = runtime.Version()
		if diff := cmp.Diff(want, buildinfo.Parse(text)); diff != "" {
			t.Errorf("%q (-want +got):\n%s", text, diff)
		}
	}
}

func TestLine(t *testing.T) {
	t.Parallel()
	for want, info := range map[string]buildinfo.Info{
		"dlockctl v1.2.3 (0123abcd, go1.26)\n":           {Version: "v1.2.3", Commit: "0123abcd", Go: "go1.26"},
		"dlockctl v1.2.3 (0123abcd, modified, go1.26)\n": {Version: "v1.2.3", Commit: "0123abcd", Dirty: true, Go: "go1.26"},
		"dlockctl (devel) (unknown commit, go1.26)\n":    {Version: "(devel)", Go: "go1.26"},
	} {
		if got := info.Line(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

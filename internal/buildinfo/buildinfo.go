// Package buildinfo is what the linker recorded about this program: a version
// kept by hand drifts.
//
// It imports nothing that has to be initialised, so that `dlockctl version` can
// answer before everything else (docs/adr/0006-version-answers-first.md). That
// is why it reads the record itself and without the package strings.
package buildinfo

import (
	"runtime"
	_ "unsafe" // for the linkname
)

// Info is what this program is.
type Info struct {
	// Version is the module's, "(devel)" when the build did not know it.
	Version string
	// Commit is the one it was built from, "" when the build did not know it, and
	// Dirty tells that the files were not those of the commit.
	Commit string
	Dirty  bool
	// Go is the version of the toolchain.
	Go string
}

// record is the text that runtime/debug.ReadBuildInfo parses, between two marks
// of markLength.
//
//go:linkname record runtime/debug.modinfo
func record() string

const markLength = 16

// Read returns what was recorded.
func Read() Info { return parse(record()) }

func parse(text string) Info {
	info := Info{Version: "(devel)", Go: runtime.Version()}
	if len(text) < 2*markLength {
		return info
	}
	for text = text[markLength : len(text)-markLength]; text != ""; {
		var line string
		line, text = cut(text, '\n')
		info.take(line)
	}
	return info
}

// take reads one line: mod<tab>path<tab>version<tab>sum, or build<tab>key=value.
func (i *Info) take(line string) {
	kind, rest := cut(line, '\t')
	switch kind {
	case "mod":
		_, rest = cut(rest, '\t')
		if version, _ := cut(rest, '\t'); version != "" {
			i.Version = version
		}
	case "build":
		switch key, value := cut(rest, '='); key {
		case "vcs.revision":
			i.Commit = value
		case "vcs.modified":
			i.Dirty = value == "true"
		}
	}
}

// cut returns what stands before and after the first separator.
func cut(text string, separator byte) (before, after string) {
	for i := range len(text) {
		if text[i] == separator {
			return text[:i], text[i+1:]
		}
	}
	return text, ""
}

// Line is the program in one line, as `dlockctl version` prints it.
func (i Info) Line() string {
	built := i.Commit
	if built == "" {
		built = "unknown commit"
	}
	if i.Dirty {
		built += ", modified"
	}
	return "dlockctl " + i.Version + " (" + built + ", " + i.Go + ")\n"
}

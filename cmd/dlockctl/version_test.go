package main_test

import (
	"bytes"
	"debug/buildinfo"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// program is the built dlockctl.
type program string

// answer is what a process leaves behind.
type answer struct {
	Out, Err string
	// State is the exit code, or the signal.
	State string
	// initialised are the packages that were, in their order.
	initialised string
}

func buildProgram(t *testing.T) program {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "dlockctl")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", binary, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return program(binary)
}

// run runs the program with nothing but this environment, its stdout going to a
// file where one is given.
func (p program) run(t *testing.T, stdout *os.File, env []string, args ...string) answer {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), string(p), args...)
	cmd.Env = append([]string{"GODEBUG=inittrace=1"}, env...)
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	if stdout != nil {
		cmd.Stdout = stdout
	}
	var exit *exec.ExitError
	if err := cmd.Run(); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	a := answer{Out: out.String(), State: cmd.ProcessState.String()}
	for line := range strings.Lines(errOut.String()) {
		if traced, isTrace := strings.CutPrefix(line, "init "); isTrace {
			name, _, _ := strings.Cut(traced, " ")
			a.initialised += name + "\n"
			continue
		}
		a.Err += line
	}
	return a
}

// early tells that the answer came before the libraries were initialised.
func (a answer) early() bool { return !strings.Contains(a.initialised, "github.com/spf13/cobra\n") }

// `dlockctl version` answers before the libraries are initialised, what it would
// have answered after them; whatever asks for another answer gets it.
//
// Mutation: import os, fmt or runtime/debug in package early, leave a condition
// out of plainVersion, or exit though the line could not be written.
func TestVersionAnswersFirst(t *testing.T) {
	t.Parallel()
	p := buildProgram(t)
	home := t.TempDir()
	write(t, filepath.Join(home, "xdg", "dlockctl", "config.yaml"), "output: json\n")
	write(t, filepath.Join(home, "user", ".config", "dlockctl", "config.yaml"), "output: json\n")
	t.Run("early", func(t *testing.T) {
		t.Parallel()
		versionEarly(t, p, home)
	})
	t.Run("ordinary", func(t *testing.T) {
		t.Parallel()
		versionOrdinary(t, p, home)
	})
	t.Run("variables", func(t *testing.T) {
		t.Parallel()
		versionVariables(t, p, home)
	})
	t.Run("unwritable", func(t *testing.T) {
		t.Parallel()
		versionUnwritable(t, p)
	})
}

// ordinary is a flag that changes nothing but the way.
const ordinary = "--color=auto"

func versionEarly(t *testing.T, p program, home string) {
	t.Helper()
	for _, env := range [][]string{
		nil,
		{"HOME=" + home},
		{"HOME=" + home, "XDG_CONFIG_HOME=" + filepath.Join(home, "nowhere"), "DLOCKCTL_LOCK_DSN=nonsense", "NO_COLOR=1", "TERM=dumb"},
	} {
		got, want := p.run(t, nil, env, "version"), p.run(t, nil, env, "version", ordinary)
		if !got.early() || want.early() {
			t.Fatalf("%q: early is %t for the verb alone and %t with a flag", env, got.early(), want.early())
		}
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(answer{}), cmp.FilterPath(isTrace, cmp.Ignore())); diff != "" {
			t.Errorf("%q (-ordinary +early):\n%s", env, diff)
		}
		// What is initialised first is whatever imports no more than package early does:
		// this one is not among them, unless an import was added there.
		if strings.Contains(got.initialised, "\nos\n") {
			t.Errorf("%q: initialised before the answer:\n%s", env, got.initialised)
		}
		recorded, err := buildinfo.ReadFile(string(p))
		if err != nil {
			t.Fatal(err)
		}
		if want := "dlockctl " + recorded.Main.Version + " ("; !strings.HasPrefix(got.Out, want) || !strings.HasSuffix(got.Out, ", "+recorded.GoVersion+")\n") || got.State != "exit status 0" {
			t.Errorf("%q: %+v, want %s…, %s)", env, got, want, recorded.GoVersion)
		}
	}
}

func isTrace(p cmp.Path) bool { return p.Last().String() == ".initialised" }

func versionOrdinary(t *testing.T, p program, home string) {
	t.Helper()
	unreadable := filepath.Join(home, "xdg", "dlockctl", "config.yaml") // a file where a folder is expected
	for name, c := range map[string]struct {
		env, args []string
		isJSON    bool
		state     string
	}{
		"a flag":               {args: []string{"version", "-o", "json"}, isJSON: true},
		"a flag before it":     {args: []string{"-o", "json", "version"}, isJSON: true},
		"a variable":           {env: []string{"DLOCKCTL_OUTPUT=json"}, isJSON: true},
		"XDG_CONFIG_HOME":      {env: []string{"XDG_CONFIG_HOME=" + filepath.Join(home, "xdg")}, isJSON: true},
		"HOME":                 {env: []string{"HOME=" + filepath.Join(home, "user")}, isJSON: true},
		"APPDATA":              {env: []string{"APPDATA=" + filepath.Join(home, "xdg")}, isJSON: true},
		"a named file":         {env: []string{"DLOCKCTL_CONFIG=" + unreadable}, isJSON: true},
		"a named file missing": {env: []string{"DLOCKCTL_CONFIG=" + filepath.Join(home, "none.yaml")}},
		"a broken home":        {env: []string{"XDG_CONFIG_HOME=" + unreadable}},
		"an unknown flag":      {args: []string{"version", "--verbose"}, state: "exit status 2"},
		"an argument":          {args: []string{"version", "now"}, state: "exit status 2"},
		"an empty argument":    {args: []string{"version", ""}, state: "exit status 2"},
		"help":                 {args: []string{"version", "--help"}},
		"another verb":         {args: []string{"versions"}, state: "exit status 2"},
		"nothing":              {args: []string{}, state: "exit status 2"},
	} {
		if c.args == nil {
			c.args = []string{"version"}
		}
		if c.state == "" {
			c.state = "exit status 0"
		}
		got := p.run(t, nil, c.env, c.args...)
		if got.early() || got.State != c.state || json.Valid([]byte(got.Out)) != c.isJSON {
			t.Errorf("%s: early is %t, state %q, want %q; stdout %q, stderr %q", name, got.early(), got.State, c.state, got.Out, got.Err)
		}
	}
}

// versionVariables walks over every variable there is.
func versionVariables(t *testing.T, p program, home string) {
	t.Helper()
	env := []string{"HOME=" + home}
	shown := p.run(t, nil, env, "config", "show", "-o", "json")
	var settings []struct{ Key string }
	if err := json.Unmarshal([]byte(shown.Out), &settings); err != nil || len(settings) == 0 {
		t.Fatalf("config show answers %q: %v", shown.Out, err)
	}
	for _, s := range settings {
		variable := "DLOCKCTL_" + strings.ToUpper(strings.ReplaceAll(s.Key, ".", "_"))
		for _, value := range []string{"json", "true", "/nowhere"} {
			env := append(env, variable+"="+value)
			got, want := p.run(t, nil, env, "version"), p.run(t, nil, env, "version", ordinary)
			if got.Out != want.Out || got.Err != want.Err || got.State != want.State {
				t.Errorf("%s=%s: %+v, want %+v", variable, value, got, want)
			}
		}
	}
}

// versionUnwritable: a line that reached nobody is a failure.
func versionUnwritable(t *testing.T, p program) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "read-only")
	write(t, file, "")
	readOnly, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer readOnly.Close()
	read, nobody, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer nobody.Close()
	if err := read.Close(); err != nil {
		t.Fatal(err)
	}
	for name, stdout := range map[string]*os.File{"a file open for reading": readOnly, "a pipe that nobody reads": nobody} {
		got, want := p.run(t, stdout, nil, "version"), p.run(t, stdout, nil, "version", ordinary)
		if got.Err != want.Err || got.State != want.State || got.State == "exit status 0" {
			t.Errorf("%s: %+v, want %+v", name, got, want)
		}
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), fs.FileMode(0o600)); err != nil {
		t.Fatal(err)
	}
}

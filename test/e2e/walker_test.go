package e2e_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"
	"github.com/spf13/cobra"

	"github.com/dlockctl/dlockctl/internal/cli"
	"github.com/dlockctl/dlockctl/internal/cli/app"
	"github.com/dlockctl/dlockctl/internal/ui"
)

// Every verb has its script, and every script its verb. Nothing is exempt:
// __complete, by which shells ask for completions, is no command of the tree
// but added by cobra while it executes; completion_bash calls it.
//
// Mutation: remove a script, or add an empty one, or a verb.
func TestEveryVerbHasAScript(t *testing.T) {
	t.Parallel()
	verbs := map[string]string{}
	streams, _, _ := ui.Test("", nil)
	root := cli.NewRoot(app.New(streams, nil))
	root.InitDefaultHelpCmd()
	leaves(root, func(words []string) {
		verbs[strings.Join(words, "_")+".txtar"] = strings.Join(words, " ")
	})
	files, err := filepath.Glob(filepath.Join(scripts, "*"))
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, file := range files {
		name := filepath.Base(file)
		found = append(found, name)
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, flaw := range flaws(string(text), verbs[name]) {
			t.Errorf("%s: %s", name, flaw)
		}
	}
	if diff := cmp.Diff(slices.Sorted(maps.Keys(verbs)), found); diff != "" {
		t.Errorf("the scripts of the verbs (-want +got):\n%s", diff)
	}
}

// leaves visits the commands that do something by themselves.
func leaves(cmd *cobra.Command, visit func(words []string)) {
	// A command with flags of its own is a verb, though it hold others.
	if !cmd.HasSubCommands() || cmd.LocalNonPersistentFlags().HasFlags() {
		visit(strings.Fields(cmd.CommandPath())[1:])
	}
	for _, child := range cmd.Commands() {
		leaves(child, visit)
	}
}

// conditions are what testscript looks at before it runs a line.
var conditions = regexp.MustCompile(`^(\[[^]]*\]\s*)+`)

// flaws says what a script leaves open: each run of a program is followed by a
// look at both streams, the verb both succeeds and fails, and an error is seen
// in its JSON form. A condition before a line changes nothing.
func flaws(script, verb string) []string {
	var flaws []string
	var ran string
	var stdout, stderr, succeeds, fails, asJSON bool
	looked := func() {
		if ran != "" && !(stdout && stderr) {
			flaws = append(flaws, fmt.Sprintf("stdout and stderr are not both looked at after: %s", ran))
		}
	}
	for line := range strings.Lines(string(txtar.Parse([]byte(script)).Comment)) {
		line = conditions.ReplaceAllString(strings.TrimSpace(line), "")
		words := strings.Fields(strings.TrimPrefix(line, "! "))
		if len(words) == 0 {
			continue
		}
		switch words[0] {
		case "exec":
			flaws = append(flaws, "call programs by exits, which wants an exit code: "+line)
		case "exits", "signals":
			looked()
			ran, stdout, stderr = line, false, false
			if strings.Contains(ran+" ", " "+program+" "+verb+" ") {
				succeeds = succeeds || words[1] == "0"
				fails = fails || words[1] != "0"
			}
		case "stdout", "json", "setjson":
			stdout = true
		case "cmp", "cmpenv":
			stdout = stdout || words[1] == "stdout"
			stderr = stderr || words[1] == "stderr"
		case "stderr":
			stderr = true
		case "problem":
			asJSON, stderr = true, true
			stdout = stdout || words[1] != "-data"
		}
	}
	looked()
	for what, seen := range map[string]bool{"success of the verb": succeeds, "failure of the verb": fails, "error in JSON": asJSON} {
		if !seen {
			flaws = append(flaws, "there is no "+what)
		}
	}
	slices.Sort(flaws)
	return flaws
}

// A script that asserts nothing, or not everything, is found out.
func TestFlaws(t *testing.T) {
	t.Parallel()
	const complete = "exits 0 dlockctl lock show k\nstdout k\n! stderr .\n" +
		"exits 3 dlockctl lock show none -o json\nproblem not_found\n"
	for name, c := range map[string]struct {
		script string
		want   []string
	}{
		"complete": {complete, nil},
		"empty":    {"", []string{"there is no error in JSON", "there is no failure of the verb", "there is no success of the verb"}},
		"files only": {"-- a.txt --\n" + complete, []string{
			"there is no error in JSON", "there is no failure of the verb", "there is no success of the verb",
		}},
		"comments only": {"# exits 0 dlockctl lock show k\n", []string{
			"there is no error in JSON", "there is no failure of the verb", "there is no success of the verb",
		}},
		"no look at stderr": {"exits 0 dlockctl lock show k\nstdout k\n" + complete, []string{
			"stdout and stderr are not both looked at after: exits 0 dlockctl lock show k",
		}},
		"no look at the last one": {complete + "exits 0 dlockctl lock list\n", []string{
			"stdout and stderr are not both looked at after: exits 0 dlockctl lock list",
		}},
		"conditional, not looked at": {complete + "[unix] [exec:sh] exits 0 dlockctl lock list\n[unix] stdout k\n", []string{
			"stdout and stderr are not both looked at after: exits 0 dlockctl lock list",
		}},
		"signalled, not looked at": {complete + "[unix] signals TERM 143 stdout k dlockctl lock watch\n", []string{
			"stdout and stderr are not both looked at after: signals TERM 143 stdout k dlockctl lock watch",
		}},
		"another verb": {strings.ReplaceAll(complete, "lock show", "lock list"), []string{
			"there is no failure of the verb", "there is no success of the verb",
		}},
		"exec": {complete + "exec dlockctl lock show k\n", []string{
			"call programs by exits, which wants an exit code: exec dlockctl lock show k",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(c.want, flaws(c.script, "lock show")); diff != "" {
				t.Errorf("flaws (-want +got):\n%s", diff)
			}
		})
	}
}

package proof

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"slices"
	"strings"
)

// Test is one test and what its comment says it proves.
type Test struct {
	// Name is `package/path.TestName`, or a script's path.
	Name    string
	Clauses []string
	// Mutation is the change that turns the test red.
	Mutation string
}

// readTests collects the tests of a tree that name clauses.
func readTests(tree fs.FS) (tests []Test, problems []string, err error) {
	err = fs.WalkDir(tree, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if skippedDir(name) {
				return fs.SkipDir
			}
			return nil
		}
		read := readerFor(name)
		if read == nil {
			return nil
		}
		text, err := fs.ReadFile(tree, name)
		if err != nil {
			return err
		}
		found, bad, err := read(name, text)
		tests, problems = append(tests, found...), append(problems, bad...)
		return err
	})
	return tests, problems, err
}

func skippedDir(name string) bool {
	base := path.Base(name)
	return name != "." && (strings.HasPrefix(base, ".") || base == "node_modules" || base == "target" || base == "dist")
}

func readerFor(name string) func(string, []byte) ([]Test, []string, error) {
	switch {
	case strings.HasSuffix(name, ".txtar"):
		return readScript
	// The go command builds nothing under testdata, so no test stands there.
	case strings.HasSuffix(name, "_test.go") && !slices.Contains(strings.Split(name, "/"), "testdata"):
		return readGo
	}
	return nil
}

// readGo reads the doc comments of the test functions of one file. A claim in
// any other comment is reported: it would otherwise be lost without a word.
func readGo(name string, text []byte) (tests []Test, problems []string, err error) {
	file, err := parser.ParseFile(token.NewFileSet(), name, text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, nil, fmt.Errorf("parse %s: %w", name, err)
	}
	docs := map[*ast.CommentGroup]bool{}
	for _, decl := range file.Decls {
		fn, ok := decl.(*ast.FuncDecl)
		if !ok || fn.Doc == nil || fn.Recv != nil || !isTest(fn.Name.Name) {
			continue
		}
		docs[fn.Doc] = true
		test, bad := parseClaim(path.Dir(name)+"."+fn.Name.Name, fn.Doc.Text())
		problems = append(problems, bad...)
		if len(test.Clauses) > 0 {
			tests = append(tests, test)
		}
	}
	for _, group := range file.Comments {
		if !docs[group] && claims(group.Text()) {
			problems = append(problems, name+": a comment names clauses and is not the doc comment of a test")
		}
	}
	return tests, problems, nil
}

func isTest(name string) bool {
	return strings.HasPrefix(name, "Test") || strings.HasPrefix(name, "Fuzz")
}

// readScript reads the `#` comments of a testscript, not those of its files.
func readScript(name string, text []byte) (tests []Test, problems []string, err error) {
	script, _, _ := strings.Cut(string(text), "\n-- ")
	var comment strings.Builder
	for line := range strings.Lines(script) {
		if after, ok := strings.CutPrefix(strings.TrimSpace(line), "#"); ok {
			comment.WriteString(strings.TrimSpace(after))
		}
		comment.WriteByte('\n')
	}
	test, problems := parseClaim(name, comment.String())
	if len(test.Clauses) > 0 {
		tests = append(tests, test)
	}
	return tests, problems, nil
}

const (
	clausesWord  = "Clauses:"
	mutationWord = "Mutation:"
)

func claims(comment string) bool {
	for line := range strings.Lines(comment) {
		if strings.HasPrefix(line, clausesWord) {
			return true
		}
	}
	return false
}

// parseClaim reads `Clauses: K-1.2, K-2.3` and `Mutation: …` out of a comment.
// Either may run over several lines and ends at an empty one. A mutation alone
// is welcome: not every guard is a clause.
func parseClaim(name, comment string) (Test, []string) {
	var clauses, mutation []string
	var into *[]string
	for line := range strings.Lines(comment) {
		line = strings.TrimSpace(line)
		if rest, ok := strings.CutPrefix(line, clausesWord); ok {
			into, line = &clauses, rest
		} else if rest, ok := strings.CutPrefix(line, mutationWord); ok {
			into, line = &mutation, rest
		}
		if line == "" {
			into = nil
		}
		if into != nil {
			*into = append(*into, strings.TrimSpace(line))
		}
	}
	test := Test{Name: name, Mutation: strings.Join(mutation, " ")}
	var problems []string
	for id := range strings.SplitSeq(strings.Join(clauses, ","), ",") {
		id = strings.TrimSuffix(strings.TrimSpace(id), ".")
		switch {
		case id == "":
		case !clauseID.MatchString(id):
			problems = append(problems, fmt.Sprintf("%s: %q is no clause id; write `Clauses: K-1.2, K-2.3`", name, id))
		case !slices.Contains(test.Clauses, id):
			test.Clauses = append(test.Clauses, id)
		}
	}
	if len(test.Clauses) > 0 && test.Mutation == "" {
		problems = append(problems, name+": names clauses and no mutation; add `Mutation: <what to take out to turn it red>`")
	}
	return test, problems
}

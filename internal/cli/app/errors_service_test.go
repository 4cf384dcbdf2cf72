package app_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/dlockctl/dlockctl/internal/cli/app"
	"github.com/dlockctl/dlockctl/internal/service/problem"
)

// What a service answers and what the command line says are the same words: each
// code of a problem stands in docs/exit-codes.md, and each code that a store's error
// has can be said over HTTP, so that --server exits as lockdb itself would.
//
// Mutation: take a constant out of problem's list, or an entry out of its aliases
func TestProblemCodesAreTheCommandLines(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../../docs/exit-codes.md")
	if err != nil {
		t.Fatal(err)
	}
	spoken := map[string]bool{}
	for _, code := range problemCodes(t) {
		word := problem.CommandLine(code)
		spoken[word] = true
		if !strings.Contains(string(page), "| `"+word+"` | ") {
			t.Errorf("a service may answer %q, and docs/exit-codes.md has no row for %q", code, word)
		}
	}
	codes := app.StoreCodes()
	if len(codes) < 20 {
		t.Fatalf("only the codes %v: the table is not read", codes)
	}
	for _, code := range codes {
		if !spoken[code] {
			t.Errorf("a store's error is %q on the command line, and no service can say so", code)
		}
	}
}

// problemCodes reads the constants of package problem from their source.
func problemCodes(t *testing.T) []string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "../../service/problem/codes.go", nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	var codes []string
	ast.Inspect(file, func(n ast.Node) bool {
		decl, isDecl := n.(*ast.GenDecl)
		if isDecl && decl.Tok != token.CONST {
			return false
		}
		if text, isText := n.(*ast.BasicLit); isText && text.Kind == token.STRING {
			code, err := strconv.Unquote(text.Value)
			if err != nil {
				t.Fatal(err)
			}
			codes = append(codes, code)
		}
		return true
	})
	slices.Sort(codes)
	return codes
}

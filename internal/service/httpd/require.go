package httpd

import (
	"fmt"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"
)

// scopesKey is where an operation keeps its scopes.
const scopesKey = "dlockctl.scopes"

// Require names the scopes of an operation, any one of which is enough. Every
// operation needs one: Serve refuses to start a service with one that has none.
//
//	huma.Post(api, "/v1/locks/acquire", s.acquire, httpd.Require(httpd.Acquire))
func Require(anyOf ...Scope) func(*huma.Operation) {
	return func(op *huma.Operation) {
		if op.Metadata == nil {
			op.Metadata = map[string]any{}
		}
		op.Metadata[scopesKey] = anyOf
		names := make([]string, len(anyOf))
		for i, scope := range anyOf {
			names[i] = string(scope)
			op.Security = append(op.Security, map[string][]string{"key": {string(scope)}})
		}
		note := "Scope: " + strings.Join(names, " or ") + "."
		op.Description = strings.TrimSpace(op.Description + "\n\n" + note)
		// The frame reads the body before the operation starts, and bounds it; the
		// library's own deadline would go on counting while the operation waits.
		op.BodyReadTimeout = -1
	}
}

// ScopesOf returns the scopes of an operation, any one of which lets a caller in.
func ScopesOf(op *huma.Operation) []Scope {
	scopes, _ := op.Metadata[scopesKey].([]Scope)
	return scopes
}

// unscoped names the operations of an API that nobody gave a scope.
func unscoped(api huma.API) error {
	var bare []string
	for path, item := range api.OpenAPI().Paths {
		for _, op := range operations(item) {
			if len(ScopesOf(op)) == 0 {
				bare = append(bare, op.Method+" "+path)
			}
		}
	}
	if len(bare) == 0 {
		return nil
	}
	slices.Sort(bare)
	return fmt.Errorf("no scope is required by %s; give each operation httpd.Require", strings.Join(bare, ", "))
}

func operations(item *huma.PathItem) []*huma.Operation {
	all := []*huma.Operation{item.Get, item.Put, item.Post, item.Delete, item.Patch, item.Head, item.Options, item.Trace}
	return slices.DeleteFunc(all, func(op *huma.Operation) bool { return op == nil })
}

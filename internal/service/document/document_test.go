// Package document_test holds the committed OpenAPI documents and the reference in
// docs/http.md to what the services really register.
//
//	go test ./internal/service/document -update    writes them again
package document_test

import (
	"flag"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/danielgtaylor/huma/v2"
	"github.com/google/go-cmp/cmp"

	"github.com/dlockctl/dlockctl/internal/service/httpd"
	"github.com/dlockctl/dlockctl/internal/service/lockserver"
	"github.com/dlockctl/dlockctl/internal/service/payresource"
	"github.com/dlockctl/dlockctl/internal/service/railproxy"
	"github.com/dlockctl/dlockctl/internal/service/railsim"
	"github.com/dlockctl/dlockctl/internal/telemetry"
)

var update = flag.Bool("update", false, "write the documents again")

const docs = "../../../docs"

// marker parts what is written by hand in docs/http.md from what is not.
const marker = "<!-- The rest is generated: make generate -->\n"

// service is a service and its operations.
type service struct {
	name     string
	register func(huma.API)
}

// services lists those with operations of their own; payout-executor has the frame's
// alone.
func services() []service {
	return []service{
		{"lock-server", new(lockserver.Service).Register},
		{"payment-resource", new(payresource.Service).Register},
		{"rail-proxy", new(railproxy.Service).Register},
		{"rail-sim", new(railsim.Simulator).Register},
	}
}

// api is the service's API as it is served, under a version that does not change
// with each build.
func (s service) api(t *testing.T) huma.API {
	t.Helper()
	server, err := httpd.New(httpd.Options{
		Name: s.name, Version: "1", Listen: "127.0.0.1:0", Log: slog.New(slog.DiscardHandler), Metrics: telemetry.NewMetrics(s.name),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Close() })
	s.register(server.API())
	return server.API()
}

// Mutation: change a summary, a scope or a field of an operation
func TestOpenAPIDocuments(t *testing.T) {
	t.Parallel()
	for _, s := range services() {
		text, err := s.api(t).OpenAPI().YAML()
		if err != nil {
			t.Fatal(err)
		}
		compare(t, filepath.Join(docs, "openapi", s.name+".yaml"), string(text))
	}
	files, err := filepath.Glob(filepath.Join(docs, "openapi", "*"))
	if err != nil || len(files) != len(services()) {
		t.Errorf("docs/openapi holds %v, %v: one for each service", files, err)
	}
}

// Mutation: change a summary, a scope or a field of an operation
func TestHTTPReference(t *testing.T) {
	t.Parallel()
	path := filepath.Join(docs, "http.md")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	byHand, _, found := strings.Cut(string(text), marker)
	if !found {
		t.Fatalf("docs/http.md has no line %q", strings.TrimSpace(marker))
	}
	page := byHand + marker
	for _, s := range services() {
		page += reference(s.name, s.api(t).OpenAPI())
	}
	compare(t, path, page)
}

// compare holds a file to its content, or writes it.
func compare(t *testing.T, path, want string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	have, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(have), want); diff != "" {
		t.Errorf("%s is not what the services register; run make generate (-have +want):\n%s", path, diff)
	}
}

// Every operation says in words what it is, and has an id of its own over all
// services' documents, by which metrics and logs name it.
//
// Mutation: take the summary off an operation
func TestEveryOperationIsDescribed(t *testing.T) {
	t.Parallel()
	for _, s := range services() {
		for path, item := range s.api(t).OpenAPI().Paths {
			if strings.Contains(path, "{") {
				t.Errorf("%s %s: keys travel in the body or the query, never in the path (K-12.2)", s.name, path)
			}
			for _, op := range operations(item) {
				if op.Summary == "" || op.OperationID == "" || len(httpd.ScopesOf(op)) == 0 {
					t.Errorf("%s %s %s: summary %q, id %q, scopes %v", s.name, op.Method, path, op.Summary, op.OperationID, httpd.ScopesOf(op))
				}
			}
		}
	}
}

// A session's id is a secret and travels in bodies alone, for addresses are logged by
// whatever stands on the way.
//
// Clauses: K-2.12
// Mutation: take hidden off the session of listInput
func TestNoSessionInAQuery(t *testing.T) {
	t.Parallel()
	for _, s := range services() {
		for path, item := range s.api(t).OpenAPI().Paths {
			for _, op := range operations(item) {
				for _, p := range op.Parameters {
					if p.Name == "session_id" {
						t.Errorf("%s %s %s takes %s in the %s", s.name, op.Method, path, p.Name, p.In)
					}
				}
			}
		}
	}
}

func operations(item *huma.PathItem) []*huma.Operation {
	all := []*huma.Operation{item.Get, item.Put, item.Post, item.Delete, item.Patch}
	return slices.DeleteFunc(all, func(op *huma.Operation) bool { return op == nil })
}

// reference is a service's chapter: its operations, then the bodies they take and
// give.
func reference(name string, api *huma.OpenAPI) string {
	var b strings.Builder
	fmt.Fprintf(&b, "\n## %s\n\n| operation | scope | what |\n|---|---|---|\n", name)
	for _, path := range slices.Sorted(maps.Keys(api.Paths)) {
		for _, op := range operations(api.Paths[path]) {
			fmt.Fprintf(&b, "| `%s %s%s` | %s | %s |\n", op.Method, path, queryOf(op), scopesOf(op), cell(op.Summary+bodies(op)))
		}
	}
	fmt.Fprintf(&b, "\nThe whole, with every bound: [openapi/%[1]s.yaml](openapi/%[1]s.yaml).\n", name)
	schemas := api.Components.Schemas.Map()
	for _, schema := range slices.Sorted(maps.Keys(schemas)) {
		if schema != "Problem" {
			b.WriteString(fields(schema, schemas[schema]))
		}
	}
	return b.String()
}

func queryOf(op *huma.Operation) string {
	var names []string
	for _, p := range op.Parameters {
		if p.In == "query" {
			names = append(names, p.Name+"=")
		}
	}
	if len(names) == 0 {
		return ""
	}
	return "?" + strings.Join(names, "&")
}

func scopesOf(op *huma.Operation) string {
	var names []string
	for _, scope := range httpd.ScopesOf(op) {
		names = append(names, string(scope))
	}
	return strings.Join(names, " or ")
}

// bodies names what an operation takes and gives.
func bodies(op *huma.Operation) string {
	var words string
	for _, p := range op.Parameters {
		if p.In == "header" {
			words += "; header `" + p.Name + "`"
		}
	}
	if op.RequestBody != nil {
		words += "; takes " + typeOf(op.RequestBody.Content["application/json"].Schema)
	}
	for _, status := range slices.Sorted(maps.Keys(op.Responses)) {
		if content := op.Responses[status].Content["application/json"]; content != nil && status < "300" {
			words += "; gives " + status + " " + typeOf(content.Schema)
		}
		if op.Responses[status].Content["text/event-stream"] != nil {
			words += "; gives server-sent events"
		}
	}
	return words
}

// fields is the table of a body's fields.
func fields(name string, schema *huma.Schema) string {
	var b strings.Builder
	fmt.Fprintf(&b, "\n### %s\n\n| field | type | |\n|---|---|---|\n", name)
	for _, field := range slices.Sorted(maps.Keys(schema.Properties)) {
		of := schema.Properties[field]
		var notes []string
		if slices.Contains(schema.Required, field) {
			notes = append(notes, "always")
		}
		if of.Description != "" {
			notes = append(notes, of.Description)
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", field, typeOf(of), cell(strings.Join(notes, "; ")))
	}
	return b.String()
}

func typeOf(schema *huma.Schema) string {
	switch {
	case schema == nil:
		return "anything"
	case schema.Ref != "":
		return schema.Ref[strings.LastIndex(schema.Ref, "/")+1:]
	case schema.Type == huma.TypeArray:
		return "list of " + typeOf(schema.Items)
	case schema.Type == "":
		return "anything"
	case schema.Format != "":
		return schema.Type + ", " + schema.Format
	}
	return schema.Type
}

// cell fits a text into a table.
func cell(text string) string {
	return strings.ReplaceAll(strings.ReplaceAll(text, "|", "\\|"), "\n", " ")
}

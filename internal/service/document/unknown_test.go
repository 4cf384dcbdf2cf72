package document_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/danielgtaylor/huma/v2"

	"github.com/dlockctl/dlockctl/internal/service/httpd"
	"github.com/dlockctl/dlockctl/internal/service/httpdtest"
)

// A field or a parameter that an operation does not have is refused by its name, on
// every operation of every service: a ttl mistyped would be one left out.
//
// Mutation: leave DisallowUnknownFields out of unmarshal, or RejectUnknownQueryParameters out of newAPI.
func TestUnknownFieldsAreRefused(t *testing.T) {
	t.Parallel()
	for _, service := range services() {
		t.Run(service.name, func(t *testing.T) {
			t.Parallel()
			s := httpdtest.Start(t, httpd.Options{Name: service.name, Version: "1"}, service.register)
			bodies := 0
			for path, item := range s.Server.API().OpenAPI().Paths {
				for _, op := range operations(item) {
					if op.RequestBody == nil {
						refused(t, op, s.Do(t, op.Method, path+"?tll_ms=1", "", ""))
						continue
					}
					schema := resolve(s.Server.API(), op.RequestBody.Content["application/json"].Schema)
					for _, body := range mistyped(s.Server.API(), schema) {
						bodies++
						refused(t, op, s.Do(t, op.Method, path, "", body))
					}
				}
			}
			if bodies == 0 {
				t.Error("no operation takes a body")
			}
		})
	}
}

func refused(t *testing.T, op *huma.Operation, a httpdtest.Answer) {
	t.Helper()
	p := a.Problem()
	if a.Status != http.StatusUnprocessableEntity && a.Status != http.StatusBadRequest || !strings.Contains(p.Detail, "tll_ms") {
		t.Errorf("%s %s: %d %s, want the unknown tll_ms refused by its name", op.Method, op.Path, a.Status, a.Body)
	}
}

func resolve(api huma.API, schema *huma.Schema) *huma.Schema {
	if schema.Ref != "" {
		return api.OpenAPI().Components.Schemas.SchemaFromRef(schema.Ref)
	}
	return schema
}

// mistyped are bodies with a field that is not there: beside the others, and in each
// list of objects.
func mistyped(api huma.API, schema *huma.Schema) []string {
	bodies := []string{`{"tll_ms": 30000}`}
	for name, property := range schema.Properties {
		if property.Items != nil && resolve(api, property.Items).Type == huma.TypeObject {
			bodies = append(bodies, `{"`+name+`": [{"tll_ms": 30000}]}`)
		}
	}
	return bodies
}

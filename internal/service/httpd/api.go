package httpd

import (
	"net/http"
	"reflect"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/dlockctl/dlockctl/internal/service/problem"
)

// newAPI makes the API of a service: JSON alone, problem details of our own, no
// documentation page (the library's would load its scripts from elsewhere).
func newAPI(mux *http.ServeMux, name, version string) huma.API {
	registry := huma.NewMapRegistry("#/components/schemas/", huma.DefaultSchemaNamer)
	// The library's own error type is replaced per API, in the document here and on
	// the wire by say: its package variable would be one for the whole process.
	registry.RegisterTypeAlias(reflect.TypeFor[huma.ErrorModel](), reflect.TypeFor[problem.Problem]())
	return humago.New(mux, huma.Config{
		OpenAPI: &huma.OpenAPI{
			OpenAPI: "3.1.0",
			Info:    &huma.Info{Title: name, Version: version},
			Components: &huma.Components{
				Schemas: registry,
				SecuritySchemes: map[string]*huma.SecurityScheme{
					"key": {Type: "http", Scheme: "bearer", Description: "An API key, or instead of it a client certificate."},
				},
			},
		},
		Formats:                      map[string]huma.Format{"application/json": jsonFormat(), "json": jsonFormat()},
		DefaultFormat:                "application/json",
		RejectUnknownQueryParameters: true,
		Transformers:                 []huma.Transformer{say},
	})
}

// say puts the request's id into a problem, and makes one of the library's errors.
func say(ctx huma.Context, _ string, body any) (any, error) {
	var p *problem.Problem
	switch e := body.(type) {
	case *problem.Problem:
		known := *e // a problem may be a package's own value: it is not written to
		p = &known
	case *huma.ErrorModel:
		p = fromLibrary(e)
		logUnexpected(exchangeOf(ctx.Context()), e)
	default:
		return body, nil
	}
	if x := exchangeOf(ctx.Context()); x != nil {
		x.code = p.Code
		p.Instance = "urn:dlockctl:request:" + x.id
	}
	return p, nil
}

// flaw is one thing that is wrong with a request.
type flaw struct {
	Location string `json:"location,omitempty"`
	Message  string `json:"message"`
}

// fromLibrary makes a problem of an error of the library's own: a body that does
// not fit the schema, an error nobody made a problem of. Values are left out, for
// one may be a session id; so is what an unexpected error says, which is for the
// log.
func fromLibrary(e *huma.ErrorModel) *problem.Problem {
	if e.Status >= http.StatusInternalServerError {
		return unexpected(e.Status)
	}
	var flaws []flaw
	text := []string{e.Detail}
	for _, detail := range e.Errors {
		if detail == nil {
			continue
		}
		flaws = append(flaws, flaw{detail.Location, detail.Message})
		text = append(text, strings.TrimPrefix(detail.Location+": "+detail.Message, ": "))
	}
	p := problem.New(e.Status, codeOf(e.Status), strings.Join(text, "; "))
	if len(flaws) > 0 {
		return p.WithDetails(flaws)
	}
	return p
}

// codeOf finds the code of a status that the library chose.
func codeOf(status int) string {
	switch status {
	case http.StatusNotFound:
		return problem.NotFound
	case http.StatusRequestEntityTooLarge:
		return problem.TooLarge
	case http.StatusUnsupportedMediaType, http.StatusNotAcceptable:
		return problem.MediaType
	case http.StatusRequestTimeout:
		return problem.TooSlow
	}
	return problem.Usage
}

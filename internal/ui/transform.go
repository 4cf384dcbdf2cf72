package ui

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"text/template"
	"time"

	"github.com/itchyny/gojq"
)

// Transform turns the JSON form of a result into what --jq or --template asks
// for. The strings it sees hold no unsafe runes, so that neither an expression
// nor a template can hand a hostile owner to a terminal.
type Transform interface {
	apply(doc document) ([]byte, error)
}

// TransformError is returned by Print: the expression or the columns do not fit
// the result, which stands in Result as JSON, for what was printed is done.
type TransformError struct {
	Err    error
	Result json.RawMessage
}

func (e *TransformError) Error() string { return e.Err.Error() }

func (e *TransformError) Unwrap() error { return e.Err }

type jq struct{ code *gojq.Code }

// ParseJQ reads a jq expression. It sees neither the environment nor files.
func ParseJQ(expr string) (Transform, error) {
	query, err := gojq.Parse(expr)
	if err != nil {
		return nil, fmt.Errorf("jq expression %q: %w", expr, err)
	}
	code, err := gojq.Compile(query)
	if err != nil {
		return nil, fmt.Errorf("jq expression %q: %w", expr, err)
	}
	return jq{code}, nil
}

// apply prints each result on a line of its own: a string as it is, all else as
// compact JSON.
func (q jq) apply(doc document) ([]byte, error) {
	value, err := decodeVisible(doc.plain)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	for results := q.code.Run(value); ; {
		result, more := results.Next()
		if !more {
			return out.Bytes(), nil
		}
		switch v := result.(type) {
		case error:
			if halt, ok := errors.AsType[*gojq.HaltError](v); ok && halt.Value() == nil {
				return out.Bytes(), nil
			}
			return nil, v
		case string:
			out.WriteString(v)
		default:
			text, err := gojq.Marshal(v)
			if err != nil {
				return nil, fmt.Errorf("encode what the expression gave: %w", err)
			}
			out.Write(escapeUnsafe(text))
		}
		out.WriteByte('\n')
	}
}

type goTemplate struct{ *template.Template }

// ParseTemplate reads a Go template over the JSON form, whose fields have their
// JSON names; see templateFuncs for what it can call.
func ParseTemplate(text string) (Transform, error) {
	t, err := template.New("--template").Funcs(templateFuncs()).Option("missingkey=error").Parse(text)
	if err != nil {
		return nil, fmt.Errorf("template: %w", err)
	}
	return goTemplate{t}, nil
}

// templateFuncs are what a template can call beside Go's own.
func templateFuncs() template.FuncMap {
	return template.FuncMap{
		// json writes a value as compact JSON.
		"json": func(v any) (string, error) {
			text, err := gojq.Marshal(v)
			return string(escapeUnsafe(text)), err
		},
		// join joins a list.
		"join": func(separator string, list []any) string {
			parts := make([]string, len(list))
			for i, v := range list {
				parts[i] = fmt.Sprint(v)
			}
			return strings.Join(parts, separator)
		},
		// duration writes milliseconds as a person reads them.
		"duration": func(ms json.Number) (string, error) {
			n, err := ms.Int64()
			return (time.Duration(n) * time.Millisecond).String(), err
		},
	}
}

func (t goTemplate) apply(doc document) ([]byte, error) {
	value, err := decodeVisible(doc.plain)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	if err := t.Execute(&out, value); err != nil {
		return nil, err //nolint:wrapcheck // it names the template and the place in it
	}
	if out.Len() > 0 && !bytes.HasSuffix(out.Bytes(), []byte("\n")) {
		out.WriteByte('\n')
	}
	return out.Bytes(), nil
}

// decodeVisible decodes JSON with the digits of numbers kept (K-5.4) and the
// unsafe runes of strings escaped.
func decodeVisible(text []byte) (any, error) {
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	var value any
	if err := dec.Decode(&value); err != nil {
		return nil, fmt.Errorf("take the result apart: %w", err)
	}
	return visibleStrings(value), nil
}

func visibleStrings(value any) any {
	switch v := value.(type) {
	case string:
		return Visible(v)
	case []any:
		for i := range v {
			v[i] = visibleStrings(v[i])
		}
	case map[string]any:
		for name := range v {
			v[name] = visibleStrings(v[name])
		}
	}
	return value
}

// pick returns the columns that --columns names by their JSON name or their
// title, in the order named.
func pick(columns []Column, names []string) ([]Column, error) {
	picked := make([]Column, 0, len(names))
	for _, name := range names {
		found := false
		for _, c := range columns {
			if found = strings.EqualFold(c.Field, name) || strings.EqualFold(c.Title, name); found {
				c.Wide, c.Optional = false, false // asked for by name
				picked = append(picked, c)
				break
			}
		}
		if !found {
			known := make([]string, len(columns))
			for i, c := range columns {
				known[i] = c.Field
			}
			return nil, fmt.Errorf("there is no column %q; there are %s", name, strings.Join(known, ", "))
		}
	}
	return picked, nil
}

package reconcile_test

import (
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/dlockctl/dlockctl/internal/reconcile"
)

// Every field of a report is named in its section of docs/json.md.
//
// Mutation: take any field out of the section.
func TestEveryFieldOfAReportIsDocumented(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../../docs/json.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(string(page), "\n## reconcile\n")
	section, _, ended := strings.Cut(section, "\n## ")
	if !found || !ended {
		t.Fatal("docs/json.md has no section for reconcile")
	}
	names := map[string]bool{}
	fields(reflect.TypeFor[reconcile.Report](), names)
	if len(names) < 50 {
		t.Errorf("%d fields found: the search is broken", len(names))
	}
	for name := range names {
		if !strings.Contains(section, "`"+name+"`") {
			t.Errorf("the field %q is not in the section", name)
		}
	}
}

// fields collects the JSON names of a type and of all that it holds.
func fields(t reflect.Type, names map[string]bool) {
	switch t.Kind() { //nolint:exhaustive // the other kinds hold nothing
	case reflect.Pointer, reflect.Slice:
		fields(t.Elem(), names)
	case reflect.Struct:
		if t == reflect.TypeFor[time.Time]() {
			return
		}
		for field := range t.Fields() {
			name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			names[name] = true
			fields(field.Type, names)
		}
	}
}

package restore_test

import (
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/restore"
)

// Every field of the JSON that runbooks read is named in its section of the page.
//
// Mutation: take any field out of a section of docs/json.md.
func TestEveryFieldIsDocumented(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../../docs/json.md")
	if err != nil {
		t.Fatal(err)
	}
	plan := section(t, string(page), "restore plan")
	verify := section(t, string(page), "restore verify")
	for _, c := range []struct {
		name string
		of   any
		text string
	}{
		{"restore plan", restore.Plan{}, plan},
		{"restore verify", restore.Verification{}, verify + plan},
		{"restore fast-forward", restore.Result{}, section(t, string(page), "restore fast-forward") + plan + verify},
		{"restore paydb", restore.PayRepair{}, section(t, string(page), "restore paydb")},
		{"freeze, thaw", restore.GateResult{}, section(t, string(page), "freeze, thaw") + plan},
	} {
		names := fields(reflect.TypeOf(c.of))
		if len(names) < 4 {
			t.Errorf("%s: only %v found: the search is broken", c.name, names)
		}
		for _, name := range names {
			if !strings.Contains(c.text, "`"+name+"`") {
				t.Errorf("%s: field %q is not in docs/json.md", c.name, name)
			}
		}
	}
}

func section(t *testing.T, page, title string) string {
	t.Helper()
	_, text, found := strings.Cut(page, "\n## "+title+"\n")
	if !found {
		t.Fatalf("docs/json.md has no section %q", title)
	}
	text, _, _ = strings.Cut(text, "\n## ")
	return text
}

// fields are the JSON names of a struct and of what is nested in it.
func fields(of reflect.Type) []string {
	switch of.Kind() {
	case reflect.Pointer, reflect.Slice:
		return fields(of.Elem())
	case reflect.Struct:
	default:
		return nil
	}
	if of == reflect.TypeFor[time.Time]() || of == reflect.TypeFor[lockstore.Time]() {
		return nil
	}
	var names []string
	for field := range of.Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if name != "" && name != "-" {
			names = append(names, name)
		}
		names = append(names, fields(field.Type)...)
	}
	return names
}

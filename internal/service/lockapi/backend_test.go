package lockapi_test

import (
	"reflect"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/service/lockapi"
)

// What a store declares, a client declares, with every field.
//
// Mutation: leave a field out of NewBackend or of its Value.
func TestBackendSurvivesTheWire(t *testing.T) {
	t.Parallel()
	var all lockstore.Capabilities
	fields := reflect.ValueOf(&all).Elem()
	for i := range fields.NumField() {
		switch field := fields.Field(i); field.Interface().(type) {
		case string:
			field.SetString("b")
		case bool:
			field.SetBool(true)
		case time.Duration:
			field.SetInt(int64(time.Second) * int64(i))
		case int:
			field.SetInt(int64(i))
		default:
			t.Fatalf("%s: write how it is filled", fields.Type().Field(i).Name)
		}
	}
	for _, want := range []lockstore.Capabilities{all, {}} {
		if diff := cmp.Diff(want, lockapi.NewBackend(want).Value()); diff != "" {
			t.Error(diff)
		}
	}
}

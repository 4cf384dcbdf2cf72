package instance_test

import (
	"strings"
	"testing"

	"github.com/dlockctl/dlockctl/internal/instance"
)

func TestValidEnvironment(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"p", "prod-eu", "9", "a.b_c-d", strings.Repeat("a", 63)} {
		if err := instance.ValidEnvironment(name); err != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
	for _, name := range []string{"", "Prod", "-a", ".a", "_a", "a b", "ä", "a\n", strings.Repeat("a", 64)} {
		if err := instance.ValidEnvironment(name); err == nil {
			t.Errorf("%q was accepted", name)
		}
	}
}

package restore_test

import (
	"testing"

	"github.com/dlockctl/dlockctl/internal/etcdtest"
)

func TestMain(m *testing.M) { etcdtest.Main(m) }

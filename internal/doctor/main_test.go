package doctor_test

import (
	"testing"

	"github.com/dlockctl/dlockctl/internal/etcdtest"
	"github.com/dlockctl/dlockctl/internal/pgtest"
)

func TestMain(m *testing.M) { etcdtest.Main(m, pgtest.Main) }

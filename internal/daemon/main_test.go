package daemon_test

import (
	"testing"

	"github.com/belljar/belljar/test/program"
)

func TestMain(m *testing.M) { program.Main(m) }

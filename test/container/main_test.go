//go:build linux

package container

import (
	"os"
	"testing"

	"github.com/belljar/belljar/test/dockerd"
)

func TestMain(m *testing.M) { os.Exit(dockerd.Main(m)) }

//go:build linux

package e2e

import (
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/belljar/belljar/test/build"
	"github.com/belljar/belljar/test/dockerd"
	"github.com/belljar/belljar/test/image"
)

// lane is a default runtime for servers under test, and an image for it.
type lane struct {
	runtime string
	image   string
}

// lanes are the runtimes on which every promise of a server must hold.
func lanes() []lane {
	return []lane{{"native", "host"}, {"gvisor", "host"}, {"docker", "busybox"}}
}

// open returns the server's flags. A lane that is unavailable here reports why.
func (l lane) open(t *testing.T) (args []string) {
	t.Helper()
	switch l.runtime {
	case "gvisor":
		program, err := filepath.Abs("../../bin/belljar-runsc")
		if err == nil {
			_, err = os.Stat(program)
		}
		if err != nil && build.Prepared() {
			t.Fatalf("lane gvisor cannot run: %v; make test builds it", err)
		}
		if err != nil {
			t.Skipf("lane gvisor cannot run: %v; make gvisor builds it", err)
		}
		args = []string{"--set", "gvisor_path=" + program}
	case "docker":
		args = []string{"--set", "docker_host=" + dockerd.Start(t).Host()}
	}
	return append(args, "--set", "default_runtime="+l.runtime)
}

// furnish gives a server the lane's image.
func (l lane) furnish(s *server) {
	s.t.Helper()
	if l.image != "host" {
		s.imports(l.image, image.Busybox(s.t))
	}
}

// imports gives a server an image of its own.
func (s *server) imports(name, tar string) {
	s.t.Helper()
	f, err := os.Open(tar)
	if err != nil {
		s.t.Fatal(err)
	}
	defer f.Close()
	status, made := s.ask(http.MethodPost, api+"/images/import?name="+name, f, "Content-Type: application/x-tar")
	if status/100 != 2 {
		s.t.Fatalf("import %s: %d %v", name, status, made)
	}
}

package docker_test

import (
	"os"
	"testing"

	"github.com/belljar/belljar/internal/runtime/docker"
)

// A real Podman, on the socket that BELLJAR_TEST_PODMAN names, is recognised and refused by name.
func TestPodman(t *testing.T) {
	socket := os.Getenv("BELLJAR_TEST_PODMAN")
	if socket == "" {
		t.Skip("BELLJAR_TEST_PODMAN names no socket")
	}
	caps, err := open(t, docker.Options{Host: "unix://" + socket, Installation: name()}).Probe(t.Context())
	if err != nil || caps.Available || len(caps.Reasons) != 1 || caps.Reasons[0].Code != "feature_not_implemented" {
		t.Errorf("%+v, %v", caps, err)
	}
}

package docker_test

import (
	"errors"
	"testing"

	"github.com/moby/moby/api/types/container"

	"github.com/belljar/belljar/internal/runtime"
	"github.com/belljar/belljar/internal/runtime/docker"
)

// An engine without CPU quotas refuses a container with one. Its sandboxes have none, where the request waives that.
func TestNoCPUQuota(t *testing.T) {
	e := newEngine()
	e.info.CPUCfsQuota = false
	e.create = func(c *container.InspectResponse) error {
		if c.HostConfig.NanoCPUs != 0 {
			return errors.New("NanoCPUs can not be set, as your kernel does not support CPU CFS scheduler or the cgroup is not mounted")
		}
		return nil
	}
	r := talk(t, e, docker.Options{})
	var step *runtime.StepError
	if _, err := r.Create(t.Context(), spec("x")); !errors.As(err, &step) || step.Step != "attach" {
		t.Error(err)
	}
}

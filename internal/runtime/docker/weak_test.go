package docker_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/image"

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

// An engine that is replaced by one with another API version, which no longer accepts the old one, is usable at once.
func TestReplacedEngine(t *testing.T) {
	e := newEngine()
	r := talk(t, e, docker.Options{})
	for _, version := range []string{"1.41", "1.44", "1.40"} {
		e.mu.Lock()
		e.api, e.info.ServerVersion = version, "engine "+version
		e.mu.Unlock()
		if caps, err := r.Probe(t.Context()); err != nil || !caps.Available || caps.Version != "engine "+version {
			t.Errorf("%s: %+v, %v", version, caps, err)
		}
		if _, err := r.List(t.Context()); err != nil {
			t.Errorf("%s: %v", version, err)
		}
	}
	e.mu.Lock()
	e.api = "1.39"
	e.mu.Unlock()
	if caps, err := r.Probe(t.Context()); err != nil || caps.Available || !strings.Contains(caps.Reasons[0].Hint, "19.03") {
		t.Errorf("an old one: %+v, %v", caps, err)
	}
}

// One image from which no container can be made does not prove that the engine is at fault, but several do. The simulated engine has no
// agent, so that the sandbox of a good image fails in the step after the container's.
func TestImagesThatDoNotStart(t *testing.T) {
	for name, c := range map[string]struct {
		bad, creates int
		step, detail string
	}{"the first": {1, 2, "attach", ""}, "two": {2, 3, "attach", ""}, "all": {5, 3, "create", "image 1"}} {
		e := newEngine()
		for i := range 5 {
			e.images = append(e.images, image.Summary{ID: "sha256:1", RepoTags: []string{fmt.Sprintf("image:%d", i)}})
		}
		creates := 0
		e.create = func(*container.InspectResponse) error {
			if creates++; creates <= c.bad {
				return fmt.Errorf("image %d has no layers", creates)
			}
			return nil
		}
		caps, err := talk(t, e, docker.Options{}).Test(t.Context())
		if err != nil || caps.Available || caps.Reasons[0].Step != c.step || !strings.Contains(caps.Reasons[0].Detail, c.detail) || creates != c.creates {
			t.Errorf("%s: %+v, %v, %d containers", name, caps.Reasons, err, creates)
		}
	}
}

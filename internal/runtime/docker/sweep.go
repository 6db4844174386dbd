package docker

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"github.com/belljar/belljar"
)

// deadAge is how long a sandbox of another installation must have ended, or have been made and not started, before it counts as
// orphaned. The server of a living installation looks at its sandboxes and removes them within minutes.
const deadAge = time.Hour

// SweepOthers removes the remains of dead sandboxes of other installations, and of processes that were killed while they filled a volume:
// no server of theirs may return to do it. An engine that is away has nothing that can be removed now. It returns how many sandboxes it
// removed.
func (r *Runtime) SweepOthers(ctx context.Context) (int, error) {
	asking, cancel := context.WithTimeout(ctx, r.engine.answering())
	defer cancel()
	if _, err := r.engine.ask(asking); err != nil {
		return 0, nil
	}
	got, err := r.engine.api().ContainerList(ctx, client.ContainerListOptions{
		All: true, Filters: client.Filters{}.Add("label", labelInstallation).Add("status", "created").Add("status", "exited").Add("status", "dead"),
	})
	if err != nil {
		return 0, fault(stepEngine, err)
	}
	swept := 0
	errs := []error{r.volumes.sweepFills(ctx)}
	for _, item := range got.Items {
		if !r.engine.ofOther(item) || !r.engine.dead(ctx, item.ID) {
			continue
		}
		if err := r.engine.destroy(ctx, item.ID); err != nil {
			errs = append(errs, err)
			continue
		}
		swept++
	}
	return swept, errors.Join(errs...)
}

// ofOther reports whether a container is a sandbox of another installation, by its label and its name: an image can have any label.
func (e *engine) ofOther(c container.Summary) bool {
	other := c.Labels[labelInstallation]
	if other == e.opts.Installation || !belljar.ValidID(other) {
		return false
	}
	for _, name := range c.Names {
		if id, ok := strings.CutPrefix(name, "/belljar-"+other+"-"); ok && belljar.ValidID(id) {
			return true
		}
	}
	return false
}

// dead reports whether a container has long ended, or was long made and not started.
func (e *engine) dead(ctx context.Context, id string) bool {
	got, err := e.api().ContainerInspect(ctx, id, client.ContainerInspectOptions{})
	if err != nil || got.Container.State == nil {
		return false
	}
	since := got.Container.State.FinishedAt
	switch got.Container.State.Status {
	case container.StateCreated:
		since = got.Container.Created
	case container.StateExited, container.StateDead:
	default:
		return false
	}
	at, err := time.Parse(time.RFC3339Nano, since)
	return err == nil && !at.IsZero() && time.Since(at) > deadAge
}

package docker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/moby/moby/client"

	"github.com/belljar/belljar/internal/runtime"
)

// kills counts the processes of a container that were killed for lack of memory, by the events of its engine. Docker 20.10
// reports them nowhere else while a container runs. An engine keeps its latest 256 events.
type kills struct {
	n    int64
	last int64 // when the engine reported the last one, in nanoseconds of its clock
}

// lateKill is how long after a kill the engine may report it.
const lateKill = 100 * time.Millisecond

// count adds the number of kills until now, by the engine's clock, to the usage of a sandbox. An engine whose events cannot be read has
// no such figure.
func (k *kills) count(ctx context.Context, s *sandbox, u *runtime.Usage, now time.Time) {
	ctx, cancel := context.WithTimeout(ctx, s.rt.engine.answering())
	defer cancel()
	stamp := func(nanos int64) string { return fmt.Sprintf("%d.%09d", nanos/1e9, nanos%1e9) }
	got := s.rt.engine.api().Events(ctx, client.EventsListOptions{
		Since: stamp(max(k.last, 1)), Until: stamp(now.Add(lateKill).UnixNano()),
		Filters: client.Filters{}.Add("type", "container").Add("event", "oom").Add("container", s.container),
	})
	for {
		select {
		case e := <-got.Messages:
			if e.TimeNano > k.last {
				k.n, k.last = k.n+1, e.TimeNano
			}
		case err := <-got.Err:
			if errors.Is(err, io.EOF) || k.last > 0 {
				u.OOMKills, u.Sources["oom_kills"] = new(k.n), "docker events"
			}
			return
		}
	}
}

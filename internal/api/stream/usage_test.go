package stream

import (
	"context"
	"iter"
	"net/http"
	"testing"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/api"
)

// Usage has no samples, as of a run that waits for its sandbox.
func (s service) Usage() belljar.Usages { return waiting{begun: s.engine.watched} }

type waiting struct {
	belljar.Usages
	begun chan<- struct{}
}

func (w waiting) Run(ctx context.Context, _ string) iter.Seq2[belljar.UsageSample, error] {
	return func(yield func(belljar.UsageSample, error) bool) {
		w.begun <- struct{}{}
		<-ctx.Done()
	}
}

// A watcher of what has no sample yet learns why it gets none.
func TestUsageEndsBeforeItBegins(t *testing.T) {
	for name, c := range map[string]struct {
		end  func(*bench, *api.Uses)
		want int
	}{
		"revoked":  {func(_ *bench, uses *api.Uses) { uses.End("ann") }, http.StatusUnauthorized},
		"shutdown": {func(b *bench, _ *api.Uses) { b.door.Close() }, http.StatusServiceUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			var uses api.Uses
			b := newBench(t, func(o *Options) { o.Auth = revocable{&uses} })
			b.engine.watched = make(chan struct{}, 1)
			go func() {
				<-b.engine.watched
				c.end(b, &uses)
			}()
			header := as("ann")
			header.Set("Accept", "text/event-stream")
			if resp, body := b.get(b.path("r", "usage"), header); resp.StatusCode != c.want {
				t.Errorf("%d %q", resp.StatusCode, body)
			}
		})
	}
}

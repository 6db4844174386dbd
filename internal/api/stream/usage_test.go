package stream

import (
	"bufio"
	"context"
	"fmt"
	"iter"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/belljar/belljar"
	"github.com/belljar/belljar/internal/api"
)

// Usage has no samples, like that of a run that waits for its sandbox.
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

// A watcher of a run without samples gets the reason for their absence.
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

// TestUsageHead checks that a HEAD request ends: another request on its connection is answered before the run
// ends.
func TestUsageHead(t *testing.T) {
	b := newBench(t, func(o *Options) { o.PingEvery = time.Millisecond })
	b.engine.watched = make(chan struct{}, 2)
	conn, err := net.Dial("tcp", b.server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	in := bufio.NewReader(conn)
	for range 2 {
		fmt.Fprintf(conn, "HEAD %s HTTP/1.1\r\nHost: x\r\nX-User: ann\r\nAccept: text/event-stream\r\n\r\n", b.path("r", "usage"))
		answer, err := http.ReadResponse(in, &http.Request{Method: "HEAD"})
		if err != nil || answer.StatusCode != 200 || answer.Header.Get("Content-Type") != "text/event-stream" {
			t.Fatal(answer, err)
		}
	}
}

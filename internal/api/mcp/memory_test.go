package mcp

import (
	"encoding/json"
	"runtime"
	"strings"
	"testing"
	"weak"
)

// Events that are evicted do not stay in memory with their stream.
func TestEvictedEventsAreFreed(t *testing.T) {
	e, ctx := &events{}, t.Context()
	for _, stream := range []string{"a", "b"} {
		if err := e.Open(ctx, "s", stream); err != nil {
			t.Fatal(err)
		}
	}
	if err := e.Append(ctx, "s", "a", make([]byte, 4096)); err != nil {
		t.Fatal(err)
	}
	kept := weak.Make(&e.order.Front().Value.(*eventStream).data[0][0])
	if err := e.Append(ctx, "s", "b", make([]byte, maxEventBytes)); err != nil {
		t.Fatal(err)
	}
	runtime.GC()
	if kept.Value() != nil {
		t.Error("an evicted event is in memory")
	}
	runtime.KeepAlive(e)
}

// The contents of a client's cancellations do not stay in memory.
func TestCancellationsAreSmall(t *testing.T) {
	s := &clientSession{late: map[string]bool{}}
	const size, cancellations = 256 << 10, 100
	long := strings.Repeat("x", size)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for n := range cancellations {
		params, err := json.Marshal(map[string]any{"requestId": string(rune('a'+n)) + long, "reason": "timed out " + long})
		if err != nil {
			t.Fatal(err)
		}
		s.noteCancelled(params)
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); grown > size*cancellations/4 {
		t.Errorf("%d bytes are kept", grown)
	}
	for _, ask := range []struct {
		about string
		want  bool
	}{{"the first time", true}, {"the second time", false}} {
		if s.clientTimedOut(requestKey("a"+long)) != ask.want {
			t.Errorf("%s it is not %v that the client stopped waiting", ask.about, ask.want)
		}
	}
}
